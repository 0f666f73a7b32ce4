"""How well nodes serve a workload of GPU pods: fragmentation and capacity, kept row by row.

A workload is a list of typical pods with probabilities. For a node and a typical pod t,

- *fragmentation* is the free thousandths that t cannot use: those of devices with too little left for t, or all of them
  if t does not fit on the node at all (Fragmentation Gradient Descent, USENIX ATC 2023);
- *capacity* is the thousandths that pods like t could take if only they came, by devices and by cpu.

Both are expectations over the workload. `WorkloadColumns` follows one cluster: a row is computed again when it changed.
`after_*` give both as they would be with one more pod. Letters of shapes: R rows, D devices, T typical pods, M
different amounts of thousandths that they ask for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from rota.api.gpu_devices import MILLI, MODEL_LABEL, Demand
from rota.columns.arrays import BoolArray, FloatArray, IndexArray, IntArray, Rows
from rota.columns.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class TypicalPod:
    """A shape of pods that the workload has."""

    #: In millicores.
    cpu: int
    demand: Demand
    #: The models of GPUs that it can use; empty for all.
    models: frozenset[str] = frozenset()
    #: How many pods of the workload are like it; only the ratio to the others counts.
    weight: float = 1.0


class Value(NamedTuple):
    """Fragmentation and capacity in thousandths, and the free thousandths of all devices.

    The capacity is 0 where it was not asked for.
    """

    fragmentation: FloatArray
    capacity: FloatArray | float
    idle: FloatArray


class Workload:
    """Typical pods as arrays; pods without GPUs count in the probabilities only."""

    def __init__(self, typical: Sequence[TypicalPod]) -> None:
        total = sum(pod.weight for pod in typical)
        pods = [pod for pod in typical if pod.demand.gpus]
        #: Shape (T,).
        self.probability: FloatArray = np.array([pod.weight / total for pod in pods])
        self.cpu: FloatArray = np.array([pod.cpu for pod in pods], dtype=np.float64)
        self.gpus: IntArray = np.array([pod.demand.gpus for pod in pods], dtype=np.int64)
        self.models = [pod.models for pod in pods]
        amounts = sorted({pod.demand.milli for pod in pods})
        #: Shape (M,), and for each typical pod its place in it, shape (T,).
        self.milli: IntArray = np.array(amounts, dtype=np.int64)
        self.place: IndexArray = np.array([amounts.index(pod.demand.milli) for pod in pods], dtype=np.intp)
        #: Thousandths of one typical pod, times its probability; shape (T,).
        self.worth: FloatArray = self.probability * self.gpus * self.milli[self.place]
        self.cpu_divisor: FloatArray = np.maximum(self.cpu, 1.0)
        #: Whether every typical pod can use every model.
        self.any_model = not any(self.models)
        #: Which typical pods ask for several devices; None if all ask for one.
        self.several: BoolArray | None = self.gpus > 1 if (self.gpus > 1).any() else None

    def value(
        self,
        cpu: FloatArray,
        idle: FloatArray,
        usable: BoolArray,
        large: IntArray,
        small: IntArray,
        units: IntArray | None,
    ) -> Value:
        """Expectations for nodes, or for nodes and devices: the last axes of the inputs are T, or M.

        `large` has the number of devices with at least so many thousandths, `small` the sum of all other devices,
        `units` how often the amount fits into the devices, if the capacity is wanted.
        """
        place = self.place
        number, cpu = large.take(place, axis=-1), cpu[..., None]
        fits = number >= self.gpus
        fits &= cpu >= self.cpu
        if not self.any_model:
            fits &= usable
        useful = idle[..., None] - small.take(place, axis=-1)
        useful *= fits
        fragmentation = idle - useful @ self.probability
        if units is None:
            return Value(fragmentation, 0.0, idle)
        often = units.take(place, axis=-1)
        if self.several is not None:
            often = np.where(self.several, number // self.gpus, often)
        pods = np.minimum(often, cpu / self.cpu_divisor)
        pods *= fits
        return Value(fragmentation, pods @ self.worth, idle)


class WorkloadColumns:
    """The value of every node of one cluster for one workload, and what it is computed from."""

    def __init__(self, workload: Workload, *, with_capacity: bool) -> None:
        self._workload = workload
        self._with_capacity = with_capacity
        self._generation = -1
        self._size = 0
        self._node_version = -1
        self._usable: BoolArray = np.zeros((0, len(workload.gpus)), dtype=np.bool_)
        self._large: IntArray = np.zeros((0, 0), dtype=np.int64)
        self._small = self._units = self._large
        self._fragmentation: FloatArray = np.zeros(0)
        self._capacity = self._idle = self._fragmentation

    def refresh(self, cluster: Cluster) -> None:
        """Compute the rows that changed; always of the same cluster."""
        generation = cluster.change_log.generation
        if generation == self._generation:
            return
        changes = cluster.change_log.since(self._generation) if self._size == cluster.size else None
        self._generation = generation
        if changes is None or self._node_version != cluster.node_version:
            self._start(cluster)
            return
        self._compute(cluster, np.array(changes.all, dtype=np.intp))

    def before(self, cluster: Cluster, rows: Rows) -> Value:
        """The value of nodes as they are."""
        self.refresh(cluster)
        capacity = self._capacity[rows] if self._with_capacity else 0.0
        return Value(self._fragmentation[rows], capacity, self._idle[rows])

    def after_whole(self, cluster: Cluster, rows: Rows, cpu: int, gpus: int) -> Value:
        """The value with a pod that takes whole devices, or none; shape (R,).

        Rows that cannot serve it hold anything.
        """
        self.refresh(cluster)
        workload = self._workload
        large, units = self._large[rows], self._units[rows] if self._with_capacity else None
        if gpus:
            # A whole device is large for every amount, and afterwards for none.
            large = large - gpus
            units = None if units is None else units - gpus * (MILLI // workload.milli)
        return workload.value(
            _free_cpu(cluster, rows) - cpu,
            self._idle[rows] - gpus * MILLI,
            self._usable[rows],
            large,
            self._small[rows],
            units,
        )

    def after_share(self, cluster: Cluster, rows: Rows, cpu: int, milli: int) -> Value:
        """The value with a pod that takes a share of a device, for each device; shape (R, D).

        Devices that cannot serve it hold anything.
        """
        self.refresh(cluster)
        amounts = self._workload.milli
        free = np.maximum(cluster.gpus.free[rows], 0)[..., None]
        left = np.maximum(free - milli, 0)
        was_large, is_large = free >= amounts, left >= amounts
        large = self._large[rows][:, None, :] - was_large + is_large
        small = self._small[rows][:, None, :] - np.where(was_large, 0, free) + np.where(is_large, 0, left)
        units = None
        if self._with_capacity:
            units = self._units[rows][:, None, :] - free // amounts + left // amounts
        return self._workload.value(
            (_free_cpu(cluster, rows) - cpu)[:, None],
            (self._idle[rows] - milli)[:, None],
            self._usable[rows][:, None, :],
            large,
            small,
            units,
        )

    def _start(self, cluster: Cluster) -> None:
        size, amounts = cluster.size, len(self._workload.milli)
        self._size, self._node_version = size, cluster.node_version
        self._usable = np.ones((size, len(self._workload.gpus)), dtype=np.bool_)
        models = cluster.labels.column(MODEL_LABEL)
        for position, wanted in enumerate(self._workload.models):
            if wanted:
                self._usable[:, position] = models.where(wanted, cluster.rows)
        self._large = np.zeros((size, amounts), dtype=np.int64)
        self._small, self._units = self._large.copy(), self._large.copy()
        self._fragmentation = np.zeros(size)
        self._capacity, self._idle = np.zeros(size), np.zeros(size)
        self._compute(cluster, np.arange(size))

    def _compute(self, cluster: Cluster, rows: IndexArray) -> None:
        workload = self._workload
        free = np.maximum(cluster.gpus.free[rows], 0)[..., None]
        is_large = free >= workload.milli
        self._large[rows] = is_large.sum(axis=1)
        self._small[rows] = np.where(is_large, 0, free).sum(axis=1)
        if self._with_capacity:
            self._units[rows] = (free // workload.milli).sum(axis=1)
        self._idle[rows] = free[..., 0].sum(axis=1)
        value = workload.value(
            _free_cpu(cluster, rows),
            self._idle[rows],
            self._usable[rows],
            self._large[rows],
            self._small[rows],
            self._units[rows] if self._with_capacity else None,
        )
        self._fragmentation[rows], self._capacity[rows] = value.fragmentation, value.capacity


def _free_cpu(cluster: Cluster, rows: Rows) -> FloatArray:
    return (cluster.allocatable[0, rows] - cluster.requested[0, rows]).astype(np.float64)


class LargestNode:
    """The size of the largest node, by which scores measure what is free; kept while no node changes."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Cluster, tuple[int, float, float]] = WeakKeyDictionary()

    def of(self, cluster: Cluster) -> tuple[float, float]:
        """The cpu in millicores and the thousandths of GPUs; each is the maximum over all nodes, and at least 1."""
        known = self._known.get(cluster)
        if known is None or known[0] != cluster.node_version:
            cpu = float(cluster.allocatable[0, : cluster.size].max(initial=1))
            gpus = float(cluster.gpus.number[: cluster.size].max(initial=1)) * MILLI
            known = self._known[cluster] = (cluster.node_version, cpu, gpus)
        return known[1], known[2]
