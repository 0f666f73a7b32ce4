"""The forecaster: publishes the load of nodes, recommends and applies requests, writes the figures of ClusterStates.

`metrics_sources` measures by metrics.k8s.io or a Prometheus; `forecaster` writes NodeForecast objects, which
`rota.forecast.node_series` decides; `kinds` has definitions for API servers that lack the kinds.
`vertical_autoscalers`, `recommended_pods`, `pod_updates` and `checkpoints` decide about VerticalPodAutoscalers and are
pure; `autoscaler_webhook` and `pod_updater` carry that out. `cluster_states` is the controller of ClusterStates.
"""
