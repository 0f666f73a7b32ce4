"""Selection of clusters for a resource, and division of its replicas over them. Pure."""
