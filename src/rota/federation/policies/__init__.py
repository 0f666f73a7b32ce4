"""Policies: which policy claims a resource, its binding, and overrides per cluster. Pure."""
