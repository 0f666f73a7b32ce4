"""The control loops that a leading master runs: workloads, nodes, garbage collection, certificates, quotas, pipelines.

One module or package per controller; each uses only `rota.client`. `controller_registry` lists them all. The scheduler,
spot machines and federation are elsewhere.
"""
