"""The contract between the scheduler and its plugins, and the runtime that runs them.

`status` is what plugins answer, `state` what they remember during an attempt, `plugin_interfaces` what they implement,
`events` what wakes the pods they refused, `registry` how they are found and built. A plugin needs these and nothing
else of the scheduler. The pods and nodes it sees are `rota.columns.pods.PodInfo`, `rota.columns.nodes.NodeInfo` and,
for the vector form, `rota.columns.cluster.Cluster`; objects of other kinds are in `cluster.catalog`.
"""
