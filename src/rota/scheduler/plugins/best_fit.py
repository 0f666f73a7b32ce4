"""BestFit: the node that has the least cpu and GPUs left with the pod, each as a part of the largest node."""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from rota.api import gpu_devices
from rota.api.resources import CPU
from rota.columns.arrays import IntArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.gpu_workload import LargestNode
from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState


class BestFit:
    """Score by what would be left."""

    name: ClassVar[str] = "BestFit"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        self._largest = LargestNode()

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of cpu and GPUs."""
        return pod.shape.requests.get(CPU, 0), gpu_devices.demand(pod.shape.requests)

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Score the selected rows."""
        cpu, gpus = pod.shape.requests.get(CPU, 0), gpu_devices.demand(pod.shape.requests).total
        free_cpu = cluster.allocatable[0, rows] - cluster.requested[0, rows]
        idle = cluster.gpus.idle(rows)
        largest_cpu, largest_gpus = self._largest.of(cluster)
        left = (free_cpu - cpu) / largest_cpu + (idle - gpus) / largest_gpus
        return np.clip(MAX_SCORE * (1 - left / 2), 0, MAX_SCORE).astype(np.int64)
