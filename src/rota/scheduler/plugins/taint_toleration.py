"""TaintToleration: refuse nodes whose taints the pod does not tolerate, and prefer nodes with few such taints.

NoSchedule and NoExecute taints filter. PreferNoSchedule taints are counted; the fewer, the better.
"""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from rota.columns import taints
from rota.columns.arrays import BoolArray, CodeArray, IntArray, Rows, count
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework import normalization
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Status, unresolvable

REFUSED = unresolvable("node(s) had untolerated taint(s)")


class TaintToleration:
    """Filter and Score on taints."""

    name: ClassVar[str] = "TaintToleration"
    Args = NoArgs
    watches: ClassVar[ChangeScope] = ChangeScope.NODE

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable:
        """The tolerations."""
        return pod.shape.tolerations

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node with a NoSchedule or NoExecute taint that the pod does not tolerate."""
        return REFUSED if taints.repelled(pod.shape.tolerations, node.taints) else SUCCESS

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray | None:
        """1 where such a taint is not tolerated."""
        tolerations = pod.shape.tolerations
        if not any(held and taints.repelled(tolerations, held) for held in cluster.taints.values):
            return None
        table = cluster.taints.table(lambda held: taints.repelled(tolerations, held or ()), np.int64)
        return np.asarray(table[cluster.taints.column[rows]])

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """There is only one reason."""
        return REFUSED

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> Status:
        """Select the tolerations for PreferNoSchedule."""
        state.write(self.name, taints.against_scheduling(pod.shape.tolerations))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Count the PreferNoSchedule taints that the pod does not tolerate."""
        return taints.disliked(self._tolerations(state, pod), node.taints)

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Count the PreferNoSchedule taints that the pod does not tolerate, per row."""
        if not any(taint.effect == taints.PREFER_NO_SCHEDULE for held in cluster.taints.values for taint in held or ()):
            return np.zeros(count(rows), dtype=np.int64)
        tolerations = self._tolerations(state, pod)
        table = cluster.taints.table(lambda held: taints.disliked(tolerations, held or ()), np.int64)
        return np.asarray(table[cluster.taints.column[rows]])

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> int:
        """The highest count."""
        return normalization.highest(scores)

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        """100 for nodes without such taints."""
        return normalization.by_highest(scores, bounds, reverse=True)

    def events_to_register(self) -> Sequence[Subscription]:
        """Nodes whose taints become tolerated, and the pod's own tolerations, may help."""
        return (
            Subscription(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
                self._after_node_change,
                by_shape=True,
            ),
            Subscription(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)),
        )

    def _tolerations(self, state: CycleState, pod: PodInfo) -> taints.Tolerations:
        """The tolerations that PreScore selected, or selected now if a profile left PreScore out."""
        picked = state.find(self.name, tuple)
        return taints.against_scheduling(pod.shape.tolerations) if picked is None else picked

    def _after_node_change(self, pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> Hint:
        tolerations = pod.shape.tolerations
        was_repelled = old is None or taints.repelled(tolerations, old.taints)
        return Hint.QUEUE if was_repelled and not taints.repelled(tolerations, new.taints) else Hint.SKIP
