"""CapacityGradient: the node, and the device, whose use for the workload shrinks least by the pod.

Fragmentation asks whether one typical pod fits on a node. A node with eight free GPUs and cpu for one pod has no
fragmentation, and yet seven of its GPUs are lost. So this policy adds how many of each typical pod would fit, by
devices and by cpu (capacity), and decides the rest by best fit. The loss that it minimises, in thousandths of a GPU, is

    growth of fragmentation + capacity lost / 2 + 100 · (free cpu + free GPUs, each as half of the largest node)
    + what is left of the device / 20

The page on policies for shared GPUs has the figures with each part left out.
"""

from collections.abc import Hashable
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary

import numpy as np

from rota.api import gpu_devices
from rota.api.resources import CPU
from rota.columns.arrays import FloatArray, IntArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.gpu_workload import LargestNode, Value, WorkloadColumns
from rota.columns.pods import PodInfo
from rota.scheduler.config.wire import WireStruct
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status
from rota.scheduler.plugins import gpu_share, typical_pods
from rota.scheduler.plugins.typical_pods import GradientArgs

#: Losses are compared in tenths of a thousandth; larger ones than any node has stand for "cannot".
_STEPS: Final = 10.0
_NEVER: Final = 1e9


class Weights(WireStruct, frozen=True):
    """How much each part of the loss counts."""

    fragmentation: float = 1.0
    capacity: float = 0.5
    left_on_node: float = 100.0
    left_on_device: float = 0.05


class CapacityGradientArgs(GradientArgs, frozen=True):
    """The workload, and the weights of the loss."""

    weights: Weights = Weights()


class CapacityGradient:
    """Score by the loss; Reserve takes the device with the least."""

    name: ClassVar[str] = "CapacityGradient"
    Args = CapacityGradientArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: CapacityGradientArgs, handle: Handle) -> None:
        self._workload = typical_pods.workload(args.typical_pods, self.name)
        self._weights = args.weights
        self._columns: WeakKeyDictionary[Cluster, WorkloadColumns] = WeakKeyDictionary()
        self._largest = LargestNode()

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of cpu and GPUs."""
        return pod.shape.requests.get(CPU, 0), gpu_devices.demand(pod.shape.requests)

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """The negative loss of the selected rows, each on its best device."""
        losses = self._losses(pod, cluster, rows)
        if losses.ndim > 1:
            gpu_share.note_devices(state, self.name, cluster, rows, losses.argmin(axis=1))
            losses = losses.min(axis=1)
        return np.floor(losses * -_STEPS).astype(np.int64)

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> int:
        """The best of all nodes."""
        return int(scores.max())

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        """100 for the best, and 1 less for each step behind it: the order of the best nodes is kept exactly."""
        return np.asarray(np.maximum(MAX_SCORE - (bounds - scores), 0))

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Give a share the device by which its node was scored, the lowest number of equals."""
        gpu_share.assign_noted(state, pod, node_name, self.name)
        return None

    def _losses(self, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        """Shape (R,), or (R, D) for a share."""
        columns = self._columns.get(cluster)
        if columns is None:
            columns = self._columns[cluster] = WorkloadColumns(self._workload, with_capacity=True)
        wanted, cpu = gpu_devices.demand(pod.shape.requests), pod.shape.requests.get(CPU, 0)
        before = columns.before(cluster, rows)
        largest_cpu, largest_idle = self._largest.of(cluster)
        cpu_left = (cluster.allocatable[0, rows] - cluster.requested[0, rows] - cpu) / largest_cpu
        if not gpu_share.is_share(wanted):
            after = columns.after_whole(cluster, rows, cpu, wanted.gpus)
            return self._loss(before, after, cpu_left, largest_idle)
        after = columns.after_share(cluster, rows, cpu, wanted.milli)
        free = cluster.gpus.free[rows]
        there = Value(before.fragmentation[:, None], np.asarray(before.capacity)[:, None], before.idle[:, None])
        losses = self._loss(there, after, cpu_left[:, None], largest_idle)
        losses += self._weights.left_on_device * (free - wanted.milli)
        return np.where(free >= wanted.milli, losses, _NEVER)

    def _loss(self, before: Value, after: Value, cpu_left: FloatArray, largest_idle: float) -> FloatArray:
        weights = self._weights
        left = (cpu_left + after.idle / largest_idle) / 2
        return (
            weights.fragmentation * (after.fragmentation - before.fragmentation)
            + weights.capacity * (before.capacity - after.capacity)
            + weights.left_on_node * left
        )
