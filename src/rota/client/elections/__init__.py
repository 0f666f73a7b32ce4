"""Leader election by a Lease (`elector.LeaderElector`), and fencing of the leader's writes (`leader_writes`)."""
