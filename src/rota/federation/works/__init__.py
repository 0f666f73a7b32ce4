"""Works: the manifests of each cluster, and the status that it reports. Pure."""
