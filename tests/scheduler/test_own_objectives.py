"""Objectives of users: one that normalises in its own way is normalised in its own way, also when few nodes change."""

from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.scheduler.test_objectives import World, asking, sized

from rota.columns.arrays import FloatArray, IntArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.objectives import Objective
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugins.utilization_objective import UtilizationObjective
from rota.testing.schedulers import configured


class RelativeLoad(Objective):
    """The load of a node, normalised by that of the most loaded candidate."""

    name: ClassVar[str] = "RelativeLoad"
    unit: ClassVar[str] = "share"
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def signature(self, pod: PodInfo) -> Hashable:
        return ()

    def costs(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        return np.asarray(cluster.requested[0, rows] / np.maximum(cluster.allocatable[0, rows], 1))

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> Hashable:
        return int(scores.max(initial=1))

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        return np.asarray(MAX_SCORE - scores * MAX_SCORE // max(bounds, 1), dtype=np.int64)


def test_scores_after_placements_are_those_of_a_new_evaluation() -> None:
    rest = """
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: RelativeLoad}]}, preScore: {disabled: [{name: "*"}]}}
"""
    loaded = configured(rest, RelativeLoad)
    made = World(Framework(loaded.configuration.first, loaded.registry), [sized(name) for name in "abcd"])
    for number in range(12):
        pod = made.pod(asking(f"p{number}"))
        decision = made.decider.decide(pod)
        fresh = Evaluation(made.framework, pod, made.cluster)
        for row in range(4):
            assert decision.evaluation.scores_of(row) == fresh.scores_of(row)
        # Each time another load on one node; the most loaded one changes the scores of all others.
        load = made.pod(asking(f"load{number}", f"{50 + 37 * number % 400}m"))
        made.cluster.add_pod(load, "abcd"[number * 3 % 4])


def test_fixed_bounds_with_another_normalisation_are_refused() -> None:
    remedy = "has fixed_bounds and normalises differently; set fixed_bounds = False"
    with pytest.raises(TypeError, match=remedy):
        type("Wrong", (RelativeLoad,), {"fixed_bounds": True})
    # An objective of Rota has them already.
    own = {"bounds": RelativeLoad.bounds, "normalize": RelativeLoad.normalize}
    with pytest.raises(TypeError, match=remedy):
        type("Derived", (UtilizationObjective,), own)
    type("Derived", (UtilizationObjective,), {**own, "fixed_bounds": False})
