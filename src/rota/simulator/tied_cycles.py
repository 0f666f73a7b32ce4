"""Scheduling cycles that choose among equally good nodes by a tie rule instead of the scheduler's seed."""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from rota.columns.cluster import Cluster
from rota.scheduler.cycle.scheduling_cycle import ExtenderResult, SchedulingCycle
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.runtime import Framework
from rota.simulator import ties
from rota.simulator.ties import TieRule


class TiedCycle(SchedulingCycle):
    """A cycle with a tie rule."""

    def __init__(self, framework: Framework, cluster: Cluster, rule: TieRule, rng: np.random.Generator) -> None:
        super().__init__(framework, cluster)
        self._nodes: Final = cluster
        self._rule: Final = rule
        self._rng: Final = rng
        self._ranked = -1
        self._choose: ties.Chooser = ties.chooser(rule, cluster, rng)

    def choose(
        self,
        evaluation: Evaluation,
        *,
        start: int = 0,
        avoiding: Collection[str] = (),
        advice: ExtenderResult | None = None,
    ) -> str | None:
        """The best node by the tie rule, or None."""
        if evaluation.failure is not None or avoiding or advice is not None:
            return super().choose(evaluation, start=start, avoiding=avoiding, advice=advice)
        if self._ranked != self._nodes.node_version:
            self._ranked = self._nodes.node_version
            self._choose = ties.chooser(self._rule, self._nodes, self._rng)
        row = self._choose(evaluation, evaluation.pod)
        node = self._nodes.nodes[row] if row >= 0 else None
        return None if node is None else node.name


def tied(
    cycles: Mapping[str, SchedulingCycle], rule: TieRule, cluster: Cluster, rng: np.random.Generator
) -> Mapping[str, SchedulingCycle]:
    """The same cycles with a tie rule."""
    return {name: TiedCycle(cycle.framework, cluster, rule, rng) for name, cycle in cycles.items()}
