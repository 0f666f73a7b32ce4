"""When a resource leaves a cluster, and how: taints, evictions, health of clusters and applications. Pure."""
