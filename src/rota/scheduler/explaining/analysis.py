"""One pod, explained on a cluster as it is now: the decision made again, with everything asked that can be asked. Pure.

A pod that has a node is taken off it first, so that it is told where it would go today. Costs nothing until called, and
leaves the cluster as it was.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler import explanations
from rota.scheduler.decide import Decider, Decision
from rota.scheduler.explaining import changes
from rota.scheduler.explaining.evictions import Evictions, victim
from rota.scheduler.explaining.obstacles import Obstacles
from rota.scheduler.explaining.report import Change, Eviction, Explanation, Meta, Node, Outcome, Refusal, Score
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.nominations import Nominations
from rota.scheduler.framework.points import ExtensionPoint
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.status import SUCCESS, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinions:
    """What extenders think of the nodes that plugins would take; by node."""

    refusals: Mapping[str, Status] = field(default_factory=dict)
    #: Weighted and on the scale of plugins' scores.
    ratings: Mapping[str, int] = field(default_factory=dict)


NO_OPINIONS = Opinions()


def evaluate(
    framework: Framework, cluster: Cluster, pod: PodInfo, *, nominations: Nominations | None = None
) -> Decision:
    """Decide for the pod as if it had no node."""
    return Decider(framework, cluster).decide(_homeless(pod), nominations=nominations)


def explain(
    framework: Framework,
    cluster: Cluster,
    pod: PodInfo,
    *,
    node_name: str = "",
    nominations: Nominations | None = None,
    opinions: Opinions = NO_OPINIONS,
) -> Explanation:
    """Explain a pod on all nodes, or in detail on one of them."""
    with without(cluster, pod):
        decision = evaluate(framework, cluster, pod, nominations=nominations)
        return _Told(decision, pod, opinions).explanation(node_name)


@contextlib.contextmanager
def without(cluster: Cluster, pod: PodInfo) -> Any:
    """Have a pod off its node for a while."""
    if pod.uid not in cluster.pods:
        yield
        return
    with cluster.trial():
        cluster.remove_pod(pod.uid)
        yield


def held_back(framework: Framework, pod: PodInfo) -> Status:
    """Say whether PreEnqueue keeps the pod from being tried at all."""
    for plugin in framework.at(ExtensionPoint.PRE_ENQUEUE):
        try:
            answer: Status | None = plugin.pre_enqueue(pod)
        except Exception as error:  # noqa: BLE001 - plugins are other people's code
            return statuses.fault(error, plugin=plugin.name)
        if answer is not None and not answer.ok:
            return answer.by(plugin.name)
    return SUCCESS


def _homeless(pod: PodInfo) -> PodInfo:
    return msgspec.structs.replace(pod, node_name="") if pod.node_name else pod


class _Told:
    """A decision on its way to being told."""

    def __init__(self, decision: Decision, pod: PodInfo, opinions: Opinions) -> None:
        self._decision = decision
        self._evaluation: Evaluation = decision.evaluation
        self._pod = pod
        self._opinions = opinions
        self._framework = self._evaluation.framework
        self._weights = {forms.name: forms.weight for forms in self._framework.scorers}
        self._obstacles = Obstacles(self._evaluation)

    def explanation(self, node_name: str) -> Explanation:
        cluster = self._evaluation.cluster
        infos = list(cluster.node_infos())
        totals = self._totals(infos)
        top = max(totals.values(), default=0)
        best = [name for name, total in totals.items() if total == top]
        shown = [info for info in infos if not node_name or info.name == node_name]
        refused = [(info, self._refusals(info)) for info in shown if info.name not in totals]
        evictions = self._evictions() if not totals or node_name else None
        room = self._decision.post_filter if not totals else None
        made = room is not None and room.status.ok
        told = tuple(self._node(info, totals, best, evictions) for info in shown)
        held = held_back(self._framework, self._pod)
        needed = self._needed(refused) if not totals or node_name else ()
        outcome: Outcome = "Schedulable" if totals else "Unschedulable"
        if self._evaluation.failure is not None:
            outcome = "Error"
        elif not held.ok and not self._pod.node_name:
            outcome = "Held"
        return Explanation(
            metadata=Meta(namespace=self._pod.namespace, name=self._pod.name, uid=self._pod.uid),
            scheduler_name=self._framework.profile_name,
            outcome=outcome,
            summary=self._summary(outcome, held, best, top),
            current_node=self._pod.node_name,
            node=best[0] if best else "",
            nominated=(room.nominated_node or "") if made and room is not None else "",
            victims=tuple(map(victim, room.victims)) if made and room is not None else (),
            no_room=", ".join(room.status.reasons) if room is not None and not made else "",
            changes=needed,
            nodes=told,
        )

    def _totals(self, infos: list[NodeInfo]) -> dict[str, int]:
        """The nodes that the pod may go to, extenders included, with their totals."""
        evaluation, opinions = self._evaluation, self._opinions
        return {
            info.name: int(evaluation.totals[info.row]) + opinions.ratings.get(info.name, 0)
            for info in infos
            if evaluation.feasible[info.row] and info.name not in opinions.refusals
        }

    def _refusals(self, info: NodeInfo) -> list[Status]:
        refusal = self._opinions.refusals.get(info.name)
        return [refusal] if refusal is not None else self._obstacles.of(info.row)

    def _needed(self, refused: list[tuple[NodeInfo, list[Status]]]) -> tuple[Change, ...]:
        early = self._evaluation.pre_filter_status
        if early.ok and self._evaluation.failure is None:
            return changes.needed(self._pod, refused)
        return ()

    def _evictions(self) -> Evictions | None:
        """What could be done by evictions, if the profile knows of any."""
        if self._evaluation.failure is not None or not self._framework.at(ExtensionPoint.POST_FILTER):
            return None
        return Evictions(self._evaluation)

    def _node(self, info: NodeInfo, totals: dict[str, int], best: list[str], evictions: Evictions | None) -> Node:
        if info.name in totals:
            return Node(
                name=info.name,
                feasible=True,
                best=info.name in best,
                scores=self._scores(info),
                total=totals[info.name],
            )
        return Node(
            name=info.name,
            refusals=tuple(_refusal(each) for each in self._refusals(info)),
            eviction=self._eviction(evictions, info),
        )

    def _eviction(self, evictions: Evictions | None, info: NodeInfo) -> Eviction | None:
        if evictions is None or info.name in self._opinions.refusals:
            return None
        return evictions.on(info.row)

    def _scores(self, info: NodeInfo) -> tuple[Score, ...]:
        found = []
        for plugin, weighted in self._evaluation.scores_of(info.row).items():
            weight = self._weights[plugin]
            found.append(Score(plugin=plugin, score=weighted // weight, weight=weight, weighted=weighted))
        if info.name in self._opinions.ratings:
            rating = self._opinions.ratings[info.name]
            found.append(Score(plugin="Extender", score=rating, weighted=rating))
        return tuple(sorted(found, key=lambda each: (-each.weighted, each.plugin)))

    def _summary(self, outcome: Outcome, held: Status, best: list[str], top: int) -> str:
        if outcome == "Held":
            return f"is held back by {held.plugin}: {', '.join(held.reasons)}"
        if not self._opinions.refusals and not self._opinions.ratings:
            return explanations.summary(explanations.explain(self._decision))
        if best:
            return f"would go to {'one of ' if len(best) > 1 else ''}{', '.join(best)} with a score of {top}"
        return "has no node: extenders refuse all that plugins would take"


def _refusal(status: Status) -> Refusal:
    plugin = status.plugin
    reasons = status.reasons or ("left out by the pod's own choice",)
    return Refusal(plugin=plugin, code=status.code.value, reasons=reasons)
