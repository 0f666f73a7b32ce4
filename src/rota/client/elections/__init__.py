"""Who of several leads, agreed on by a Lease: see `elector.LeaderElector`."""
