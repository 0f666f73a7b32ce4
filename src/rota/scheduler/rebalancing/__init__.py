"""Moving work when a cluster has drifted from what the scheduler would decide now."""
