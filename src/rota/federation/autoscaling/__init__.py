"""FederatedHPA: the desired replicas from metrics of several clusters, and the limits of scaling rates. Pure."""
