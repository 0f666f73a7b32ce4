"""DaemonSets: one pod on every node that should have one."""
