"""InterPodAffinity: required and preferred affinity and anti-affinity between pods.

Required terms filter: the pod's own affinity and anti-affinity, and the anti-affinity of existing pods. Preferred terms
score, including those of existing pods; their required affinity counts as a preference of `hardPodAffinityWeight`.
"""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from rota.columns import affinities
from rota.columns.affinities import AffinityCounts, NoTerms, Preferences
from rota.columns.arrays import BoolArray, CodeArray, FloatArray, IntArray, Rows
from rota.columns.change_log import Changes, ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.existing_terms import TermKind
from rota.columns.nodes import NodeInfo
from rota.columns.pods import AffinityTerm, PodInfo
from rota.scheduler.config.args import InterPodAffinityArgs
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE, PreFilterResult, Reuse
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable

PASS = PreFilterResult()
IDLE = PreFilterResult(SKIP)
REASONS = {
    affinities.NO_AFFINITY: unresolvable("node(s) didn't match pod affinity rules"),
    affinities.ANTI_AFFINITY: unschedulable("node(s) didn't match pod anti-affinity rules"),
    affinities.REFUSED_BY_OTHERS: unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"),
}


class InterPodAffinity:
    """Filter and Score by affinity terms."""

    name: ClassVar[str] = "InterPodAffinity"
    Args = InterPodAffinityArgs
    watches: ClassVar[ChangeScope] = ChangeScope.NODE

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        self._hard_weight = args.hard_pod_affinity_weight
        self._own_terms_only = args.ignore_preferred_terms_of_existing_pods
        self._score_key = f"{self.name}/preferences"

    def signature(self, pod: PodInfo) -> Hashable:
        """The pod's terms, and the labels that the terms of others select by."""
        shape = pod.shape
        return (
            shape.group,
            shape.required_affinity,
            shape.required_anti_affinity,
            shape.preferred_affinity,
            shape.preferred_anti_affinity,
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Count the pods that required terms select; without required terms Filter is skipped."""
        shape = pod.shape
        if not (
            shape.required_affinity or shape.required_anti_affinity or cluster.terms.of(TermKind.REQUIRED_ANTI_AFFINITY)
        ):
            state.write(self.name, NoTerms(cluster))
            return IDLE
        counts = AffinityCounts(pod, cluster)
        state.write(self.name, counts)
        return IDLE if counts.idle else PASS

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Add another pod to the counts."""
        state.read(self.name, AffinityCounts).shift(other, node, 1)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status:
        """Remove another pod from the counts."""
        state.read(self.name, AffinityCounts).shift(other, node, -1)
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node where a required term is not met."""
        code = state.read(self.name, AffinityCounts).verdict(node)
        return REASONS[code] if code else SUCCESS

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray:
        """The number of the first violated rule."""
        return state.read(self.name, AffinityCounts).verdicts(rows)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """The status of the violated rule."""
        return REASONS[code]

    def reuse_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes) -> Reuse:
        """Other pods and nodes change the counts."""
        counts = state.read(self.name, AffinityCounts)
        stale = changes.node and not isinstance(counts, NoTerms)
        return Reuse.AGAIN if stale or not counts.current() else Reuse.ROWS

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> Status:
        """Sum the weights of all terms that apply to the pod; without any, Score is skipped."""
        prefers = bool(pod.shape.preferred_affinity or pod.shape.preferred_anti_affinity)
        if self._own_terms_only and not prefers:
            state.delete(self._score_key)
            return SKIP
        if not prefers and not any(cluster.terms.of(kind) for kind in affinities.SCORING_KINDS):
            state.write(self._score_key, NoTerms(cluster))
            return SKIP
        preferences = Preferences(pod, cluster, hard_weight=self._hard_weight)
        state.write(self._score_key, preferences)
        return SKIP if preferences.idle else SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The sum of weights in a node's domains; may be negative."""
        return int(state.read(self._score_key, Preferences).raw[node.row])

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """The sum of weights in each row's domains."""
        return state.read(self._score_key, Preferences).raw[rows]

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> tuple[int, int]:
        """The lowest and the highest sum."""
        return (int(scores.min()), int(scores.max())) if len(scores) else (0, 0)

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        """Scale so that the lowest sum becomes 0 and the highest 100."""
        lowest, highest = bounds
        if highest == lowest:
            return np.zeros(len(scores), dtype=np.int64)
        shares: FloatArray = (scores - lowest) / float(highest - lowest)
        return (MAX_SCORE * shares).astype(np.int64)

    def reuse_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes, *, feasible_changed: bool
    ) -> Reuse:
        """Other pods and nodes change the sums."""
        preferences = state.find(self._score_key, Preferences)
        if preferences is None:
            return Reuse.ROWS
        stale = changes.node and not isinstance(preferences, NoTerms)
        return Reuse.AGAIN if stale or not preferences.current() else Reuse.ROWS

    def events_to_register(self) -> Sequence[Subscription]:
        """Pods that the terms select, and nodes in their domains, may help."""
        pod_events = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL
        return (
            Subscription(ClusterEvent(Resource.ASSIGNED_POD, pod_events), self._after_pod_change, by_shape=True),
            Subscription(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)),
            Subscription(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
                self._after_node_change,
                by_shape=True,
            ),
        )

    def _after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        shape = pod.shape
        wanted, shunned = shape.required_affinity, shape.required_anti_affinity
        if new is not None and wanted and _meets_all(wanted, new) and not (old and _meets_all(wanted, old)):
            return Hint.QUEUE
        if old is None:
            return Hint.SKIP
        shuns = _meets_any(shunned, old) and not (new and _meets_any(shunned, new))
        shunned_by = _meets_any(old.shape.required_anti_affinity, pod) and not (
            new and _meets_any(new.shape.required_anti_affinity, pod)
        )
        return Hint.QUEUE if shuns or shunned_by else Hint.SKIP

    def _after_node_change(self, pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> Hint:
        shape = pod.shape
        for term in (*shape.required_affinity, *shape.required_anti_affinity):
            before = old.labels.get(term.topology_key) if old is not None else None
            if new.labels.get(term.topology_key) != before:
                return Hint.QUEUE
        return Hint.QUEUE if not shape.required_affinity and old is None else Hint.SKIP


def _meets_any(terms: Sequence[AffinityTerm], pod: PodInfo) -> bool:
    return any(_meets(term, pod) for term in terms)


def _meets_all(terms: Sequence[AffinityTerm], pod: PodInfo) -> bool:
    return all(_meets(term, pod) for term in terms)


def _meets(term: AffinityTerm, pod: PodInfo) -> bool:
    """Whether a term selects a pod; namespaces selected by label count as a match, since their labels are not known
    here."""
    inside = term.namespace_selector is not None or pod.namespace in term.namespaces
    return inside and term.selector.matches(pod.labels)
