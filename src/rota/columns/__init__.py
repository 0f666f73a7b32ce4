"""The cluster as NumPy columns: a row per node, updated by deltas. Pure.

`cluster.Cluster` is the entry point; `pod_interner` and `objects` decode pods and nodes; `change_log` and `snapshots`
let readers follow changes; `allocation`, `affinities`, `topology_spread`, `taints`, `labels` and `requirements` compute
over all nodes at once. Plugins and profiles are not known here (`rota.scheduler`).
"""
