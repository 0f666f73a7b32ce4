"""Eviction of resources from clusters: taints, graceful eviction, health of clusters and applications. Pure."""
