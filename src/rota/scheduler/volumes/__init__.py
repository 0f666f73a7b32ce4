"""What the volume plugins know of claims, volumes and storage classes.

Pure functions over objects as the cluster's catalog holds them (plain JSON data). The plugins decide, this room reads,
matches and remembers. Semantics are kube-scheduler's (volumebinding and component-helpers/storage, 1.36).
"""
