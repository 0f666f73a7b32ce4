"""The simulator: the scheduler's own decisions on a trace, in virtual time.

`traces` and `loaders/` read workloads; `engine` runs them through the same queue, cache, profiles and plugins as
`rota up`; `models` are what a trace does not say (durations, latencies, failures); `results` and `meters` say what
came out. `what_if` answers questions about a cluster by such runs. Nothing here writes to a cluster.
"""
