"""The forecaster: reads the usage of nodes from metrics.k8s.io and publishes NodeForecast objects.

`rota.forecast.node_series` decides what to publish; `forecaster` reads and writes; `kinds` has the kind for API servers
that do not know it.
"""
