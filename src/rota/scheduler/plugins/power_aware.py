"""PowerAware: the node whose power grows least by the pod.

The model of PWR (CCGrid 2025): each processor socket and each GPU draws its full power as soon as anything uses it, and
its idle power otherwise. A pod's cores fill the sockets of a node one after the other; a share of an idle GPU wakes it.
Watts are arguments; those of GPUs are by model, the label `nvidia.com/gpu.product` of the node.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from rota.api import gpu_devices
from rota.api.gpu_devices import MILLI, MODEL_LABEL
from rota.api.resources import CPU
from rota.columns.arrays import FloatArray, IntArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugins import gpu_share


class SocketPower(WireStruct, frozen=True):
    """A processor socket: its watts, and its cores."""

    idle: float = 20.0
    full: float = 165.0
    cores: int = 24


class GpuPower(WireStruct, frozen=True):
    """A model of GPU and its watts; an empty model stands for all others."""

    model: str = ""
    idle: float = 30.0
    full: float = 300.0


GPUS = (
    GpuPower(model="T4", idle=10, full=70),
    GpuPower(model="A10", idle=30, full=150),
    GpuPower(model="G2", idle=30, full=150),
    GpuPower(model="P100", idle=25, full=250),
    GpuPower(model="A100", idle=50, full=400),
    GpuPower(model="G3", idle=50, full=400),
    GpuPower(),
)


class PowerAwareArgs(WireStruct, frozen=True):
    """Arguments of PowerAware."""

    socket: SocketPower = SocketPower()
    gpus: tuple[GpuPower, ...] = GPUS

    def faults(self) -> Iterator[Fault]:
        """Watts that cannot be."""
        if self.socket.cores < 1:
            yield Fault("socket.cores", "must be at least 1")
        watts = [("socket", self.socket.idle, self.socket.full)]
        watts += [(f"gpus[{at}]", gpu.idle, gpu.full) for at, gpu in enumerate(self.gpus)]
        for path, idle, full in watts:
            if not 0 <= idle <= full:
                yield Fault(path, "idle must be from 0 to full")


class PowerAware:
    """Score by the growth of power, scaled so that the least scores 100 and the greatest 0."""

    name: ClassVar[str] = "PowerAware"
    Args = PowerAwareArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: PowerAwareArgs, handle: Handle) -> None:
        self._args = args
        self._gpus: WeakKeyDictionary[Cluster, tuple[int, FloatArray]] = WeakKeyDictionary()

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of cpu and GPUs."""
        return pod.shape.requests.get(CPU, 0), gpu_devices.demand(pod.shape.requests)

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """The negative growth of the selected rows in milliwatts."""
        wanted, cpu = gpu_devices.demand(pod.shape.requests), pod.shape.requests.get(CPU, 0)
        socket, used = self._args.socket, cluster.requested[0, rows]
        growth = _sockets(used + cpu, socket.cores) - _sockets(used, socket.cores)
        watts = growth * (socket.full - socket.idle)
        if wanted.gpus:
            woken: Any = wanted.gpus
            if gpu_share.is_share(wanted):
                free = cluster.gpus.free[rows]
                woken = ~((free >= wanted.milli) & (free < MILLI)).any(axis=1)
            watts = watts + woken * self._watts(cluster)[rows]
        scores: IntArray = np.rint(watts * -1000).astype(np.int64)
        return scores

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> tuple[int, int]:
        """The least and the greatest."""
        return int(scores.min()), int(scores.max())

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        """From 0 to 100."""
        least, greatest = bounds
        if least == greatest:
            return np.full(len(scores), MAX_SCORE, dtype=np.int64)
        return np.asarray((scores - least) * MAX_SCORE // (greatest - least))

    def _watts(self, cluster: Cluster) -> FloatArray:
        """What waking a GPU of each node costs; shape (N,)."""
        known = self._gpus.get(cluster)
        if known is None or known[0] != cluster.node_version:
            wake = _by_model(cluster, {gpu.model: gpu.full - gpu.idle for gpu in self._args.gpus})
            known = self._gpus[cluster] = (cluster.node_version, wake)
        return known[1]


def watts(cluster: Cluster, args: PowerAwareArgs) -> float:
    """The power of all nodes: of their sockets, as many as their cores fill, and of their GPUs."""
    rows, socket = cluster.rows, args.socket
    sockets = _sockets(cluster.allocatable[0, rows], socket.cores)
    busy = _sockets(cluster.requested[0, rows], socket.cores)
    free = cluster.gpus.free[rows]
    woken = ((free >= 0) & (free < MILLI)).sum(axis=1)
    idle = _by_model(cluster, {gpu.model: gpu.idle for gpu in args.gpus})
    full = _by_model(cluster, {gpu.model: gpu.full for gpu in args.gpus})
    gpus = idle * (cluster.gpus.number[rows] - woken) + full * woken
    return float((socket.idle * (sockets - busy) + socket.full * busy + gpus).sum())


def _by_model(cluster: Cluster, watts: Mapping[str, float]) -> FloatArray:
    """Watts of a GPU of each node; shape (N,)."""
    column = cluster.labels.column(MODEL_LABEL)
    found = np.full(cluster.size, watts.get("", 0.0))
    for model, amount in watts.items():
        if model:
            found[column.where(frozenset({model}), cluster.rows)] = amount
    return found


def _sockets(millicores: IntArray, cores: int) -> IntArray:
    """The sockets that this much cpu keeps busy."""
    return -(-millicores // (cores * 1000))
