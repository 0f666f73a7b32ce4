"""A federation of clusters with Karmada's policies: placement, overrides, status aggregation and failover.

Decisions are pure functions of wire objects, without I/O, clock or randomness; only `control` watches and writes.
`decide.py` is the entry of `rota federation decide`. Each folder has one subject; see ADR 41.
"""
