"""The scheduler's cache: the cluster as the API server shows it, plus the pods that this scheduler has assumed."""
