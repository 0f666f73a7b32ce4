"""The scheduling cycle: one attempt to place a pod, and the watchdog for plugins."""
