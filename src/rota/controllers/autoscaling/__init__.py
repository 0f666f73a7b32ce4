"""HorizontalPodAutoscalers: scale workloads by metrics.

`controller` reads and writes; `replica_calculator`, `behavior` and `condition_messages` decide and are pure;
`metrics_client` reads the metrics APIs.
"""
