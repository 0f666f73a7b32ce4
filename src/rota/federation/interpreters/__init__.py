"""Rules by kind: replicas, status, health, dependencies, fields to retain and fields to remove.

`native` holds the table of Kubernetes' own kinds. Functions take wire objects and return new ones.
"""
