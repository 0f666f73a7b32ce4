"""Batch pods beside latency-sensitive ones: what is sold, how much cpu batch gets, and which batch pods have to go.

`offers`, `quota`, `bursts` and `evictions` decide and are pure. `measurements` reads the machine's counters, and
`colocation` runs the loop. The cgroups are in `rota.worker.runtimes`.
"""
