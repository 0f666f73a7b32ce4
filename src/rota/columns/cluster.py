"""The cluster as columns: a node is a row, a pod is a change to its node's row.

`Cluster` takes deltas (a node was added, changed or removed; a pod was placed or removed) at a cost that does not
depend on the number of nodes and pods, and has two representations that are always equal: columns for the vector form
of plugins, `NodeInfo` for the scalar form. `what_if` changes the cluster and rolls everything back; a `savepoint` may
also keep the changes. Plugins are not known here.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

import msgspec
import numpy as np
import numpy.typing as npt

from rota.api.gpu_devices import Devices
from rota.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from rota.columns import nodes as node_infos
from rota.columns import objects
from rota.columns.arrays import BoolArray, IntArray, Rows, grown
from rota.columns.catalog import Catalog
from rota.columns.change_log import ChangeLog
from rota.columns.counts import PodCounts
from rota.columns.deltas import DeltaLog
from rota.columns.existing_terms import ExistingTerms
from rota.columns.floats import FloatColumns
from rota.columns.gpus import GpuColumns
from rota.columns.interned import InternedColumn
from rota.columns.labels import LabelColumns
from rota.columns.node_columns import KeptColumn, NodeColumn
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.columns.ports_and_images import HostPorts, Images

FIRST_CAPACITY = 64

#: A pod that was placed (None) or removed (the previous order of its node's pods) and its GPU devices, or a change
#: elsewhere.
_Undo: TypeAlias = tuple[PodInfo, tuple[str, ...] | None, Devices] | Callable[[], object]
_COLUMNS = (
    "allocatable",
    "requested",
    "nonzero_requested",
    "allowed_pods",
    "pod_count",
    "alive",
    "unschedulable",
)


class Cluster:
    """Nodes, the pods on them, and everything derived from both."""

    def __init__(self) -> None:
        self._capacity = FIRST_CAPACITY
        self._free: list[int] = []
        #: Pods whose node is unknown, by node name and uid.
        self._stray: dict[str, dict[str, PodInfo]] = {}
        self._followers: WeakSet[DeltaLog] = WeakSet()
        self._columns: WeakKeyDictionary[NodeColumn, KeptColumn] = WeakKeyDictionary()
        #: While there is a savepoint: how to undo each change since the first one, in order.
        self._undo: list[_Undo] | None = None
        #: Deltas since the first savepoint; followers get them when it is kept.
        self._deferred: list[tuple[str, tuple[Any, ...]]] = []
        self._savepoints = 0
        #: The number N of rows in use, freed ones included.
        self.size = 0
        #: Nodes by row; None in freed rows.
        self.nodes: list[NodeInfo | None] = []
        self.by_name: dict[str, NodeInfo] = {}
        #: Pods that have a node, by uid, with that node's name.
        self.pods: dict[str, PodInfo] = {}
        self.change_log = ChangeLog()
        #: Counts added, changed and removed nodes.
        self.node_version = 0
        self.catalog = Catalog()
        #: Index of each resource in the first axis of `allocatable` and `requested`.
        self.resources: dict[str, int] = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2}
        #: Shape (R, capacity), int64: allocatable, and the sum of requests.
        self.allocatable: IntArray = np.zeros((3, FIRST_CAPACITY), dtype=np.int64)
        self.requested: IntArray = np.zeros((3, FIRST_CAPACITY), dtype=np.int64)
        #: Shape (2, capacity), int64: cpu and memory for scoring.
        self.nonzero_requested: IntArray = np.zeros((2, FIRST_CAPACITY), dtype=np.int64)
        #: Shape (capacity,), int64.
        self.allowed_pods: IntArray = np.zeros(FIRST_CAPACITY, dtype=np.int64)
        self.pod_count: IntArray = np.zeros(FIRST_CAPACITY, dtype=np.int64)
        #: Shape (capacity,), bool: whether the row has a node; whether that node is cordoned.
        self.alive: BoolArray = np.zeros(FIRST_CAPACITY, dtype=np.bool_)
        self.unschedulable: BoolArray = np.zeros(FIRST_CAPACITY, dtype=np.bool_)
        #: The number of cordoned nodes.
        self.cordoned = 0
        self.labels = LabelColumns(self.nodes, FIRST_CAPACITY)
        #: Sets of taints, in the order of the node; the empty tuple is a value as well.
        self.taints: InternedColumn[tuple[objects.Taint, ...]] = InternedColumn(FIRST_CAPACITY)
        self.pod_counts = PodCounts(FIRST_CAPACITY)
        self.terms = ExistingTerms(FIRST_CAPACITY)
        self._floats = FloatColumns(3, FIRST_CAPACITY)
        self._unsynced: set[int] = set()
        self.ports = HostPorts()
        self.images = Images()
        #: Thousandths that are free of each GPU device.
        self.gpus = GpuColumns(FIRST_CAPACITY)

    @property
    def rows(self) -> Rows:
        """All rows in use."""
        return slice(0, self.size)

    @property
    def free_rows(self) -> tuple[int, ...]:
        """Rows without a node, in the order in which they became free; the last is reused first."""
        return tuple(self._free)

    @property
    def capacity(self) -> int:
        """The length of the columns."""
        return self._capacity

    @property
    def floats(self) -> FloatColumns:
        """The resource columns as floats, up to date."""
        if self._unsynced:
            self._floats.take_over(list(self._unsynced), self.requested, self.nonzero_requested)
            self._unsynced.clear()
        return self._floats

    def column(self, declared: NodeColumn) -> npt.NDArray[Any]:
        """The values of a column that a plugin declares, up to date; valid until the cluster changes."""
        kept = self._columns.get(declared)
        if kept is None:
            kept = self._columns[declared] = KeptColumn()
        return kept.values(declared, self.nodes, self.change_log, capacity=self._capacity)

    def node_infos(self) -> Iterator[NodeInfo]:
        """Every node, in row order."""
        return (node for node in self.nodes if node is not None)

    def resource_index(self, name: str) -> int:
        """The index of a resource, which is added if it is new."""
        index = self.resources.get(name)
        if index is None:
            index = self.resources[name] = len(self.resources)
            nothing = np.zeros((1, self._capacity), dtype=np.int64)
            self.allocatable = np.concatenate([self.allocatable, nothing])
            self.requested = np.concatenate([self.requested, nothing])
            self._copy_floats()
        return index

    def free(self, resource: str, rows: Rows) -> IntArray:
        """What is free of a resource in the selected rows: the vector form of `NodeInfo.free`."""
        index = self.resource_index(resource)
        free: IntArray = self.allocatable[index, rows] - self.requested[index, rows]
        return free

    def pods_left(self, rows: Rows) -> IntArray:
        """How many more pods the selected rows take: the vector form of `NodeInfo.pods_left`."""
        left: IntArray = self.allowed_pods[rows] - self.pod_count[rows]
        return left

    # --- deltas -----------------------------------------------------------------------------------------------------

    def set_node(self, node: objects.Node) -> NodeInfo:
        """Add or update a node."""
        self._tell("set_node", node)
        name = node.metadata.name
        info = self.by_name.get(name)
        if info is None:
            row = self._take_row()
            info = self.by_name[name] = self.nodes[row] = NodeInfo(name, row)
            self.alive[row] = True
        elif not node_infos.differs(info, node):
            return info
        node_infos.describe(info, node)
        self._describe_row(info)
        self._place_all(self._stray.pop(name, {}).values(), info)
        return info

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods wait for its return or their own removal."""
        self._tell("remove_node", name)
        info = self.by_name.pop(name, None)
        if info is None:
            return
        stranded = dict(info.pods)
        for pod in stranded.values():
            self._displace(pod, info)
        if stranded:
            self._stray[name] = stranded
        row = info.row
        self.nodes[row] = None
        self.alive[row] = False
        self._describe_row(NodeInfo("", row))
        self._free.append(row)

    def add_pod(self, pod: PodInfo, node_name: str | None = None) -> None:
        """Place a pod on a node (its own, if none is given); a pod with that uid is replaced."""
        self._tell("add_pod", pod, node_name)
        name = pod.node_name if node_name is None else node_name
        if pod.uid in self.pods:
            self._start_attempt(pod.uid)
        placed = pod if pod.node_name == name else msgspec.structs.replace(pod, node_name=name)
        self.pods[pod.uid] = placed
        info = self.by_name.get(name)
        if info is None:
            self._stray.setdefault(name, {})[pod.uid] = placed
            self.undo_with(partial(self._start_attempt, pod.uid))
        else:
            self._place(placed, info)

    def add_pods(self, name: str, pods: Collection[PodInfo]) -> None:
        """Place many unknown pods on their node: used at start, at a fraction of the cost."""
        if self._followers:
            for pod in pods:
                self._tell("add_pod", pod, name)
        by_uid = {pod.uid: pod for pod in pods}
        self.pods.update(by_uid)
        info = self.by_name.get(name)
        if info is None:
            self._stray.setdefault(name, {}).update(by_uid)
        else:
            self._place_all(pods, info)

    def replace_pod(self, pod: PodInfo) -> None:
        """Replace a pod by one with the same node and an equal shape, so that no sum changes.

        Its GPU devices may change; a pod that names none keeps those that it is counted on.
        """
        self._tell("replace_pod", pod)
        before = self.pods[pod.uid]
        info = self.by_name.get(before.node_name)
        held = info.gpu_held.get(pod.uid, ()) if info is not None else ()
        self.undo_with(partial(self._restate, before, held))
        self._restate(pod, pod.gpu_devices or held)

    def note_pods(self, node_name: str) -> None:
        """Note that something of a node's pods has changed that no column shows."""
        info = self.by_name.get(node_name)
        if info is not None:
            self.change_log.note_pods(info.row)

    def _restate(self, pod: PodInfo, devices: Devices) -> None:
        self.pods[pod.uid] = pod
        info = self.by_name.get(pod.node_name)
        there = self._stray[pod.node_name] if info is None else info.pods
        there[pod.uid] = pod
        if info is not None and info.gpu_held.get(pod.uid, ()) != devices:
            info.release_devices(pod)
            info.hold_devices(pod, devices)
            self.gpus.set(info.row, info.gpu_free)
            self.change_log.note_pods(info.row)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Remove a pod from its node; None if it is unknown."""
        self._tell("remove_pod", uid)
        return self._start_attempt(uid)

    def _start_attempt(self, uid: str) -> PodInfo | None:
        pod = self.pods.pop(uid, None)
        if pod is None:
            return None
        info = self.by_name.get(pod.node_name)
        if info is not None:
            self._displace(pod, info)
        else:
            self.undo_with(partial(self._restore_stray, pod, dict(self._stray[pod.node_name])))
            waiting = self._stray[pod.node_name]
            del waiting[uid]
            if not waiting:
                del self._stray[pod.node_name]
        return pod

    def _restore_stray(self, pod: PodInfo, waiting: dict[str, PodInfo]) -> None:
        self.pods[pod.uid] = pod
        self._stray[pod.node_name] = waiting

    @contextmanager
    def what_if(self) -> Iterator["Cluster"]:
        """A what-if transaction: pods added and removed inside the block are rolled back at its end, in reverse order.

        Transactions nest, also with savepoints. Nodes must not change inside one. The cost is that of the changes,
        twice.
        """
        mark = self.savepoint()
        try:
            yield self
        finally:
            mark.roll_back()

    def savepoint(self) -> "Savepoint":
        """Set a savepoint: later changes can be rolled back or kept. Nodes must not change in between."""
        if self._undo is None:
            self._undo = []
        self._savepoints += 1
        return Savepoint(self, self._savepoints, len(self._undo), len(self._deferred))

    def undo_with(self, undo: Callable[[], object]) -> None:
        """Register how to undo a change outside of the cluster when its savepoint is rolled back.

        So the accounts of queues and jobs are rolled back together with the pods. Without a savepoint there is nothing
        to do.
        """
        if self._undo is not None:
            self._undo.append(undo)

    def _roll_back(self, to: int, told: int) -> None:
        assert self._undo is not None
        log, self._undo = self._undo, None
        for entry in reversed(log[to:]):
            if callable(entry):
                entry()
                continue
            pod, order, held = entry
            if order is None:
                self._start_attempt(pod.uid)
            else:
                self.pods[pod.uid] = pod
                self._place(pod, self.by_name[pod.node_name], held)
                self._restore_order(pod, order)
        del log[to:], self._deferred[told:]
        self._undo = log

    def _end_savepoint(self) -> None:
        self._savepoints -= 1
        if self._savepoints:
            return
        self._undo, deferred, self._deferred = None, self._deferred, []
        for method, args in deferred:
            self._tell(method, *args)

    # --- copies -----------------------------------------------------------------------------------------------------

    def copy(self) -> "Cluster":
        """An independent cluster with equal content in the same rows; costs as much as the cluster is large."""
        twin = Cluster()
        twin._capacity, twin._free, twin.size = self._capacity, list(self._free), self.size
        twin._stray = {name: dict(pods) for name, pods in self._stray.items()}
        twin.nodes = [None if node is None else node.copy() for node in self.nodes]
        twin.by_name = {node.name: node for node in twin.nodes if node is not None}
        twin.pods = dict(self.pods)
        twin.node_version, twin.cordoned = self.node_version, self.cordoned
        twin.resources = dict(self.resources)
        for name in _COLUMNS:
            setattr(twin, name, getattr(self, name).copy())
        twin.labels = LabelColumns(twin.nodes, self._capacity)
        twin.taints = self.taints.copy()
        twin.pod_counts = self.pod_counts.copy()
        twin.terms = self.terms.copy()
        twin.ports = self.ports.copy()
        twin.images = self.images.copy()
        twin.gpus = self.gpus.copy()
        twin.catalog = self.catalog.copy()
        twin._copy_floats()
        return twin

    def follow(self) -> DeltaLog:
        """A log that records every delta from now on, as long as it is referenced."""
        log = DeltaLog()
        self._followers.add(log)
        self.catalog.followers.add(log)
        return log

    def _tell(self, method: str, *args: Any) -> None:
        if not self._followers:
            return
        if self._undo is not None:
            # It may be rolled back, and then followers do not get it.
            self._deferred.append((method, args))
            return
        for log in self._followers:
            log.entries.append((method, args))

    # --- consistency of columns and NodeInfo --------------------------------------------------------------------------

    def _place(self, pod: PodInfo, info: NodeInfo, devices: Devices | None = None) -> None:
        if self._undo is not None:
            self._undo.append((pod, None, ()))
        info.add_pod(pod, devices)
        self._tally(pod, info, 1)

    def _place_all(self, pods: Collection[PodInfo], info: NodeInfo) -> None:
        """Place many pods, shape by shape; the result is that of `_place` for each."""
        if self._undo is not None or len(pods) < 2:
            for pod in pods:
                self._place(pod, info)
            return
        row, shapes = info.row, Counter([pod.shape for pod in pods])
        info.add_pods(pods, shapes)
        for shape, number in shapes.items():
            self.pod_counts.add(shape.group, row, number)
            for _ in range(number if shape.has_affinity else 0):
                self.terms.add(shape, row)
            for _ in range(number if shape.host_ports else 0):
                self.ports.add(shape.host_ports, row)
        self._sum(info, info.requested)

    def _displace(self, pod: PodInfo, info: NodeInfo) -> None:
        if self._undo is not None:
            self._undo.append((pod, tuple(info.pods), info.gpu_held.get(pod.uid, ())))
        info.remove_pod(pod)
        self._tally(pod, info, -1)

    def _tally(self, pod: PodInfo, info: NodeInfo, sign: int) -> None:
        """Update the columns after a pod was added or removed; the node has the sums."""
        shape, row = pod.shape, info.row
        if sign > 0:
            self.pod_counts.add(shape.group, row)
        else:
            self.pod_counts.remove(shape.group, row)
        if shape.has_affinity:
            (self.terms.add if sign > 0 else self.terms.remove)(shape, row)
        if shape.host_ports:
            (self.ports.add if sign > 0 else self.ports.remove)(shape.host_ports, row)
        self._sum(info, shape.requests)

    def _sum(self, info: NodeInfo, changed: Iterable[str]) -> None:
        """Copy the node's sums of the resources that changed."""
        row, known, sums = info.row, self.resources, info.requested
        for name in changed:
            index = known[name] if name in known else self.resource_index(name)  # first: it may replace the columns
            self.requested[index, row] = sums[name]
        self.nonzero_requested[0, row] = info.nonzero_cpu
        self.nonzero_requested[1, row] = info.nonzero_memory
        self.pod_count[row] = len(info.pods)
        if info.gpu_free:
            self.gpus.set(row, info.gpu_free)
        self._unsynced.add(row)
        self.change_log.note_pods(row)

    def _restore_order(self, pod: PodInfo, order: tuple[str, ...]) -> None:
        info = self.by_name[pod.node_name]
        info.pods = {uid: info.pods[uid] for uid in order}

    def _describe_row(self, info: NodeInfo) -> None:
        row = info.row
        self.allocatable[:, row] = 0
        for name, amount in info.allocatable.items():
            index = self.resource_index(name)
            self.allocatable[index, row] = amount
        self._floats.describe(row, self.allocatable[:, row], alive=bool(self.alive[row]))
        self.allowed_pods[row] = info.allowed_pods
        self.cordoned += info.unschedulable - bool(self.unschedulable[row])
        self.unschedulable[row] = info.unschedulable
        self.taints.set(row, info.taints if info.name else None)
        self.labels.set(row, info.labels)
        self.images.set(row, info.images)
        self.gpus.describe(row, info.gpu_free)
        self.node_version += 1
        self.change_log.note_node(row)

    def _copy_floats(self) -> None:
        self._floats = FloatColumns(*self.allocatable.shape)
        for row in range(self.size):
            self._floats.describe(row, self.allocatable[:, row], alive=bool(self.alive[row]))
        self._unsynced.update(range(self.size))

    def _take_row(self) -> int:
        if self._free:
            return self._free.pop()
        row = self.size
        if row == self._capacity:
            self._grow(2 * self._capacity)
        self.nodes.append(None)
        self.size = row + 1
        return row

    def _grow(self, capacity: int) -> None:
        self._capacity = capacity
        for name in _COLUMNS:
            setattr(self, name, grown(getattr(self, name), capacity=capacity))
        self._copy_floats()
        self.labels.grow(capacity)
        self.taints.grow(capacity)
        self.pod_counts.grow(capacity)
        self.terms.grow(capacity)
        self.gpus.grow(capacity)


class Savepoint:
    """A state that a cluster can return to. Savepoints end in reverse order, by `roll_back` or by `keep`."""

    __slots__ = ("_cluster", "_depth", "_told", "_undone")

    def __init__(self, cluster: Cluster, depth: int, undone: int, told: int) -> None:
        self._cluster = cluster
        self._depth = depth
        self._undone = undone
        self._told = told

    def roll_back(self) -> None:
        """Undo everything since, and end."""
        self._require_latest()
        self._cluster._roll_back(self._undone, self._told)
        self._cluster._end_savepoint()

    def keep(self) -> None:
        """End, and keep all changes; an outer savepoint can still undo them."""
        self._require_latest()
        self._cluster._end_savepoint()

    def _require_latest(self) -> None:
        if self._cluster._savepoints != self._depth:
            raise RuntimeError("a later savepoint is open, or this one has ended")


def of(nodes: Iterable[objects.Node], pods: Iterable[PodInfo] = ()) -> Cluster:
    """Build a cluster from scratch."""
    cluster = Cluster()
    for node in nodes:
        cluster.set_node(node)
    for pod in pods:
        cluster.add_pod(pod)
    return cluster
