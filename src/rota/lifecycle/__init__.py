"""The life cycle of a cluster: create, scale, upgrade, repair and delete it on machines of its own.

Pure decisions: `cluster_spec` (what the file wants), `observed` (what the machines have), `planner` (the steps between
the two), `service_units` (command lines and systemd units). I/O: `reach` (this machine, or ssh), `journal`, `runner`,
`bundle`. `on_host` and `supervisor` are programs for the machines themselves: they need Python's standard library
only.
"""
