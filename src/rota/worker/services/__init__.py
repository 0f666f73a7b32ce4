"""Cluster services for tasks of this machine: names, variables, and a proxy at the services' addresses."""
