"""The kinds beside pods and nodes that a scheduler watches: those of the stock plugins, and those that plugins declare.

A plugin declares a kind by a class attribute:

    class CheapNodes:
        name = "CheapNodes"
        kinds = (WatchedKind("Price", ("example.com", "v1", "prices")),)

The scheduler then keeps all objects of that kind in the catalog (`cluster.catalog.list("Price")`), wakes pods that the
plugin refused when one of them changes (event resource `prices.v1.example.com`), and lists the rights that it needs.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from rota.scheduler.framework.events import Resource
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.watched_kind import WatchedKind

__all__ = ["BUILTIN", "WatchedKind", "declared"]


def _table(*kinds: WatchedKind) -> Mapping[str, WatchedKind]:
    return MappingProxyType({each.kind: each for each in kinds})


_STORAGE: Final = "storage.k8s.io"
#: The kinds that built-in plugins read.
BUILTIN: Final = _table(
    WatchedKind("Namespace", ("", "v1", "namespaces"), silent=True),
    WatchedKind("Service", ("", "v1", "services"), silent=True),
    WatchedKind("ReplicationController", ("", "v1", "replicationcontrollers"), silent=True),
    WatchedKind("ReplicaSet", ("apps", "v1", "replicasets"), silent=True),
    WatchedKind("StatefulSet", ("apps", "v1", "statefulsets"), silent=True),
    WatchedKind("PodDisruptionBudget", ("policy", "v1", "poddisruptionbudgets"), silent=True),
    WatchedKind("PersistentVolume", ("", "v1", "persistentvolumes"), Resource.PERSISTENT_VOLUME),
    WatchedKind("PersistentVolumeClaim", ("", "v1", "persistentvolumeclaims"), Resource.PERSISTENT_VOLUME_CLAIM),
    WatchedKind("StorageClass", (_STORAGE, "v1", "storageclasses"), Resource.STORAGE_CLASS),
    WatchedKind("CSINode", (_STORAGE, "v1", "csinodes"), Resource.CSI_NODE),
    WatchedKind("CSIDriver", (_STORAGE, "v1", "csidrivers"), Resource.CSI_DRIVER),
    WatchedKind("CSIStorageCapacity", (_STORAGE, "v1", "csistoragecapacities"), Resource.CSI_STORAGE_CAPACITY),
    WatchedKind("VolumeAttachment", (_STORAGE, "v1", "volumeattachments"), Resource.VOLUME_ATTACHMENT),
)


def declared(frameworks: Iterable[Framework]) -> dict[str, WatchedKind]:
    """The kinds that plugins of these profiles declare, without those of the built-in plugins."""
    plugins = (plugin for framework in frameworks for point in ExtensionPoint for plugin in framework.at(point))
    return {each.kind: each for plugin in plugins for each in getattr(plugin, "kinds", ()) if each.kind not in BUILTIN}
