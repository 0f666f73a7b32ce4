"""DefaultPreemption: if no node is feasible, find one where evicting pods of lower priority makes room.

Only nodes whose refusal evictions can resolve are examined, and in a large cluster not all of those: the search begins
at `state.start` and ends when enough candidates were found (`minCandidateNodes...`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.config.args import DefaultPreemptionArgs
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import NodeStatuses, PostFilterResult, Reprieves
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status, unschedulable
from rota.scheduler.preemption import victims
from rota.scheduler.preemption.victims import Candidate

NEVER = unschedulable("preemption: not eligible due to preemptionPolicy=Never.")
IN_PROGRESS = unschedulable("preemption: not eligible due to a terminating pod on the nominated node.")
NOT_HELPFUL = "Preemption is not helpful for scheduling"


class DefaultPreemption:
    """PostFilter: nominate a node and name the victims."""

    name: ClassVar[str] = "DefaultPreemption"
    Args = DefaultPreemptionArgs
    refuses_by_shape: ClassVar[bool] = True

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle

    def post_filter(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, statuses: NodeStatuses
    ) -> PostFilterResult:
        """Find the node where the least is lost."""
        refusal = self._not_eligible(pod, cluster, statuses)
        if refusal is not None:
            return PostFilterResult(refusal)
        nodes = [cluster.nodes[row] for row in np.flatnonzero(~statuses.unresolvable()).tolist()]
        candidates, refusals = self._candidates(state, pod, cluster, [node for node in nodes if node is not None])
        if not candidates:
            return self._nothing_found(cluster, refusals)
        chosen = victims.best(candidates)
        return PostFilterResult(SUCCESS, chosen.node_name, chosen.victims, tuple(candidates))

    def _not_eligible(self, pod: PodInfo, cluster: Cluster, statuses: NodeStatuses) -> Status | None:
        if pod.shape.preemption_policy == "Never":
            return NEVER
        node = cluster.by_name.get(pod.nominated_node)
        if node is None or statuses.status_of(node.row).code is Code.UNRESOLVABLE:
            return None
        leaving = any(
            other.preempted and other.terminating and other.priority < pod.priority for other in node.pods.values()
        )
        return IN_PROGRESS if leaving else None

    def _candidates(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, nodes: Sequence[NodeInfo]
    ) -> tuple[list[Candidate], list[Status]]:
        """Try nodes in turn until there are enough candidates, one of them without a PDB violation."""
        trials = self._trials(state, pod, cluster)
        enough = self._enough(len(nodes))
        unharmed: list[Candidate] = []
        harmful: list[Candidate] = []
        refusals: list[Status] = []
        for node in _rotated(nodes, state.start):
            found = trials.on(node)
            if isinstance(found, Status):
                refusals.append(found)
                continue
            if not found.victims:
                refusals.append(Status(Code.ERROR, (f"expected at least one victim pod on node {node.name!r}",)))
                continue
            (harmful if found.violations else unharmed).append(found)
            if unharmed and len(unharmed) + len(harmful) >= enough:
                break
        return unharmed + harmful, refusals

    def _trials(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> "_Trials":
        """The trials of an earlier equal pod, if they are still valid, or new ones."""
        kept = state.find(self.name, _Trials)
        if kept is not None and kept.refresh(pod, state):
            return kept
        trials = _Trials(self._handle, state, pod, cluster)
        state.write(self.name, trials)
        return trials

    def _enough(self, nodes: int) -> int:
        share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(share, self._args.min_candidate_nodes_absolute), nodes)

    def _nothing_found(self, cluster: Cluster, refusals: Iterable[Status]) -> PostFilterResult:
        total = len(cluster.by_name)
        faults = [refusal for refusal in refusals if refusal.code is Code.ERROR]
        if faults:
            return PostFilterResult(faults[0])
        reasons = Counter(reason for refusal in refusals for reason in refusal.reasons)
        unasked = total - len(list(refusals))
        if unasked:
            reasons[NOT_HELPFUL] += unasked
        listed = ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items()))
        message = f"preemption: 0/{total} nodes are available: {listed}."
        return PostFilterResult(unschedulable(message), nominated_node="")

    def events_to_register(self) -> Sequence[Subscription]:
        """Pod deletions are registered, but the plugins that refused the pod decide whether they help."""
        return (Subscription(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), _skip),)


class _Trials:
    """The results of evictions on each node. Kept between equal pods if nodes do not depend on each other."""

    __slots__ = (
        "_budgets",
        "_cluster",
        "_found",
        "_generation",
        "_handle",
        "_machine_filter",
        "_pod",
        "_sole",
        "_state",
        "_version",
    )

    def __init__(self, handle: Handle, state: CycleState, pod: PodInfo, cluster: Cluster) -> None:
        self._handle = handle
        self._state = state
        self._pod = pod
        self._cluster = cluster
        self._budgets = victims.budgets(cluster.catalog)
        self._version = cluster.catalog.version("PodDisruptionBudget")
        self._generation = cluster.change_log.generation
        self._found: dict[int, Candidate | Status] = {}
        dependent = handle.pod_filters(state)
        reprieves = len(dependent) == 1 and callable(getattr(dependent[0], "reprieve", None))
        self._machine_filter = handle.machine_filter(state)
        #: The only filter that depends on pods, if there is one and it works by sums.
        self._sole: Reprieves | None = dependent[0] if reprieves and not state.nominations else None

    def refresh(self, pod: PodInfo, state: CycleState) -> bool:
        """Drop results that are no longer valid; False if none is valid."""
        changes = self._cluster.change_log.since(self._generation)
        if (
            self._sole is None
            or changes is None
            or pod.priority != self._pod.priority
            or state.nominations
            or self._cluster.catalog.version("PodDisruptionBudget") != self._version
        ):
            return False
        for row in changes.all:
            self._found.pop(row, None)
        self._generation = self._cluster.change_log.generation
        self._pod, self._state = pod, state
        return True

    def on(self, node: NodeInfo) -> Candidate | Status:
        """Try one node."""
        found = self._found.get(node.row)
        if found is None:
            found = self._found[node.row] = self._try(node)
        return found

    def _try(self, node: NodeInfo) -> Candidate | Status:
        if self._sole is None:
            if all(other.shape.priority >= self._pod.shape.priority for other in node.pods.values()):
                return victims.NO_VICTIMS  # before anything is copied
            return victims.select_victims(
                self._handle, self._state.clone(), self._pod, node.copy(), limits=self._budgets
            )
        found = victims.select_by_sums(self._sole, self._state, self._pod, node, limits=self._budgets)
        if isinstance(found, Candidate):
            refusal = self._machine_filter(self._state, self._pod, node)
            return found if refusal.ok else refusal
        return found


def _skip(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
    return Hint.SKIP


def _rotated(nodes: Sequence[NodeInfo], start: int) -> Iterable[NodeInfo]:
    first = start % len(nodes) if nodes else 0
    return (*nodes[first:], *nodes[:first])
