"""The complete report of a decision: the verdict on every node, every score, and the victims.

An `Explanation` is a value that does not refer to the cluster. `to_document` writes it with the keys of a conformance
scenario's `expect`; tables for users are made from the same value.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.columns.pods import PodInfo
from rota.scheduler.cycle.decision import Decision
from rota.scheduler.explanation import objective_reasons
from rota.scheduler.framework.status import Code, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The result of one attempt, on every node."""

    #: Set if a plugin failed; then nothing else is known.
    failure: Status | None = None
    #: Set if PreFilter ended the attempt before any node was filtered.
    pre_filter: Status | None = None
    #: By node name, in the cluster's order.
    verdicts: dict[str, Status] = field(default_factory=dict)
    #: Weighted scores by feasible node and plugin; plugins that skipped are absent.
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    #: All nodes with the highest total.
    best: tuple[str, ...] = ()
    #: If objectives chose: the reason. Then totals only order the nodes.
    combination: str = ""
    #: The nodes that no other dominates in the combined objectives.
    front: frozenset[str] = frozenset()
    #: Costs of objectives with their units, by feasible node and plugin.
    costs: dict[str, dict[str, tuple[float, str]]] = field(default_factory=dict)
    #: The node where preemption would make room, if no node is feasible.
    nominated: str = ""
    victims: tuple[PodInfo, ...] = ()


def explain(decision: Decision) -> Explanation:
    """Collect everything from a decision, before the cluster changes."""
    evaluation = decision.evaluation
    if decision.status.code is Code.ERROR:
        return Explanation(failure=decision.status)
    room = decision.post_filter if decision.post_filter is not None and decision.post_filter.status.ok else None
    nominated = (room.nominated_node or "") if room is not None else ""
    victims = room.victims if room is not None else ()
    if not evaluation.pre_filter_status.ok:
        return Explanation(pre_filter=evaluation.pre_filter_status, nominated=nominated, victims=victims)
    nodes = list(evaluation.cluster.node_infos())
    feasible = {node.row: node.name for node in nodes if evaluation.feasible[node.row]}
    return Explanation(
        verdicts={node.name: evaluation.status_of(node.row) for node in nodes},
        scores={name: evaluation.scores_of(row) for row, name in feasible.items()},
        totals={name: int(evaluation.totals[row]) for row, name in feasible.items()},
        best=tuple(feasible[row] for row in evaluation.best_rows().tolist()),
        costs={name: evaluation.costs_of(row) for row, name in feasible.items()},
        **_combination(decision, feasible),
        nominated=nominated,
        victims=victims,
    )


def _combination(decision: Decision, feasible: Mapping[int, str]) -> dict[str, Any]:
    evaluation = decision.evaluation
    combiner, best = evaluation.framework.combiner, evaluation.best_rows().tolist()
    if combiner is None or not best:
        return {}
    chosen = evaluation.cluster.by_name[feasible[best[0]]]
    return {
        "combination": objective_reasons.sentence(evaluation, combiner, chosen),
        "front": frozenset(feasible[row] for row in objective_reasons.front(evaluation, combiner)),
    }


def to_document(explanation: Explanation) -> dict[str, Any]:
    """Write an explanation with the keys of `expect`; a failed plugin is an `error`."""
    if explanation.failure is not None:
        plugin, reasons = explanation.failure.plugin, ", ".join(explanation.failure.reasons)
        return {"error": f"plugin {plugin} failed: {reasons}"}
    document: dict[str, Any] = {}
    if explanation.pre_filter is not None:
        document["prefilter"] = _verdict(explanation.pre_filter)
    else:
        document["filter"] = {name: _verdict(status) for name, status in explanation.verdicts.items()}
    if explanation.scores:
        document["scores"] = {
            name: {**scores, "total": explanation.totals[name]} for name, scores in explanation.scores.items()
        }
        document["best"] = sorted(explanation.best)
    if any(explanation.costs.values()):
        document["costs"] = {
            name: {plugin: {"cost": cost, "unit": unit} for plugin, (cost, unit) in costs.items()}
            for name, costs in explanation.costs.items()
        }
    if explanation.combination:
        document["combination"] = explanation.combination
        document["front"] = sorted(explanation.front)
    if explanation.nominated:
        document["nominated"] = explanation.nominated
        document["victims"] = sorted(pod.key for pod in explanation.victims)
    return document


def summary(explanation: Explanation) -> str:
    """One sentence about the result; counts of reasons are written as kube-scheduler does."""
    if explanation.failure is not None:
        return (
            f"cannot be decided: plugin {explanation.failure.plugin} failed: {', '.join(explanation.failure.reasons)}"
        )
    if explanation.best:
        total = explanation.totals[explanation.best[0]]
        one_of = "" if len(explanation.best) == 1 else "one of "
        if explanation.combination:
            return f"would go to {one_of}{', '.join(explanation.best)}, chosen by objectives"
        return f"would go to {one_of}{', '.join(explanation.best)} with a score of {total}"
    nodes = len(explanation.verdicts)
    if explanation.pre_filter is not None:
        refused = f"has no node: {', '.join(explanation.pre_filter.reasons)}"
    elif not nodes:
        refused = "has no node: the cluster has none"
    else:
        counts = Counter(reason for status in explanation.verdicts.values() for reason in _reasons(status))
        listed = sorted(f"{count} {reason}" for reason, count in counts.items())
        refused = f"has no node: 0/{nodes} nodes are available: {', '.join(listed)}"
    if not explanation.nominated:
        return refused
    victims = ", ".join(sorted(pod.key for pod in explanation.victims))
    return f"{refused}; evicting {victims} would make room on {explanation.nominated}"


def _reasons(status: Status) -> tuple[str, ...]:
    return status.reasons or ("node(s) left out by the pod's own choice",)


def _verdict(status: Status) -> dict[str, Any]:
    document: dict[str, Any] = {"code": status.code.value}
    if not status.ok:
        document["plugin"] = status.plugin
    if status.reasons:
        document["reasons"] = sorted(status.reasons)
    return document
