"""GpuShare: shares of GPUs, and which devices of a node a pod gets.

A pod asks for `rota.dev/gpu-milli` (thousandths of one GPU) or for whole GPUs; the node must have devices with that
much left. On a node that shares its GPUs Reserve gives the pod the devices that fit best; a score plugin that prefers
others takes part in Reserve after this plugin and calls `assign`. The Binding names the devices, and the API server
refuses it if they have been taken.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np

from rota.api import gpu_devices
from rota.api.gpu_devices import Demand, Devices
from rota.columns.arrays import CodeArray, IndexArray, IntArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import PreFilterResult
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import GPU_DEVICES, CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable

INSUFFICIENT: Final = unschedulable("Insufficient free GPU devices")


class GpuShare:
    """Filter and Reserve on the GPU devices of nodes."""

    name: ClassVar[str] = "GpuShare"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable:
        """The GPUs that the pod asks for."""
        requests = pod.shape.requests
        return requests.get(gpu_devices.WHOLE, 0), requests.get(gpu_devices.SHARE, 0)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Leave out pods without GPUs, and refuse requests that no node can serve."""
        if why := gpu_devices.contradictory(pod.shape.requests):
            return PreFilterResult(status=unresolvable(why))
        return PreFilterResult(status=SUCCESS if gpu_devices.demand(pod.shape.requests).gpus else SKIP)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Refuse a node with too few devices that have enough left."""
        wanted = gpu_devices.demand(pod.shape.requests)
        return None if sum(left >= wanted.milli for left in node.gpu_free) >= wanted.gpus else INSUFFICIENT

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray | None:
        """The same for the selected rows."""
        wanted = gpu_devices.demand(pod.shape.requests)
        enough: IntArray = (cluster.gpus.free[rows] >= wanted.milli).sum(axis=1)
        return (enough < wanted.gpus).astype(np.int64)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """The one reason."""
        return INSUFFICIENT

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Give the pod the devices that fit best."""
        wanted = gpu_devices.demand(pod.shape.requests)
        free = free_for(state, pod, node_name)
        if not wanted.gpus or free is None:
            return None
        devices = gpu_devices.best_fit(free, wanted)
        if devices is None:
            return INSUFFICIENT
        assign(state, pod, devices)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Nothing: the pod's assumption holds its devices, and ends with it."""

    def events_to_register(self) -> Sequence[Subscription]:
        """Events that free or add devices may help."""
        return (
            Subscription(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)),
            Subscription(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)),
        )


def free_for(state: CycleState, pod: PodInfo, node_name: str) -> list[int] | None:
    """The free thousandths of a node's devices, as if the pod, which is assumed there, had none.

    None if the node is gone or does not share its GPUs: then its worker chooses.
    """
    node = None if state.cluster is None else state.cluster.by_name.get(node_name)
    if node is None or not gpu_devices.shareable(node.allocatable):
        return None
    free = list(node.gpu_free)
    milli = gpu_devices.demand(pod.shape.requests).milli
    for device in node.gpu_held.get(pod.uid, ()):
        free[device] += milli
    return free


def note_devices(state: CycleState, plugin: str, cluster: Cluster, rows: Rows, devices: IndexArray) -> None:
    """Note, while a plugin scores nodes, by which device of each it did."""
    noted = state.find(plugin, np.ndarray)
    if noted is None or len(noted) != cluster.size:
        noted = np.full(cluster.size, -1, dtype=np.intp)
        state.write(plugin, noted)
    noted[rows] = devices


def assign_noted(state: CycleState, pod: PodInfo, node_name: str, plugin: str) -> None:
    """Give a share the device that was noted for its node; devices that fit best stay if it has too little left."""
    wanted = gpu_devices.demand(pod.shape.requests)
    free, noted = free_for(state, pod, node_name), state.find(plugin, np.ndarray)
    if free is None or noted is None or state.cluster is None or not is_share(wanted):
        return
    device = int(noted[state.cluster.by_name[node_name].row])
    if 0 <= device < len(free) and free[device] >= wanted.milli:
        assign(state, pod, (device,))


def assign(state: CycleState, pod: PodInfo, devices: Devices) -> None:
    """Give an assumed pod these devices instead of those that it has."""
    assert state.cluster is not None, "an assumed pod is on a cluster"
    state.write(GPU_DEVICES, devices)
    placed = state.cluster.pods[pod.uid]
    if placed.gpu_devices != devices:
        state.cluster.replace_pod(placed.with_devices(devices))


def is_share(wanted: Demand) -> bool:
    """Whether a pod asks for less than one device."""
    return wanted.gpus == 1 and wanted.milli < gpu_devices.MILLI
