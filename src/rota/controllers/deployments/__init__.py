"""Deployments: one ReplicaSet per template, and rollouts from one to the next.

`controller` reads and writes; `revisions`, `sizes` and `status` decide and are pure.
"""
