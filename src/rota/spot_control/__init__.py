"""Leaving spot machines in time: the controller that acts on notices, beside any Kubernetes."""
