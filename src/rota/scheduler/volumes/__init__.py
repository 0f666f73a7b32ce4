"""Functions of the volume plugins for claims, volumes and storage classes.

Pure functions over objects of the cluster's catalog (plain JSON data). The plugins are in `rota.scheduler.plugins`, the
writes in `rota.scheduler.binding.volume_binder`. Semantics are kube-scheduler's (volumebinding and
component-helpers/storage, 1.36).
"""
