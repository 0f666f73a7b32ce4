"""The scheduling cycle: one attempt to place a pod or a group of pods, and the watchdog for plugins."""
