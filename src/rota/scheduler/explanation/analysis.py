"""Explains one pod on the cluster as it is now: repeats the decision and collects every detail. Pure.

A pod that has a node is removed from it first, so that the explanation says where it would go today. The cluster stays
unchanged.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import msgspec

from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.cycle.decision import Decider, Decision
from rota.scheduler.explanation import objective_reasons
from rota.scheduler.explanation.node_tables import Evictions, Obstacles, victim
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.nominated_pods import Nominations
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, PostFilterResult
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import SUCCESS, Status
from rota.scheduler.hints import required_changes
from rota.scheduler.hints.explanation_report import Change, Explanation, Meta, Node, Outcome, Refusal, Score

#: Nodes that are examined in detail by default; evictions are tried there one by one.
MOST_NODES: Final = 100
_NAMED: Final = 3
_OWN_CHOICE: Final = "node(s) left out by the pod's own choice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinions:
    """The results of extenders for the feasible nodes, by node."""

    refusals: Mapping[str, Status] = field(default_factory=dict)
    #: Weighted and scaled to plugins' scores.
    ratings: Mapping[str, int] = field(default_factory=dict)


NO_OPINIONS = Opinions()


def evaluate(
    framework: Framework, cluster: Cluster, pod: PodInfo, *, nominations: Nominations | None = None
) -> Decision:
    """Decide for the pod as if it had no node."""
    return Decider(framework, cluster).decide(_unassigned(pod), nominations=nominations)


def explain(
    framework: Framework,
    cluster: Cluster,
    pod: PodInfo,
    *,
    node_name: str = "",
    most: int = MOST_NODES,
    nominations: Nominations | None = None,
    opinions: Opinions = NO_OPINIONS,
) -> Explanation:
    """Explain a pod: the required changes over all nodes, and up to `nodes` nodes, or one, in detail."""
    with without(cluster, pod):
        decision = evaluate(framework, cluster, pod, nominations=nominations)
        return _Told(decision, pod, opinions).explanation(node_name, most)


def unserved(pod: PodInfo, served: Sequence[str]) -> Explanation:
    """Explain a pod whose schedulerName no scheduler here serves: it waits for that scheduler."""
    wanted = pod.shape.scheduler_name
    if pod.node_name:
        summary = f'was placed by another scheduler, "{wanted}"; this one serves {_listed(served)} and cannot say why'
    else:
        summary = (
            f'waits for a scheduler named "{wanted}" (spec.schedulerName), and no scheduler of this cluster is: known '
            f"{'is' if len(served) == 1 else 'are'} {_listed(served)}; run one with that profile, or create the pod "
            "with another schedulerName"
        )
    return Explanation(
        metadata=Meta(namespace=pod.namespace, name=pod.name, uid=pod.uid),
        scheduler_name=wanted,
        outcome="Held",
        summary=summary,
        current_node=pod.node_name,
    )


def with_group(pod: PodInfo, group: str, reason: str) -> Explanation:
    """Explain a pod that starts with its group or not at all; the reason is that of the group."""
    if pod.node_name:
        summary = f"was placed with its group, {group}"
    elif reason:
        summary = (
            f"its group {group} {reason}" if reason.startswith("waits ") else f"waits with its group {group}: {reason}"
        )
    else:
        summary = f"waits with its group {group}; no pass of the batch scheduler has decided about it yet"
    return Explanation(
        metadata=Meta(namespace=pod.namespace, name=pod.name, uid=pod.uid),
        scheduler_name=pod.shape.scheduler_name,
        outcome="Held",
        summary=summary,
        current_node=pod.node_name,
    )


@contextlib.contextmanager
def without(cluster: Cluster, pod: PodInfo) -> Iterator[None]:
    """Remove a pod from its node inside a `with` block."""
    if pod.uid not in cluster.pods:
        yield
        return
    with cluster.what_if():
        cluster.remove_pod(pod.uid)
        yield


def held_back(framework: Framework, pod: PodInfo) -> Status:
    """The PreEnqueue status of the pod: whether it may be tried at all."""
    for plugin in framework.at(ExtensionPoint.PRE_ENQUEUE):
        try:
            answer: Status | None = plugin.pre_enqueue(pod)
        except Exception as error:  # noqa: BLE001 - plugins are other people's code
            return statuses.fault(error, plugin=plugin.name)
        if answer is not None and not answer.ok:
            return answer.by(plugin.name)
    return SUCCESS


def _unassigned(pod: PodInfo) -> PodInfo:
    return msgspec.structs.replace(pod, node_name="") if pod.node_name else pod


class _Told:
    """A decision while its explanation is built."""

    def __init__(self, decision: Decision, pod: PodInfo, opinions: Opinions) -> None:
        self._decision = decision
        self._evaluation: Evaluation = decision.evaluation
        self._pod = pod
        self._opinions = opinions
        self._framework = self._evaluation.framework
        self._weights = {forms.name: forms.weight for forms in self._framework.scorers}
        self._obstacles = Obstacles(self._evaluation)

    def explanation(self, node_name: str, most: int) -> Explanation:
        infos = list(self._evaluation.cluster.node_infos())
        totals = self._totals(infos)
        asked = [info for info in infos if not node_name or info.name == node_name]
        refused = {info.name: self._refusals(info) for info in asked if info.name not in totals}
        shown = sorted(asked, key=lambda info: (-totals.get(info.name, -1), len(refused.get(info.name, ()))))[:most]
        room = self._decision.post_filter if not totals else None
        made = room if room is not None and room.status.ok else PostFilterResult(SUCCESS)
        evictions = self._evictions() if not totals or node_name else None
        held = held_back(self._framework, self._pod)
        best = _best(totals)
        outcome = self._outcome(held, totals)
        return Explanation(
            metadata=Meta(namespace=self._pod.namespace, name=self._pod.name, uid=self._pod.uid),
            scheduler_name=self._framework.profile_name,
            outcome=outcome,
            summary=self._summary(outcome, held, totals, made),
            current_node=self._pod.node_name,
            node=best[0] if best else "",
            nominated=made.nominated_node or "",
            victims=tuple(map(victim, made.victims)),
            no_room=", ".join(room.status.reasons) if room is not None and not room.status.ok else "",
            combination=self._combination(totals),
            changes=self._changes(asked, refused) if not totals or node_name else (),
            nodes=tuple(
                self._feasible(info, totals, best)
                if info.name in totals
                else self._infeasible(info, refused[info.name], evictions)
                for info in shown
            ),
            omitted=len(asked) - len(shown),
        )

    def _outcome(self, held: Status, totals: Mapping[str, int]) -> Outcome:
        if self._evaluation.failure is not None:
            return "Error"
        if not held.ok and not self._pod.node_name:
            return "Held"
        return "Schedulable" if totals else "Unschedulable"

    def _combination(self, totals: Mapping[str, int]) -> str:
        """One sentence about the objectives and the node that they choose."""
        combiner = self._framework.combiner
        if combiner is None or not totals:
            return ""
        info = self._evaluation.cluster.by_name[_best(totals)[0]]
        return objective_reasons.sentence(self._evaluation, combiner, info)

    @cached_property
    def _front(self) -> frozenset[int]:
        """The rows of the front."""
        if self._framework.combiner is None or self._evaluation.failure is not None:
            return frozenset()
        return objective_reasons.front(self._evaluation, self._framework.combiner)

    def _totals(self, infos: list[NodeInfo]) -> dict[str, int]:
        """The total scores of the feasible nodes, extenders included."""
        evaluation, opinions = self._evaluation, self._opinions
        return {
            info.name: int(evaluation.totals[info.row]) + opinions.ratings.get(info.name, 0)
            for info in infos
            if evaluation.feasible[info.row] and info.name not in opinions.refusals
        }

    def _refusals(self, info: NodeInfo) -> list[Status]:
        refusal = self._opinions.refusals.get(info.name)
        return [refusal] if refusal is not None else self._obstacles.of(info.row)

    def _changes(self, asked: Sequence[NodeInfo], refused: Mapping[str, list[Status]]) -> tuple[Change, ...]:
        if self._evaluation.failure is not None or not self._evaluation.pre_filter_status.ok:
            return ()
        found = ((info, refused[info.name]) for info in asked if info.name in refused)
        return required_changes.needed(self._pod, found, self._evaluation.cluster)

    def _evictions(self) -> Evictions | None:
        """The possible evictions, if the profile has preemption."""
        if self._evaluation.failure is not None or not self._framework.at(ExtensionPoint.POST_FILTER):
            return None
        return Evictions(self._evaluation)

    def _feasible(self, info: NodeInfo, totals: Mapping[str, int], best: Sequence[str]) -> Node:
        return Node(
            name=info.name,
            feasible=True,
            best=info.name in best,
            on_front=info.row in self._front,
            scores=self._scores(info),
            total=totals[info.name],
        )

    def _infeasible(self, info: NodeInfo, refusals: Sequence[Status], evictions: Evictions | None) -> Node:
        tried = evictions is not None and info.name not in self._opinions.refusals
        return Node(
            name=info.name,
            refusals=tuple(_refusal(each) for each in refusals),
            eviction=evictions.on(info.row) if evictions is not None and tried else None,
        )

    def _scores(self, info: NodeInfo) -> tuple[Score, ...]:
        found = []
        costs = self._evaluation.costs_of(info.row)
        for plugin, weighted in self._evaluation.scores_of(info.row).items():
            weight = self._weights[plugin]
            cost, unit = costs.get(plugin, (None, ""))
            found.append(
                Score(plugin=plugin, score=weighted // weight, weight=weight, weighted=weighted, cost=cost, unit=unit)
            )
        if info.name in self._opinions.ratings:
            rating = self._opinions.ratings[info.name]
            found.append(Score(plugin="Extender", score=rating, weighted=rating))
        return tuple(sorted(found, key=lambda each: (-each.weighted, each.plugin)))

    def _summary(self, outcome: Outcome, held: Status, totals: Mapping[str, int], made: PostFilterResult) -> str:
        failure, early = self._evaluation.failure, self._evaluation.pre_filter_status
        if failure is not None:
            return f"cannot be decided: plugin {failure.plugin} failed: {', '.join(failure.reasons)}"
        if outcome == "Held":
            return f"is held back by {held.plugin}: {', '.join(held.reasons)}"
        if best := _best(totals):
            named = best[0] if len(best) == 1 else f"one of {_listed(best)}"
            if self._framework.combiner is not None:
                return f"would go to {named}, chosen by objectives"
            return f"would go to {named} with a score of {totals[best[0]]}"
        nodes = len(self._evaluation.cluster.by_name)
        if not early.ok:
            refused = f"has no node: {', '.join(early.reasons)}"
        elif not nodes:
            refused = "has no node: the cluster has none"
        else:
            refused = f"has no node: 0/{nodes} nodes are available: {', '.join(self._counted())}"
        if not made.nominated_node:
            return refused
        return (
            f"{refused}; evicting {_listed([pod.key for pod in made.victims])} would make room on {made.nominated_node}"
        )

    def _counted(self) -> list[str]:
        """The counted reasons of a FitError, as kube-scheduler writes them."""
        counts: Counter[str] = Counter()
        for info in self._evaluation.cluster.node_infos():
            decided = self._opinions.refusals.get(info.name) or self._evaluation.status_of(info.row)
            counts.update(decided.reasons or (_OWN_CHOICE,))
        return sorted(f"{count} {reason}" for reason, count in counts.items())


def _best(totals: Mapping[str, int]) -> list[str]:
    top = max(totals.values(), default=0)
    return [name for name, total in totals.items() if total == top]


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"


def _refusal(status: Status) -> Refusal:
    return Refusal(plugin=status.plugin, code=status.code.value, reasons=status.reasons or (_OWN_CHOICE,))
