"""PodTopologySpread: spread the pods that a constraint selects evenly over the values of a node label.

DoNotSchedule constraints filter: with the pod, no domain may have more than maxSkew pods above the minimum.
ScheduleAnyway constraints score: the fewer matching pods in a node's domains, the better. Pods without constraints get
those of the arguments, or the system defaults (by host name and by zone), with the selector of their services and
owner.
"""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from rota.columns import topology_spread
from rota.columns.arrays import BoolArray, CodeArray, IntArray, Rows
from rota.columns.change_log import Changes, ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.objects import TopologySpreadConstraint
from rota.columns.pods import PodInfo
from rota.columns.topology_spread import Constraint, HardSpread, SoftSpread
from rota.scheduler.config.args import PodTopologySpreadArgs
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE, PreFilterResult, Reuse
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable

UNEVEN = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(
        topologyKey=topology_spread.HOSTNAME, whenUnsatisfiable=SCHEDULE_ANYWAY, maxSkew=3, labelSelector=None
    ),
    TopologySpreadConstraint(
        topologyKey="topology.kubernetes.io/zone", whenUnsatisfiable=SCHEDULE_ANYWAY, maxSkew=5, labelSelector=None
    ),
)
#: Kinds whose selectors default constraints use.
SELECTING_KINDS = ("Service", "ReplicationController", "ReplicaSet", "StatefulSet")


class PodTopologySpread:
    """Filter and Score by the spread of pods over domains."""

    name: ClassVar[str] = "PodTopologySpread"
    Args = PodTopologySpreadArgs
    watches: ClassVar[ChangeScope] = ChangeScope.NODE

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._system = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else tuple(args.default_constraints)
        self._soft_key = f"{self.name}/soft"
        # Filter and Score are refreshed one after the other, so each keeps the version of its sources.
        self._hard_sources = f"{self.name}/hard sources"
        self._soft_sources = f"{self.name}/soft sources"

    def signature(self, pod: PodInfo) -> Hashable:
        """The constraints and what they depend on: labels, node requirements, tolerations, owner."""
        shape = pod.shape
        constraints = msgspec.msgpack.encode(shape.spread_constraints) if shape.spread_constraints else b""
        if not constraints and not self._defaults:
            return None, b""
        where = (shape.node_selector, shape.node_affinity, shape.tolerations) if constraints else shape.owner
        return shape.group, constraints, msgspec.msgpack.encode(where)

    # --- filtering --------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Count matching pods by domain; without hard constraints Filter is skipped."""
        constraints = self._constraints(pod, cluster, DO_NOT_SCHEDULE)
        state.write(self.name, HardSpread(constraints, pod, cluster) if constraints else None)
        state.write(self._hard_sources, self._sources(pod, cluster))
        return PreFilterResult(SUCCESS if constraints else SKIP)

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Add another pod to the counts."""
        state.read(self.name, HardSpread).shift(pod, other, node, 1)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Remove another pod from the counts."""
        state.read(self.name, HardSpread).shift(pod, other, node, -1)
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node that lacks a label, or whose domain would exceed the skew."""
        code = state.read(self.name, HardSpread).verdict(node)
        return self.explain(state, pod, code) if code else SUCCESS

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray:
        """1 where a label is missing, 2 where the domain would exceed the skew."""
        return state.read(self.name, HardSpread).verdicts(rows)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """The status of the code."""
        return NO_LABEL if code == topology_spread.MISSING else UNEVEN

    def reuse_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes) -> Reuse:
        """Other pods and nodes change the counts."""
        if state.read(self._hard_sources, int) != self._sources(pod, cluster):
            return Reuse.AGAIN
        spread = state.find(self.name, HardSpread)
        if spread is None:
            return Reuse.ROWS
        if changes.node:
            return Reuse.AGAIN
        return Reuse.ALL_ROWS if spread.refresh(changes.pods) else Reuse.ROWS

    # --- scoring ----------------------------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> Status:
        """Count matching pods by domain; without soft constraints Score is skipped."""
        constraints = self._constraints(pod, cluster, SCHEDULE_ANYWAY)
        state.write(self._soft_sources, self._sources(pod, cluster))
        if not constraints:
            state.write(self._soft_key, None)
            return SKIP
        all_keys = bool(pod.shape.spread_constraints) or not self._system
        state.write(self._soft_key, SoftSpread(constraints, pod, cluster, feasible, all_keys=all_keys))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The number of matching pods around a node, higher is worse; -1 for nodes that are not scored."""
        return state.read(self._soft_key, SoftSpread).domain_count(node)

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """The number of matching pods around each row."""
        return state.read(self._soft_key, SoftSpread).domain_counts(rows)

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> tuple[int, int]:
        """The smallest and the largest count."""
        rated = scores[scores >= 0]
        return (int(rated.min()), int(rated.max())) if len(rated) else (0, 0)

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        """Invert the counts; nodes that are not scored get 0."""
        smallest, largest = bounds
        if largest == 0:
            return np.where(scores < 0, 0, MAX_SCORE)
        return np.where(scores < 0, 0, MAX_SCORE * (largest + smallest - scores) // largest)

    def reuse_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes, *, feasible_changed: bool
    ) -> Reuse:
        """Other pods and nodes change the counts, and the feasible nodes determine the domains."""
        if state.read(self._soft_sources, int) != self._sources(pod, cluster):
            return Reuse.AGAIN
        spread = state.find(self._soft_key, SoftSpread)
        if spread is None:
            return Reuse.ROWS
        return Reuse.ROWS if not feasible_changed and not changes.node and spread.unchanged() else Reuse.AGAIN

    # --- constraints and events ---------------------------------------------------------------------------------------

    def _constraints(self, pod: PodInfo, cluster: Cluster, action: str) -> tuple[Constraint, ...]:
        own = pod.shape.spread_constraints
        if own:
            return topology_spread.compiled(own, pod, action)
        if not cluster.catalog.version(*SELECTING_KINDS):
            return ()
        chosen = [each for each in self._defaults if each.whenUnsatisfiable == action]
        selector = topology_spread.default_selector(pod, cluster.catalog) if chosen else None
        if selector is None or selector.empty:
            return ()
        return topology_spread.compiled(chosen, pod, action, selector=selector)

    def _sources(self, pod: PodInfo, cluster: Cluster) -> int:
        """A number that changes with the objects that default constraints are made from."""
        return 0 if pod.shape.spread_constraints else cluster.catalog.version(*SELECTING_KINDS)

    def events_to_register(self) -> Sequence[Subscription]:
        """Matching pods that are added or deleted, and nodes that add or change domains, may help."""
        pod_events = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        node_events = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        own_events = Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        return (
            Subscription(ClusterEvent(Resource.ASSIGNED_POD, pod_events), self._after_pod_change, by_shape=True),
            Subscription(ClusterEvent(Resource.TARGET_POD, own_events)),
            Subscription(ClusterEvent(Resource.NODE, node_events), self._after_node_change, by_shape=True),
        )

    def _after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        other = new if new is not None else old
        if other is None or other.namespace != pod.namespace:
            return Hint.SKIP
        if not pod.shape.spread_constraints:
            # The selector of default constraints is made from services and workloads, which are not known here: any pod
            # of the namespace may match.
            return Hint.QUEUE if old is None or new is None or old.labels != new.labels else Hint.SKIP
        for constraint in self._own_or_default(pod):
            before = old is not None and constraint.selector.matches(old.labels)
            after = new is not None and constraint.selector.matches(new.labels)
            if before != after:
                return Hint.QUEUE
        return Hint.SKIP

    def _after_node_change(self, pod: PodInfo, old: NodeInfo | None, new: NodeInfo | None) -> Hint:
        keys = [constraint.key for constraint in self._own_or_default(pod)]

        def place(node: NodeInfo | None) -> list[str] | None:
            return [node.labels[key] for key in keys] if node and all(key in node.labels for key in keys) else None

        before, after = place(old), place(new)
        retainted = old is not None and new is not None and old.taints != new.taints and after is not None
        return Hint.QUEUE if before != after or retainted else Hint.SKIP

    def _own_or_default(self, pod: PodInfo) -> tuple[Constraint, ...]:
        return topology_spread.compiled(pod.shape.spread_constraints or self._defaults, pod, DO_NOT_SCHEDULE)
