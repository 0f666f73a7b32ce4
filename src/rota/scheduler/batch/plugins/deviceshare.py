"""deviceshare: shares of GPUs, and which devices of a node a pod gets.

The devices are those of `rota.api.gpu_devices`: a pod asks for `rota.dev/gpu-milli` (with deviceshare.GPUSharingEnable)
or for whole GPUs of a node that shares its GPUs (with deviceshare.GPUNumberEnable). A sum over all devices of a node
says nothing about one device, so each device is counted: what is free now, and what will be free when terminating pods
have ended. The chosen devices are named by the Binding, and the API server refuses it if they have been taken.

Devices that need a driver of their own (vGPUs of HAMi, MIG, Ascend) are refused by their arguments.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from rota.api import gpu_devices
from rota.api.gpu_devices import MILLI, Demand, Devices
from rota.columns.arrays import BoolArray, FloatArray, IndexArray, IntArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import Verdicts
from rota.scheduler.framework.status import Code

MAX_SCORE: Final = 100.0
INSUFFICIENT: Final = "Insufficient free GPU devices"
BINPACK: Final = "binpack"
SPREAD: Final = "spread"
_SHARING: Final = "deviceshare.GPUSharingEnable"
_NUMBER: Final = "deviceshare.GPUNumberEnable"
_POLICY: Final = "deviceshare.SchedulePolicy"
_WEIGHT: Final = "deviceshare.ScheduleWeight"


def policy(value: Any) -> str:
    """Read the policy that chooses devices."""
    if value not in (BINPACK, SPREAD):
        raise ValueError(f"expected {BINPACK} or {SPREAD}")
    return str(value)


def _off(what: str) -> Callable[[Any], bool]:
    def read(value: Any) -> bool:
        if args.boolean(value):
            raise ValueError(f"{what}; ask for {gpu_devices.SHARE} and set {_SHARING} instead")
        return False

    return read


class DeviceShare(BatchPlugin):
    """Filter, score and assign GPU devices."""

    name: ClassVar[str] = "deviceshare"
    arguments: ClassVar[Mapping[str, Argument]] = {
        _SHARING: Argument(args.boolean, False),
        _NUMBER: Argument(args.boolean, False),
        _POLICY: Argument(policy, BINPACK),
        _WEIGHT: Argument(args.integer, 0),
        "deviceshare.VGPUEnable": Argument(_off("vGPUs are not supported"), False),
        "deviceshare.NodeLockEnable": Argument(_off("nodes are not locked, the API server checks devices"), False),
        "deviceshare.AscendMindClusterVNPUEnable": Argument(_off("vNPUs are not supported"), False),
        "deviceshare.AscendHAMiVNPUEnable": Argument(_off("vNPUs are not supported"), False),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._nodes: Final = session.nodes
        self._sharing: Final[bool] = arguments[_SHARING]
        self._whole: Final[bool] = arguments[_NUMBER]
        self._spread: Final = arguments[_POLICY] == SPREAD
        self._weight: Final[int] = arguments[_WEIGHT]
        cluster, size = session.cluster, len(session.nodes)
        #: Shape (N, D): thousandths that are free now, and after terminating pods have ended.
        self._now: Final[IntArray] = cluster.gpus.free[:size].copy()
        self._later: Final[IntArray] = self._now.copy()
        self._shares: Final[BoolArray] = np.zeros(size, dtype=np.bool_)
        #: By uid, the devices of pods that were on nodes when the session began.
        self._held: Final[dict[str, Devices]] = {}
        #: By uid, the devices that the session gave, and whether they are taken from what is free now.
        self._given: Final[dict[str, tuple[int, Devices, bool]]] = {}
        for row, node in enumerate(cluster.nodes[:size]):
            if node is None or not gpu_devices.shareable(node.allocatable):
                continue
            self._shares[row] = True
            self._held.update(node.gpu_held)
            for task in session.nodes.tasks[row].values():
                if task.status is TaskStatus.RELEASING:
                    self._shift(self._later, row, self._held.get(task.uid, ()), task, 1)

    def _demand(self, task: Task) -> Demand:
        """What a pod asks for, as far as the arguments let this plugin look after it."""
        wanted = gpu_devices.demand(task.info.shape.requests)
        enabled = self._whole if wanted.milli == MILLI and wanted.resource == gpu_devices.WHOLE else self._sharing
        return wanted if enabled else gpu_devices.NOTHING

    def pre_predicate(self, task: Task) -> str | None:
        """Refuse requests that no node can serve."""
        return gpu_devices.contradictory(task.info.shape.requests) or None if self._demand(task).gpus else None

    def predicate(self, task: Task, rows: BoolArray) -> Verdicts | None:
        """Refuse nodes with too few devices: a pod that would start now needs devices that are free now."""
        wanted = self._demand(task)
        if not wanted.gpus:
            return None
        size = len(rows)
        at_once = self._nodes.fits(task.request, self._nodes.idle, np.arange(size))
        now = (self._now >= wanted.milli).sum(axis=1) >= wanted.gpus
        later = (self._later >= wanted.milli).sum(axis=1) >= wanted.gpus
        refused = self._shares & ~np.where(at_once, now, later)
        if not refused.any():
            return None
        verdicts = Verdicts(size)
        verdicts.refuse(refused, Code.UNSCHEDULABLE, INSUFFICIENT)
        return verdicts

    def node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Rate the part of a node's devices that is in use, or that is free."""
        if not self._weight or not self._demand(task).gpus:
            return np.zeros(len(rows))
        present = self._now[rows] >= 0
        whole = present.sum(axis=1) * float(MILLI)
        free = np.where(present, self._now[rows], 0).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            part: FloatArray = np.where(whole > 0, free / whole, 0.0)
        liked = part if self._spread else np.where(whole > 0, 1.0 - part, 0.0)
        return np.asarray(liked * MAX_SCORE * self._weight)

    def on_allocate(self, task: Task) -> None:
        """Give a pod its devices; one whose eviction was taken back has them again."""
        row = self._nodes.rows.get(task.node)
        wanted = self._demand(task)
        if row is None or not wanted.gpus or not self._shares[row]:
            return
        if task.status is TaskStatus.RUNNING:
            self._shift(self._later, row, self._held.get(task.uid, ()), task, -1)
            return
        now = task.status is TaskStatus.ALLOCATED
        devices = self._chosen((self._now if now else self._later)[row].tolist(), wanted)
        if devices is None:
            return
        self._given[task.uid] = row, devices, now
        task.devices = devices if now else ()
        for table in (self._now, self._later) if now else (self._later,):
            self._shift(table, row, devices, task, -1)

    def on_deallocate(self, task: Task) -> None:
        """Free the devices of a pod that gives up its place or is being evicted."""
        row = self._nodes.rows.get(task.node)
        if row is None or not self._shares[row] or not self._demand(task).gpus:
            return
        given = self._given.pop(task.uid, None)
        if given is not None:
            place, devices, now = given
            for table in (self._now, self._later) if now else (self._later,):
                self._shift(table, place, devices, task, 1)
            task.devices = ()
        elif task.status is TaskStatus.RELEASING:
            self._shift(self._later, row, self._held.get(task.uid, ()), task, 1)

    def _chosen(self, free: list[int], wanted: Demand) -> Devices | None:
        """Choose the devices with the least left, or with the most."""
        if not self._spread:
            return gpu_devices.best_fit(free, wanted)
        enough = sorted((-left, number) for number, left in enumerate(free) if left >= wanted.milli)
        if len(enough) < wanted.gpus:
            return None
        return tuple(sorted(number for _, number in enough[: wanted.gpus]))

    @staticmethod
    def _shift(table: IntArray, row: int, devices: Devices, task: Task, sign: int) -> None:
        milli = gpu_devices.demand(task.info.shape.requests).milli
        for device in devices:
            table[row, device] += sign * milli
