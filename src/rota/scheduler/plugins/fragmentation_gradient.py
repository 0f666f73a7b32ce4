"""FragmentationGradient: the node, and the device, whose expected fragmentation grows least by the pod.

Fragmentation Gradient Descent (Weng et al., USENIX ATC 2023), as its authors' simulator computes it: the score is the
integer part of 100·sigmoid of the decrease in whole GPUs, so 50 is no change. Without a good rule for equal scores it
packs badly: see the page on policies for shared GPUs.
"""

from collections.abc import Hashable
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from rota.api import gpu_devices
from rota.api.gpu_devices import MILLI
from rota.api.resources import CPU
from rota.columns.arrays import FloatArray, IntArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.gpu_workload import WorkloadColumns
from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status
from rota.scheduler.plugins import gpu_share, typical_pods
from rota.scheduler.plugins.typical_pods import GradientArgs

#: Scores are truncated, and no change must stay 50 whatever the last bit of a sum is.
_ROUNDING = 1e-9


class FragmentationGradient:
    """Score by the change of fragmentation; Reserve takes the device with the best score."""

    name: ClassVar[str] = "FragmentationGradient"
    Args = GradientArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: GradientArgs, handle: Handle) -> None:
        self._workload = typical_pods.workload(args.typical_pods, self.name)
        self._columns: WeakKeyDictionary[Cluster, WorkloadColumns] = WeakKeyDictionary()

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of cpu and GPUs."""
        return pod.shape.requests.get(CPU, 0), gpu_devices.demand(pod.shape.requests)

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Score the selected rows, each by its best device."""
        scores = self._scores(pod, cluster, rows)
        if scores.ndim == 1:
            return scores
        gpu_share.note_devices(state, self.name, cluster, rows, scores.argmax(axis=1))
        return np.asarray(np.maximum(scores.max(axis=1), 0))

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Give a share the device by which its node was scored, the lowest number of equals."""
        gpu_share.assign_noted(state, pod, node_name, self.name)
        return None

    def _scores(self, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Shape (R,), or (R, D) for a share; -1 for a device that cannot serve it."""
        columns = self._columns.get(cluster)
        if columns is None:
            columns = self._columns[cluster] = WorkloadColumns(self._workload, with_capacity=False)
        wanted, cpu = gpu_devices.demand(pod.shape.requests), pod.shape.requests.get(CPU, 0)
        before = columns.before(cluster, rows).fragmentation
        if not gpu_share.is_share(wanted):
            return _scaled(before - columns.after_whole(cluster, rows, cpu, wanted.gpus).fragmentation)
        gains = before[:, None] - columns.after_share(cluster, rows, cpu, wanted.milli).fragmentation
        return np.where(cluster.gpus.free[rows] >= wanted.milli, _scaled(gains), -1)


def _scaled(gains: FloatArray) -> IntArray:
    return (MAX_SCORE / (1.0 + np.exp(gains / -MILLI)) + _ROUNDING).astype(np.int64)
