"""Plugins that read measured load: published formulas by hand, pods that are not measured yet, missing measurements."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scheduler.test_objectives import World, asking, framework, sized

from rota.scheduler.config.faults import ConfigurationError
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.plugins.contention_objective import exceeding
from rota.scheduler.plugins.load_variation_risk_balancing import risk_score
from rota.scheduler.plugins.node_loads import KIND
from rota.scheduler.plugins.target_load_packing import packed
from rota.testing.clusters import Document

NOW = "2026-01-01T00:10:00Z"
PLUGINS = ("LoadAware", "TargetLoadPacking", "LoadVariationRiskBalancing", "ContentionObjective")


def forecast(
    node: str, cpu: int, *, requested: int = 0, deviation: int = 0, memory: str = "1Gi", at: str = NOW, **more: Any
) -> Document:
    figures: dict[str, Any] = {"used": f"{cpu}m", "mean": f"{cpu}m", "peak": f"{cpu}m", "deviation": f"{deviation}m"}
    bytes_used: dict[str, Any] = {"used": memory, "mean": memory, "peak": memory, "deviation": "0", "requested": memory}
    return {
        "metadata": {"name": node},
        "status": {
            "observedTime": at,
            "resources": [
                {"resource": "cpu", "basis": "Measured", "requested": f"{requested}m", **figures, **more},
                {"resource": "memory", "basis": "Measured", **bytes_used},
            ],
        },
    }


def world(plugin: str, forecasts: list[Document], args: dict[str, Any] | None = None, **more: Any) -> World:
    made = World(framework({plugin: args or {}}), [sized("a"), sized("b"), sized("c")], more.get("pods"))
    for each in forecasts:
        made.cluster.catalog.put(KIND, each)
    return made


def scores(made: World, plugin: str, document: Document) -> list[int]:
    evaluation = Evaluation(made.framework, made.pod(document), made.cluster)
    assert evaluation.failure is None
    return [evaluation.scores_of(row)[plugin] for row in range(3)]


def test_target_load_packing_by_hand() -> None:
    # T = 40: 60 u / 40 + 40 up to the target, then 40 (100 - u) / 60, and 0 beyond 100.
    percent = np.array([0.0, 20.0, 40.0, 70.0, 100.0, 101.0])
    assert packed(percent, 40.0).tolist() == pytest.approx([40.0, 70.0, 100.0, 20.0, 0.0, 0.0])


def test_target_load_packing_counts_the_pod_with_its_multiplier() -> None:
    made = world("TargetLoadPacking", [forecast("a", 2500), forecast("b", 0), forecast("c", 5500)])
    # 1 core asked, 1.5 predicted, of 10: 40 %, 15 % and 70 %.
    assert scores(made, "TargetLoadPacking", asking("n")) == [100, 63, 20]


def test_risk_balancing_by_hand() -> None:
    found = risk_score(np.array([0.5, 0.2, 2.0]), np.array([0.1, 0.0, 0.5]), 1.0, 1.0)
    assert found.tolist() == pytest.approx([70.0, 90.0, 25.0])
    assert risk_score(np.array([0.5]), np.array([0.25]), 1.0, 2.0)[0] == pytest.approx(50.0)
    made = world(
        "LoadVariationRiskBalancing",
        [forecast("a", 4000, deviation=1000), forecast("b", 1000), forecast("c", 8000)],
    )
    # Memory: (1 GiB + 1 GiB) / 10 GiB = 0.2, so 90; cpu (0.5 + 0.1) / 2, (0.2 + 0) / 2, (0.9 + 0) / 2.
    assert scores(made, "LoadVariationRiskBalancing", asking("n")) == [70, 90, 55]


def test_load_aware_filters_and_scores_as_koordinator_does() -> None:
    made = world(
        "LoadAware",
        [forecast("a", 6000), forecast("b", 3000), forecast("c", 5600)],
        {"estimatedScalingFactors": {"cpu": 85, "memory": 70}},
    )
    # 1 core counts as 0.85: 68.5 %, 38.5 % and 64.5 %, which rounds to 64.
    evaluation = Evaluation(made.framework, made.pod(asking("n")), made.cluster)
    assert evaluation.feasible.tolist() == [False, True, True]
    assert evaluation.status_of(0).reasons == ("node(s) cpu usage exceed threshold",)
    # Memory: 1 GiB used, 0.7 GiB expected: 83 % free. (61.5 + 83) / 2.
    assert evaluation.scores_of(1)["LoadAware"] == 72


def test_a_pod_without_requests_counts_with_the_defaults() -> None:
    made = world("LoadAware", [forecast("a", 6260), forecast("b", 6290), forecast("c", 0)])
    document = asking("n")
    document["spec"]["containers"][0]["resources"] = {}
    evaluation = Evaluation(made.framework, made.pod(document), made.cluster)
    # 250 millicores: 65.1 % and 65.4 % round to the threshold; one more step does not.
    assert evaluation.feasible.tolist() == [True, True, True]
    made.cluster.catalog.put(KIND, forecast("b", 6310))
    assert not Evaluation(made.framework, made.pod(document), made.cluster).feasible[1]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_pods_that_are_not_measured_yet_do_not_herd(plugin: str) -> None:
    """One node is much quieter; without counting what was placed since, all pods would go there."""
    args = {"targetUtilization": 20} if plugin == "TargetLoadPacking" else {}
    forecasts = [
        forecast("a", 3000, deviation=500),
        forecast("b", 3000, deviation=500),
        forecast("c", 1500, deviation=500),
    ]
    made = world(plugin, forecasts, args)
    chosen = []
    for number in range(6):
        pod = made.pod(asking(f"p{number}", "2", "1Gi"))
        name = made.decider.decide(pod).node_name
        assert name is not None
        made.cluster.add_pod(pod, name)
        chosen.append(name)
    assert len(set(chosen)) > 1
    assert chosen.count("c") < 5


def test_a_new_forecast_is_taken_into_account_by_kept_evaluations() -> None:
    made = world("LoadAware", [forecast("a", 1000), forecast("b", 2000), forecast("c", 3000)])
    document = asking("n")
    assert [made.choose(document) for _ in range(3)] == ["a", "a", "a"]
    made.cluster.catalog.put(KIND, forecast("a", 9000))
    assert made.choose(document) == "b"


def test_an_old_forecast_and_an_unreadable_one_count_as_missing() -> None:
    old, broken = forecast("a", 100, at="2026-01-01T00:06:59Z"), forecast("b", 100, deviation=3)
    broken["status"]["resources"][0]["used"] = "many"
    made = world("LoadAware", [old, broken, forecast("c", 4000)])
    assert len(set(scores(made, "LoadAware", asking("n")))) == 1


LOADS = st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 2000), st.integers(0, 8)), min_size=3, max_size=3)


@pytest.mark.parametrize("plugin", PLUGINS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(LOADS, st.sampled_from([0, 1, 2]))
def test_a_missing_measurement_makes_no_node_the_best_or_the_worst(
    plugin: str, loads: list[tuple[int, int, int]], missing: int
) -> None:
    names = "abc"
    pods = [asking(f"p{at}", str(cores), "1Gi", node=names[at]) for at, (_, _, cores) in enumerate(loads) if cores]
    forecasts = [
        forecast(names[at], cpu, deviation=deviation, requested=cores * 1000)
        for at, (cpu, deviation, cores) in enumerate(loads)
        if at != missing
    ]
    made = world(
        plugin, forecasts, {"usageThresholds": {"cpu": 0, "memory": 0}} if plugin == "LoadAware" else {}, pods=pods
    )
    found = scores(made, plugin, asking("n", "1", "1Gi"))
    others = [score for at, score in enumerate(found) if at != missing]
    assert min(others) <= found[missing] <= max(others)


def test_the_tail_of_the_normal_distribution() -> None:
    points = np.array([-3.0, -1.0, 0.0, 0.5, 1.645, 4.0, 100.0])
    assert exceeding(points).tolist() == pytest.approx(
        [0.5 * math.erfc(each / math.sqrt(2)) for each in points], abs=1e-7
    )


def test_contention_is_the_probability_of_exceeding_the_capacity() -> None:
    args = {"requestDeviation": 0.25}
    made = world(
        "ContentionObjective", [forecast("a", 8000, deviation=968), forecast("b", 1000), forecast("c", 9500)], args
    )
    costs = made.costs("ContentionObjective", asking("n"))
    # a: mean 9 of 10 cores, deviation hypot(0.968, 0.25) = 1.
    assert costs[0] == pytest.approx(0.5 * math.erfc(1 / math.sqrt(2)), abs=1e-3)
    assert costs[1] == 0.0
    assert costs[2] > 0.9


@pytest.mark.parametrize(
    ("plugin", "args", "fault"),
    [
        ("LoadAware", {"usageThresholds": {"cpu": 101}}, "usageThresholds: must be from 0 to 100"),
        ("LoadAware", {"resourceWeights": {"cpu": 0, "memory": 0}}, "one of them must be positive"),
        ("TargetLoadPacking", {"targetUtilization": 100}, "must be from 1 to 99"),
        ("LoadVariationRiskBalancing", {"safeVarianceSensitivity": 0}, "must be positive"),
        ("ContentionObjective", {"requestDeviation": 0}, "must be positive"),
    ],
)
def test_arguments_that_cannot_be_are_refused(plugin: str, args: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        framework({plugin: args})
