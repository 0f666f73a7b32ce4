"""Domain-free ground: clocks, backoff, supervised tasks, logging, metrics. Knows nothing of Kubernetes."""
