"""GpuClustering: pods with the same kind of demand (a share, one GPU, two GPUs, ...) go to the same nodes.

Nodes that have only pods of the same kind score 75 and more, nodes that have such pods among others 50, nodes without
GPU pods 25, all others 0; within each band fuller nodes score higher.
"""

from collections.abc import Hashable
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from rota.api import gpu_devices
from rota.api.gpu_devices import Demand
from rota.columns.arrays import IntArray, Rows, count
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.gpu_workload import LargestNode
from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugins import gpu_share

_BAND = MAX_SCORE // 4
#: Demands of more GPUs than this count as one kind.
_MOST = 62


class GpuClustering:
    """Score by the kinds of demand on a node."""

    name: ClassVar[str] = "GpuClustering"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._largest = LargestNode()
        self._kinds: WeakKeyDictionary[Cluster, _Kinds] = WeakKeyDictionary()

    def signature(self, pod: PodInfo) -> Hashable:
        """The GPUs that the pod asks for."""
        return gpu_devices.demand(pod.shape.requests)

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Score the selected rows; pods without GPUs may go anywhere."""
        wanted = gpu_devices.demand(pod.shape.requests)
        if not wanted.gpus:
            return np.zeros(count(rows), dtype=np.int64)
        kinds = self._kinds.get(cluster)
        if kinds is None:
            kinds = self._kinds[cluster] = _Kinds()
        there, own = kinds.values(cluster)[rows], np.int64(_kind(wanted))
        _, largest = self._largest.of(cluster)
        fill = _BAND * (largest - cluster.gpus.idle(rows)) // largest
        same = np.where(there == own, 3 * _BAND, 2 * _BAND)
        other = np.where(there == 0, _BAND, 0)
        return (fill + np.where(there & own, same, other)).astype(np.int64)


class _Kinds:
    """The kinds of demand on each node as bits; a row is computed again when it changed."""

    __slots__ = ("_generation", "_values")

    def __init__(self) -> None:
        self._generation = -1
        self._values: IntArray = np.zeros(0, dtype=np.int64)

    def values(self, cluster: Cluster) -> IntArray:
        """Shape (N,); always of the same cluster."""
        generation = cluster.change_log.generation
        if generation != self._generation:
            changes = cluster.change_log.since(self._generation) if len(self._values) == cluster.size else None
            if changes is None:
                self._values = np.zeros(cluster.size, dtype=np.int64)
            for row in range(cluster.size) if changes is None else changes.all:
                self._values[row] = _kinds_on(cluster, row)
            self._generation = generation
        return self._values


def _kinds_on(cluster: Cluster, row: int) -> int:
    node, found = cluster.nodes[row], 0
    for shape in {pod.shape for pod in node.pods.values()} if node is not None else ():
        wanted = gpu_devices.demand(shape.requests)
        if wanted.gpus:
            found |= _kind(wanted)
    return found


def _kind(wanted: Demand) -> int:
    return 1 if gpu_share.is_share(wanted) else 1 << min(wanted.gpus, _MOST)
