"""Works: what is sent to each cluster, and what comes back about it. Pure."""
