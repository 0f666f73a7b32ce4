"""Batch scheduling: groups of pods that start together, queues that share a cluster, and who has to make room.

A session is one pass over a state in memory: `snapshots` builds the state from objects, `sessions` holds it with the
plugins of a configuration (`conf`), `actions` move pods by `statements` that are kept or taken back, and `outcomes`
says what came of it. Nothing here does I/O; the time of a session is an argument.
"""
