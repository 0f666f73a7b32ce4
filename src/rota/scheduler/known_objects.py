"""The objects that a scheduler knows, whole, for extenders and workers that keep no cache."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from rota.client.informers.informer import Informer
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.ingest.decoder import Document, NodeRecord
from rota.scheduler.queue.scheduling_queue import SchedulingQueue


class KnownObjects:
    """A `ClusterReader` of the informers, the queue and the columns of a scheduler."""

    def __init__(
        self, informers: Mapping[str, Informer[Any]], queue: Callable[[], SchedulingQueue], cluster: Cluster
    ) -> None:
        """`informers` by kind, which may come later; the queue may be replaced."""
        self._informers: Final = informers
        self._queue: Final = queue
        self._cluster: Final = cluster

    def node(self, name: str) -> msgspec.Raw | None:
        """See `ClusterReader.node`."""
        record = self._informers["nodes"].cache.get(name) if self._informers else None
        return msgspec.Raw(record.raw) if isinstance(record, NodeRecord) else None

    def pod(self, uid: str) -> Document | None:
        """See `ClusterReader.pod`; for pods that have a node, the fields that are kept of them."""
        queued = self._queue().get(uid)
        if queued is not None:
            return queued.pod.manifest
        known = self._cluster.pods.get(uid)
        return None if known is None else _outline(known)

    def pods_on(self, node: str) -> Mapping[str, PodInfo] | None:
        """See `ClusterReader.pods_on`."""
        found = self._cluster.by_name.get(node)
        return None if found is None else found.pods


def _outline(pod: PodInfo) -> Document:
    metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "labels": dict(pod.labels)}
    spec = {"nodeName": pod.node_name, "priority": pod.priority, "schedulerName": pod.shape.scheduler_name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
