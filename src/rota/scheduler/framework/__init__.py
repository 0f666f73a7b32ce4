"""The framework: the interface between the scheduler and its plugins, and the runtime that runs them.

`status` has the statuses that plugins return, `state` the data that they keep during an attempt, `plugin_interfaces`
the extension points that they implement, `events` the events that wake the pods they refused, `registry` their
discovery and construction. A plugin needs these and nothing else of the scheduler. The pods and nodes it sees are
`rota.columns.pods.PodInfo`, `rota.columns.nodes.NodeInfo` and, for the vector form, `rota.columns.cluster.Cluster`;
objects of other kinds are in `cluster.catalog`. The plugins themselves are in `rota.scheduler.plugins`.
"""
