"""Deployments: one ReplicaSet for each template that a Deployment has had, and the way from one to the next."""
