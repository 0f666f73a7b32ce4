"""Several schedulers that share the pods of a cluster.

- `shard_map`: which scheduler decides a pod; pure.
- `ownership`: which pods one scheduler may decide while the map changes; pure.
- `node_knowledge`: what one scheduler knows of the bindings of others, and whether its own depend on that; pure.
- `map_planning`: the next map from the live schedulers and their load; pure.
- `instance_objects`: ShardMaps and SchedulerInstances as values, to and from their wire form; pure.
- `shard_member`: one scheduler as a member: its Lease, its SchedulerInstance, the maps that it follows.
- `map_coordinator`: the elected member that writes the map and fences members that do not renew their Leases.
"""
