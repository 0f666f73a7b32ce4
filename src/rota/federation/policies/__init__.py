"""Policies: which one has a resource, what binding they make of it, and how it is changed for a cluster. Pure."""
