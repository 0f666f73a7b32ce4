"""NodeAffinity: nodes that a pod requires or prefers by their labels or their name.

`addedAffinity` in the arguments applies to every pod of the profile, in addition to the pod's own affinity.
"""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from rota.api import nodeselectors
from rota.api.nodeselectors import NAME_FIELD, NodeSelectorTerm
from rota.columns import objects, requirements
from rota.columns.arrays import BoolArray, CodeArray, IntArray, Rows, count
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.columns.requirements import NodeRequirements
from rota.scheduler.config.args import NodeAffinityArgs
from rota.scheduler.framework import normalization
from rota.scheduler.framework.events import Action, ClusterEvent, Hint, Resource, Subscription
from rota.scheduler.framework.plugin_interfaces import PreFilterResult
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable

NOT_MATCHED = unresolvable("node(s) didn't match Pod's node affinity/selector")
NOT_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = unresolvable("pod affinity terms conflict")

PREFERENCE_KEY = "NodeAffinity/preference"

#: Codes: 1 is a refusal by the pod.
_UNENFORCED = 2


class Preference:
    """Weighted terms; a node's score is the sum of the weights of the terms that match it."""

    __slots__ = ("terms",)

    def __init__(self, terms: Sequence[objects.PreferredSchedulingTerm]) -> None:
        self.terms: list[tuple[int, NodeSelectorTerm]] = []
        for each in terms:
            term = nodeselectors.compile_term(each.preference) if each.weight else None
            if term is not None:
                self.terms.append((each.weight, term))

    @property
    def error(self) -> str | None:
        """The error of terms that are invalid."""
        return next((error for _, term in self.terms for error in term.errors), None)

    def worth(self, node: NodeInfo) -> int:
        """Score one node."""
        return sum(weight for weight, term in self.terms if term.matches(node.labels, node.name))

    def worths(self, cluster: Cluster, rows: Rows) -> IntArray:
        """Score the selected rows."""
        total = np.zeros(count(rows), dtype=np.int64)
        for weight, term in self.terms:
            total += weight * cluster.labels.matching_term(term, rows, cluster.by_name)
        return total


class NodeAffinity:
    """Filter on required terms and nodeSelector, Score on preferred terms."""

    name: ClassVar[str] = "NodeAffinity"
    Args = NodeAffinityArgs
    watches: ClassVar[ChangeScope] = ChangeScope.NODE

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        added = args.added_affinity or objects.NodeAffinity()
        required = added.requiredDuringSchedulingIgnoredDuringExecution
        self._added_terms = None if required is None else nodeselectors.compile_selector(required)
        preferred = added.preferredDuringSchedulingIgnoredDuringExecution
        self._added_preference = Preference(preferred) if preferred else None

    def signature(self, pod: PodInfo) -> Hashable:
        """The pod's selectors of nodes."""
        shape = pod.shape
        affinity = None if shape.node_affinity is None else msgspec.msgpack.encode(shape.node_affinity)
        return tuple(shape.node_selector.items()), affinity

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Compile the requirements; if every term names its nodes, only those are eligible."""
        shape = pod.shape
        demands = requirements.of(shape)
        if demands.terms is None and not shape.node_selector and self._added_terms is None:
            return PreFilterResult(SKIP)
        state.write(self.name, demands)
        required = shape.node_affinity.requiredDuringSchedulingIgnoredDuringExecution if shape.node_affinity else None
        if required is None or not required.nodeSelectorTerms:
            return PreFilterResult()
        named: set[str] = set()
        for term in required.nodeSelectorTerms:
            names = _named(term)
            if names is None:
                return PreFilterResult()
            named |= names
        return PreFilterResult(node_names=frozenset(named)) if named else PreFilterResult(CONFLICT)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node that the profile or the pod excludes."""
        if self._added_terms is not None and not self._added_terms.matches(node.labels, node.name):
            return NOT_ENFORCED
        return SUCCESS if self._demands(state, pod).met_by(node) else NOT_MATCHED

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray:
        """2 where the profile excludes the node, else 1 where the pod does."""
        met = self._demands(state, pod).rows(cluster, rows)
        codes = (~met).astype(np.int64)
        if self._added_terms is not None:
            codes[~cluster.labels.matching_any(self._added_terms, rows, cluster.by_name)] = _UNENFORCED
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """The status of the code."""
        return NOT_ENFORCED if code == _UNENFORCED else NOT_MATCHED

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> Status:
        """Compile the preferences; without any, Score is skipped."""
        affinity = pod.shape.node_affinity
        prefers = affinity is not None and affinity.preferredDuringSchedulingIgnoredDuringExecution is not None
        if not prefers and self._added_preference is None:
            return SKIP
        self._preference(state, pod)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Sum the weights of the terms that match."""
        added = self._added_preference.worth(node) if self._added_preference is not None else 0
        return added + self._preference(state, pod).worth(node)

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Sum the weights of the terms that match, per row."""
        total = self._preference(state, pod).worths(cluster, rows)
        if self._added_preference is not None:
            total += self._added_preference.worths(cluster, rows)
        return total

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> int:
        """The highest sum."""
        return normalization.highest(scores)

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        """100 for the highest sum."""
        return normalization.by_highest(scores, bounds, reverse=False)

    def events_to_register(self) -> Sequence[Subscription]:
        """Nodes that now match, and did not before, may help."""
        changed = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (Subscription(changed, self._after_node_change, by_shape=True),)

    def _demands(self, state: CycleState, pod: PodInfo) -> NodeRequirements:
        """The requirements that PreFilter compiled, or compiled now if a profile left PreFilter out."""
        return state.find(self.name, NodeRequirements) or requirements.of(pod.shape)

    def _preference(self, state: CycleState, pod: PodInfo) -> Preference:
        """The pod's preferences, compiled once; invalid terms are an error."""
        preference = state.find(PREFERENCE_KEY, Preference)
        if preference is None:
            affinity = pod.shape.node_affinity
            terms = affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity else None
            preference = Preference(terms or ())
            if preference.error is not None:
                raise ValueError(preference.error)
            state.write(PREFERENCE_KEY, preference)
        return preference

    def _after_node_change(self, pod: PodInfo, old: NodeInfo | None, new: NodeInfo) -> Hint:
        demands = requirements.of(pod.shape)

        def suits(node: NodeInfo) -> bool:
            enforced = self._added_terms is None or self._added_terms.matches(node.labels, node.name)
            return enforced and demands.met_by(node)

        return Hint.QUEUE if suits(new) and not (old is not None and suits(old)) else Hint.SKIP


def _named(term: objects.NodeSelectorTerm) -> set[str] | None:
    """The nodes that a term names; None if it names none."""
    named: set[str] | None = None
    for each in term.matchFields or ():
        if each.key == NAME_FIELD and each.operator == "In":
            values = set(each.values or ())
            named = values if named is None else named & values
    return named
