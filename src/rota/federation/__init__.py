"""Many clusters as one, by Karmada's policies: what goes where, in which form, and what moves when a cluster fails.

Everything in this room is a pure decision over wire objects: no I/O, clock or chance. `decide.py` is the way in that
`rota federation decide` uses; each folder holds one subject, and `docs/adr` says how they fit together.
"""
