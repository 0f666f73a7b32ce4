"""The plan of moves: pure, on a copy of the cluster on which the moves are tried.

A pod moves only if the scheduler would place it elsewhere today with a strictly higher score, if the move strictly
lowers the drift, and if it causes no other violation. So every move lowers the same ordered measure (violations, then
duplicates or imbalance), which is bounded: nothing moves in circles, within a plan or between plans. A pod moves once
in a plan. Pods without a node are placed first, so that no move takes their resources.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.preemption import victims
from rota.scheduler.rebalancing import drift_measures
from rota.scheduler.rebalancing.drift_measures import MISPLACED_BY, DriftMeasures
from rota.scheduler.rebalancing.protection import Protection
from rota.scheduler.rebalancing.rebalance_plan import Move, Plan, PodFacts, Settings, Strategy, Usage

#: Smaller changes do not count: sums of floats vary a little.
_LEAST: Final = 1e-9
_WRONG: Final = frozenset(MISPLACED_BY.values())
#: Number of waiting pods that are placed; if there are more, there is no room for moves.
_WAITING: Final = 500


def plan(
    cluster: Cluster,
    frameworks: Mapping[str, Framework],
    facts: Mapping[str, PodFacts],
    *,
    settings: Settings,
    usage: Usage | None = None,
    waiting: Sequence[PodInfo] = (),
) -> Plan:
    """Plan the moves that improve a cluster; the cluster is a copy, and is left as it would be afterwards.

    `frameworks` are the scheduler's profiles by name, `facts` the facts of pods by uid. With `usage`, the shares of
    nodes are measured; otherwise they are computed from requests. `waiting` pods have no node yet.
    """
    planner = _Planner(cluster, frameworks, facts, settings, usage)
    planner.place(waiting)
    return planner.run()


class _Planner:
    def __init__(
        self,
        cluster: Cluster,
        frameworks: Mapping[str, Framework],
        facts: Mapping[str, PodFacts],
        settings: Settings,
        usage: Usage | None,
    ) -> None:
        self._cluster: Final = cluster
        self._facts: Final = facts
        self._settings: Final = settings
        self._deciders: Final = {name: Decider(framework, cluster) for name, framework in frameworks.items()}
        self._measures: Final = DriftMeasures(cluster, self._deciders, usage)
        self._protection: Final = Protection(settings, facts, victims.budgets(cluster.catalog))
        self._moves: Final[list[Move]] = []
        self._moved: Final[set[str]] = set()
        self._stays: Final[dict[str, str]] = {}
        self._misplaced: Final[dict[str, Strategy]] = {}

    def place(self, waiting: Sequence[PodInfo]) -> None:
        """Place waiting pods as the scheduler will, the most important first."""
        for pod in sorted(waiting, key=lambda pod: (-pod.priority, pod.key))[:_WAITING]:
            decider = self._deciders.get(pod.shape.scheduler_name)
            if decider is None or pod.shape.scheduling_gates:
                continue
            evaluation = decider.evaluate(pod)
            row = evaluation.best_row() if evaluation.failure is None else -1
            node = self._cluster.nodes[row] if row >= 0 else None
            if node is not None:
                self._cluster.add_pod(drift_measures.unassigned(pod), node.name)

    def run(self) -> Plan:
        """Run all strategies in order."""
        # no move causes a violation for another pod, so this is computed once
        self._misplaced.update(self._measures.all_misplaced())
        before = self._measures.measured(self._misplaced)
        for strategy in sorted(self._settings.strategies, key=list(Strategy).index):
            for pod, why in _CANDIDATES[strategy](self, strategy):
                if self._protection.exhausted:
                    break
                self._consider(pod, strategy, why)
        stays = {
            key: why for key, why in self._stays.items() if key not in {f"{m.namespace}/{m.name}" for m in self._moves}
        }
        return Plan(
            moves=self._moves, stays=stays, before=before, after=self._measures.measured(self._measures.all_misplaced())
        )

    def _consider(self, pod: PodInfo, strategy: Strategy, why: str) -> None:
        if pod.uid in self._moved:
            return
        gone = pod.node_name not in self._cluster.by_name
        objection = "its node is gone" if gone else self._protection.objection(pod, strategy)
        if not objection:
            move = self._tried(pod, strategy, why)
            if not isinstance(move, str):
                self._make(pod, move)
                return
            objection = move
        self._stays.setdefault(pod.key, objection)

    def _tried(self, pod: PodInfo, strategy: Strategy, why: str) -> Move | str:
        """The move of a pod, or the objection to it."""
        cluster, measures = self._cluster, self._measures
        source = cluster.by_name[pod.node_name]
        sensitive = measures.sensitive_to(pod)
        wrong_before = len(measures.all_misplaced(sensitive))
        with measures.without(pod) as evaluation:
            if evaluation is None:
                return f"another scheduler places it ({pod.shape.scheduler_name})"
            if evaluation.failure is not None:
                return str(evaluation.failure)
            row = evaluation.best_row(source.row)
            target = cluster.nodes[row] if row >= 0 else None
            if target is None:
                return "there is no other place for it"
            if target.name == source.name:
                return "the scheduler would put it back where it is"
            fits = bool(evaluation.feasible[source.row])
            score_before = int(evaluation.totals[source.row]) if fits else None
            score_after = int(evaluation.totals[row])
            if score_before is not None and score_after <= score_before:
                return "no other place is better"
            if not self._improves(pod, strategy, source.name, target.name):
                return f"moving it to {target.name} would not make the cluster better"
            cluster.add_pod(drift_measures.unassigned(pod), target.name)
            wrong_after = len(measures.all_misplaced(sensitive))
        if wrong_after > wrong_before:
            return f"moving it to {target.name} would put {wrong_after - wrong_before} others in a wrong place"
        return Move(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            source=source.name,
            target=target.name,
            strategy=strategy,
            why=why,
            score_before=score_before,
            score_after=score_after,
        )

    def _improves(self, pod: PodInfo, strategy: Strategy, source: str, target: str) -> bool:
        """Whether a move lowers the strategy's measure; the pod is off its node during this call."""
        measures = self._measures
        if strategy in _WRONG or strategy is Strategy.CRASHES:
            return True  # it is misplaced, and the scheduler's filters accept the target
        owner = pod.shape.owner
        doubled = 0
        if owner is not None:
            # the pods of the owner on the target, minus those on the source without this one
            doubled = measures.of_owner(owner.uid, target) - measures.of_owner(owner.uid, source)
        if strategy is Strategy.DUPLICATES:
            return doubled < 0
        if doubled > 0:
            return False
        change = self._change_of_unevenness(pod, source, target)
        if strategy is Strategy.COMPACT:
            return change > _LEAST
        return change < -_LEAST

    def _change_of_unevenness(self, pod: PodInfo, source: str, target: str) -> float:
        """The change of the sum of squares; the pod is off its node during this call."""
        cluster, measures = self._cluster, self._measures
        with cluster.what_if():
            cluster.add_pod(drift_measures.unassigned(pod), source)
            before = measures.unevenness(source, target)
        with cluster.what_if():
            cluster.add_pod(drift_measures.unassigned(pod), target)
            measures.shift(pod, source, target)
            after = measures.unevenness(source, target)
            measures.shift(pod, target, source)
        return after - before

    def _make(self, pod: PodInfo, move: Move) -> None:
        self._protection.count(pod)
        self._cluster.remove_pod(pod.uid)
        self._cluster.add_pod(msgspec.structs.replace(pod, node_name=""), move.target)
        self._measures.shift(pod, move.source, move.target)
        self._moves.append(move)
        self._moved.add(pod.uid)

    # --- candidates of each strategy ----------------------------------------------------------------------------------

    def misplaced(self, strategy: Strategy) -> Iterable[tuple[PodInfo, str]]:
        """Pods that the scheduler would refuse where they are."""
        known = self._cluster.pods
        for pod in self._by_importance(known[uid] for uid, how in self._misplaced.items() if how is strategy):
            # checked again: a move may have resolved the violation
            if self._measures.misplaced(pod) is not None:
                yield pod, _WHY[strategy].format(node=pod.node_name)

    def doubled(self, _: Strategy) -> Iterable[tuple[PodInfo, str]]:
        """Pods that share a node with others of their owner."""
        for pod in self._by_importance(self._cluster.pods.values()):
            owner = pod.shape.owner
            count = self._measures.of_owner(owner.uid, pod.node_name) if owner is not None else 0
            if owner is not None and count > 1:
                yield pod, f"{count} pods of {owner.kind} {owner.name} are on {pod.node_name}"

    def crashing(self, _: Strategy) -> Iterable[tuple[PodInfo, str]]:
        """Pods that crash repeatedly."""
        for pod in self._by_importance(self._cluster.pods.values()):
            facts = self._facts.get(pod.uid)
            if facts is not None and facts.crashing and facts.restarts >= self._settings.most_restarts:
                yield pod, f"it has crashed {facts.restarts} times on {pod.node_name}"

    def old(self, _: Strategy) -> Iterable[tuple[PodInfo, str]]:
        """Pods that have run for very long."""
        for pod in self._by_importance(self._cluster.pods.values()):
            facts = self._facts.get(pod.uid)
            if facts is not None and facts.age_s >= self._settings.oldest_s:
                yield pod, f"it has run for {facts.age_s / 86400:.0f} days"

    def on_full_nodes(self, _: Strategy) -> Iterable[tuple[PodInfo, str]]:
        """Pods of full nodes, while there are empty nodes; the fullest first, until it is no longer full."""
        measures, settings = self._measures, self._settings
        nodes = sorted(self._cluster.node_infos(), key=lambda node: (-measures.share(node), node.name))
        if not any(measures.share(node) < settings.empty_below and not node.unschedulable for node in nodes):
            return
        for node in nodes:
            share = measures.share(node)
            for pod in self._by_importance(node.pods.values()):
                if measures.share(node) <= settings.full_above:
                    break
                yield pod, f"{node.name} is {share:.0%} full, above {settings.full_above:.0%}"

    def on_empty_nodes(self, _: Strategy) -> Iterable[tuple[PodInfo, str]]:
        """Pods of nearly empty nodes, the emptiest first."""
        measures = self._measures
        nodes = sorted(self._cluster.node_infos(), key=lambda node: (measures.share(node), node.name))
        for node in nodes:
            share = measures.share(node)
            if share >= self._settings.empty_below:
                break
            for pod in self._by_importance(node.pods.values()):
                yield pod, f"{node.name} is {share:.0%} full and could be empty"

    def _by_importance(self, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Least important first; equal ones in a deterministic order."""
        return sorted(pods, key=lambda pod: (pod.priority, bool(pod.shape.requests), pod.key))


_WHY: Final = {
    Strategy.NODE_AFFINITY: "its node affinity excludes {node}",
    Strategy.TAINTS: "it does not tolerate a taint of {node}",
    Strategy.POD_AFFINITY: "its or another pod's affinity rules it out on {node}",
    Strategy.SPREAD: "on {node} its spread constraint is violated",
}
_CANDIDATES: Final[Mapping[Strategy, Callable[[_Planner, Strategy], Iterable[tuple[PodInfo, str]]]]] = {
    **dict.fromkeys(_WRONG, _Planner.misplaced),
    Strategy.DUPLICATES: _Planner.doubled,
    Strategy.CRASHES: _Planner.crashing,
    Strategy.LIFETIME: _Planner.old,
    Strategy.BALANCE: _Planner.on_full_nodes,
    Strategy.COMPACT: _Planner.on_empty_nodes,
}
