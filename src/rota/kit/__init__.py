"""General helpers without a domain: clocks, backoff, supervised tasks, logging, metrics, heaps, rate limits.

Nothing in here imports another package of Rota or knows Kubernetes.
"""
