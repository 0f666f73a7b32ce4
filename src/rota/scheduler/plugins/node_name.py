"""NodeName: a pod that names its node goes only there."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from rota.columns.arrays import CodeArray, Rows, count
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import PreFilterResult
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable

REFUSED = unresolvable("node(s) didn't match the requested node name")
IDLE = PreFilterResult(SKIP)


class NodeName:
    """Filter on the pod's `spec.nodeName`."""

    name: ClassVar[str] = "NodeName"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.NODE

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable:
        """The node name."""
        return pod.node_name

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Skip pods that name no node; else only the named node is eligible."""
        return PreFilterResult(node_names=frozenset({pod.node_name})) if pod.node_name else IDLE

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse all nodes but the named one."""
        return SUCCESS if pod.node_name in {"", node.name} else REFUSED

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray:
        """1 for all nodes but the named one."""
        node = cluster.by_name.get(pod.node_name)
        codes = np.ones(count(rows), dtype=np.int64) if pod.node_name else np.zeros(count(rows), dtype=np.int64)
        if node is not None:
            codes[node.row if isinstance(rows, slice) else rows == node.row] = 0
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """There is only one reason."""
        return REFUSED

    def events_to_register(self) -> Sequence[Subscription]:
        """Only the creation of the named node can help."""
        return (Subscription(ClusterEvent(Resource.NODE, Action.ADD)),)
