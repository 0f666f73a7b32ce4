"""NodePorts: two pods cannot have the same host port on one node."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from rota.api import resources
from rota.api.resources import HostPort
from rota.columns.arrays import CodeArray, Rows, count
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import PreFilterResult
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Status, unschedulable

REFUSED = unschedulable("node(s) didn't have free ports for the requested pod ports")
PASS = PreFilterResult()
IDLE = PreFilterResult(SKIP)


class NodePorts:
    """Filter by host ports; the address 0.0.0.0 stands for all addresses."""

    name: ClassVar[str] = "NodePorts"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.PODS

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable:
        """The host ports."""
        return pod.shape.host_ports

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Skip pods without host ports."""
        return PASS if pod.shape.host_ports else IDLE

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node where a requested port is taken."""
        return REFUSED if resources.conflicting_ports(pod.shape.host_ports, node.ports) else SUCCESS

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray:
        """1 where a requested port is taken."""
        taken = {
            row
            for port in pod.shape.host_ports
            for row, addresses in cluster.ports.taken(port.protocol, port.port).items()
            if any(port.conflicts(HostPort(address, port.protocol, port.port)) for address in addresses)
        }
        if isinstance(rows, slice):
            codes = np.zeros(count(rows), dtype=np.int64)
            codes[list(taken)] = 1
            return codes
        return np.fromiter((row in taken for row in rows.tolist()), dtype=np.int64, count=len(rows))

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """There is only one reason."""
        return REFUSED

    def events_to_register(self) -> Sequence[Subscription]:
        """New nodes help; so does the end of a pod that had one of the ports."""
        return (
            Subscription(ClusterEvent(Resource.NODE, Action.ADD)),
            Subscription(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self._after_pod_deleted, by_shape=True),
        )

    def _after_pod_deleted(self, pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
        held = old.shape.host_ports if old.node_name or old.nominated_node else ()
        return Hint.QUEUE if resources.conflicting_ports(pod.shape.host_ports, held) else Hint.SKIP
