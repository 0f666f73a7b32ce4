"""GpuPacking: first GPUs that are shared already, then free GPUs of nodes in use, then unused nodes.

Devices in use score 90 and more, the more the fuller; free devices of a used node 50 less the number of devices; nodes
without any use 33 less the number of their devices.
"""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from rota.api import gpu_devices
from rota.api.gpu_devices import MILLI
from rota.columns.arrays import IntArray, Rows, count
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState

_USED_NODE = MAX_SCORE // 2
_UNUSED_NODE = MAX_SCORE // 3


class GpuPacking:
    """Score by what is in use."""

    name: ClassVar[str] = "GpuPacking"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable:
        """The GPUs that the pod asks for."""
        return gpu_devices.demand(pod.shape.requests)

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Score the selected rows; pods without GPUs may go anywhere."""
        wanted = gpu_devices.demand(pod.shape.requests)
        if not wanted.gpus:
            return np.zeros(count(rows), dtype=np.int64)
        free = cluster.gpus.free[rows]
        # The devices that fit best, in ascending order of what is left; 2 * MILLI stands for "too little".
        fitting = np.sort(np.where(free >= wanted.milli, free, 2 * MILLI), axis=1)[:, : wanted.gpus]
        untouched = (fitting == MILLI).sum(axis=1)
        unused = (free == MILLI).sum(axis=1)
        shared = np.maximum(MAX_SCORE - (fitting * MAX_SCORE // MILLI).sum(axis=1) // 10, _USED_NODE)
        scores = np.where(untouched > 0, np.maximum(_USED_NODE - untouched, _UNUSED_NODE), shared)
        alone = unused == cluster.gpus.number[rows]
        return np.asarray(np.where(alone, np.maximum(_UNUSED_NODE - unused, unused), scores))
