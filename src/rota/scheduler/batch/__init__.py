"""Batch scheduling: gangs (groups of pods that start together), queues that share a cluster, preemption and reclaim.

A session is one pass over a state in memory: `snapshots` builds the state from objects, `sessions` has it with the
plugins of a configuration (`conf`), `actions` move pods by `statements` that are committed or discarded, and
`outcomes` has the result. Nothing here does I/O; the time of a session is an argument.
"""
