"""Pods that must not be moved: pods without a controller, budgets, limits.

Budgets are charged within a plan as the API server does on eviction, so that no plan exceeds them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from rota.columns.pods import PodInfo
from rota.scheduler.preemption.victims import Budget
from rota.scheduler.rebalancing.rebalance_plan import PodFacts, Settings, Strategy

_CRITICAL: Final = 2_000_000_000


class Protection:
    """The rules of one plan, and how much of them is used up."""

    def __init__(self, settings: Settings, facts: Mapping[str, PodFacts], budgets: Sequence[Budget]) -> None:
        self._settings: Final = settings
        self._facts: Final = facts
        self._budgets: Final = budgets
        self._left: Final = [budget.allowed for budget in budgets]
        self._nodes: Final[Counter[str]] = Counter()
        self._namespaces: Final[Counter[str]] = Counter()
        self._total = 0

    @property
    def exhausted(self) -> bool:
        """Whether nothing more may move in this plan."""
        return self._total >= self._settings.most_at_once

    def objection(self, pod: PodInfo, strategy: Strategy) -> str:
        """Why a pod stays; empty if it may be moved."""
        return self._by_nature(pod, strategy) or self._by_limits(pod) or self._by_budgets(pod)

    def count(self, pod: PodInfo) -> None:
        """Count a move."""
        self._total += 1
        self._nodes[pod.node_name] += 1
        self._namespaces[pod.namespace] += 1
        for position in self._covering(pod):
            self._left[position] -= 1

    def _by_nature(self, pod: PodInfo, strategy: Strategy) -> str:
        facts, settings = self._facts.get(pod.uid), self._settings
        if facts is None:
            return "not known well enough"
        reasons = (
            (pod.terminating, "ends already"),
            (facts.mirror, "belongs to its machine"),
            (not facts.owner_kind, "nothing would replace it"),
            (facts.owner_kind in {"DaemonSet", "Node"}, "runs on every node"),
            (pod.priority >= min(settings.priority_below, _CRITICAL), "is too important to be interrupted"),
            (facts.ends and not settings.jobs, "would begin its work anew"),
            (facts.local_storage and not settings.local_storage, "would lose what is in its local volumes"),
            (not facts.running and not facts.crashing, "does not run"),
            (
                facts.age_s < settings.youngest_s and strategy is not Strategy.CRASHES,
                f"started {facts.age_s:.0f}s ago; pods stay for the first {settings.youngest_s:.0f}s (youngestSeconds)",
            ),
        )
        return facts.objection or next((why for holds, why in reasons if holds), "")

    def _by_limits(self, pod: PodInfo) -> str:
        settings = self._settings
        if self._nodes[pod.node_name] >= settings.most_per_node:
            return f"{settings.most_per_node} pods of its node move already"
        if self._namespaces[pod.namespace] >= settings.most_per_namespace:
            return f"{settings.most_per_namespace} pods of its namespace move already"
        return ""

    def _by_budgets(self, pod: PodInfo) -> str:
        covering = self._covering(pod)
        if len(covering) > 1:
            return "more than one disruption budget covers it"
        if covering and self._left[covering[0]] <= 0:
            return "its disruption budget allows no more"
        return ""

    def _covering(self, pod: PodInfo) -> list[int]:
        return [position for position, budget in enumerate(self._budgets) if budget.covers(pod)]
