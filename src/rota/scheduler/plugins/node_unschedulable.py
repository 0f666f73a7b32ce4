"""NodeUnschedulable: cordoned nodes take no pods, except those that tolerate the cordon's taint."""

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from rota.columns import objects, taints
from rota.columns.arrays import CodeArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Status, unresolvable

CORDON = objects.Taint(key="node.kubernetes.io/unschedulable", effect=taints.NO_SCHEDULE)
REFUSED = unresolvable("node(s) were unschedulable")


class NodeUnschedulable:
    """Filter on `spec.unschedulable`."""

    name: ClassVar[str] = "NodeUnschedulable"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.NODE

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable:
        """The tolerations."""
        return pod.shape.tolerations

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a cordoned node."""
        if not node.unschedulable or taints.tolerated(pod.shape.tolerations, CORDON):
            return SUCCESS
        return REFUSED

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray | None:
        """1 for cordoned nodes."""
        if not cluster.cordoned or taints.tolerated(pod.shape.tolerations, CORDON):
            return None
        return cluster.unschedulable[rows].astype(np.int64)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """There is only one reason."""
        return REFUSED

    def events_to_register(self) -> Sequence[Subscription]:
        """Uncordoned nodes, and the pod's own tolerations, may help."""
        return (
            Subscription(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
                self._after_node_change,
                by_shape=True,
            ),
            Subscription(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION), self._after_own_change),
        )

    def _after_node_change(self, pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> Hint:
        opened = not new.unschedulable and (old is None or old.unschedulable)
        return Hint.QUEUE if opened else Hint.SKIP

    def _after_own_change(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
        return Hint.QUEUE if taints.tolerated(new.shape.tolerations, CORDON) else Hint.SKIP
