"""Recommendations of requests: VPA's formulas on vectors worked out by hand, and its resource policies."""

from typing import Any

import pytest

from rota.forecaster.checkpoints import EXPIRED_S
from rota.forecaster.vertical_autoscalers import MOST_CONTAINERS, Recommender, is_target
from rota.testing.clusters import Document, make_pod

MINUTE_S = 60.0
TARGET = {"kind": "Deployment", "name": "web"}


def autoscaler(mode: str = "Off", **policy: Any) -> Document:
    spec: Document = {"targetRef": TARGET, "updatePolicy": {"updateMode": mode}}
    if policy:
        spec["resourcePolicy"] = {"containerPolicies": [{"containerName": "*", **policy}]}
    return {"metadata": {"name": "vpa", "namespace": "default", "uid": "a"}, "spec": spec}


def replica(name: str, *, restarts: int = 0, phase: str = "Running") -> Document:
    made = make_pod(name, cpu="200m")
    made["metadata"]["labels"] = {"pod-template-hash": "5d4"}
    made["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-5d4", "controller": True}]
    killed = {"lastState": {"terminated": {"reason": "OOMKilled"}}} if restarts else {}
    made["status"] = {"phase": phase, "containerStatuses": [{"name": "c", "restartCount": restarts, **killed}]}
    return made


def measured(name: str, cpu: str = "100m", memory: str = "1000000000") -> Document:
    containers = [{"name": "c", "usage": {"cpu": cpu, "memory": memory}}]
    return {"metadata": {"name": name, "namespace": "default"}, "containers": containers}


def recommended(made: Recommender, given: Document) -> dict[str, Any]:
    status = made.status(given, matched=True, now_s=0.0)
    (found,) = status["recommendation"]["containerRecommendations"]
    assert isinstance(found, dict)
    return found


def test_a_day_of_constant_use_gives_the_vector_that_was_worked_out_by_hand() -> None:
    """Buckets of cpu begin at 0.2 (1.05^i - 1) cores: 0.1 is in bucket 8, which ends at 0.110265643. Those of memory
    begin at 2e8 (1.05^i - 1) bytes: 1e9 is in bucket 36, which ends at 1016281389. All percentiles are these ends. The
    margin is 1.15. 1,440 samples span 1,439 minutes, so the confidence is 1439/1440 of a day."""
    made, given = Recommender(), autoscaler()
    for minute in range(1440):
        made.add([given], [replica("web-1")], [measured("web-1")], minute * MINUTE_S)
    found = recommended(made, given)
    days = 1439 / 1440
    assert found["target"] == {"cpu": "127m", "memory": "1168723597"}
    assert found["upperBound"]["cpu"] == "254m", "126.805 m (1 + 1/days) = 253.698 m"
    assert found["lowerBound"]["cpu"] == "127m", "126.805 m (1 + 0.001/days)^-2 = 126.552 m"
    assert float(found["upperBound"]["memory"]) == pytest.approx(1016281389 * 1.15 * (1 + 1 / days), rel=1e-6)


def test_a_container_that_was_renamed_is_forgotten_also_with_checkpoints() -> None:
    """It would get a recommendation for ever, and the others a smaller minimum."""
    made, given, renamed = Recommender(), autoscaler(), replica("web-2")
    made.add([given], [replica("web-1")], [measured("web-1")], 0.0)
    renamed["spec"]["containers"][0]["name"] = "new"
    usage = measured("web-2")
    usage["containers"][0]["name"] = "new"
    made.add([given], [renamed], [usage], EXPIRED_S)
    assert len(made.checkpoints(given, EXPIRED_S)) == 2
    made.add([given], [renamed], [usage], EXPIRED_S + MINUTE_S)
    assert recommended(made, given)["containerName"] == "new"
    assert len(made.checkpoints(given, EXPIRED_S)) == 1


def test_a_new_replica_starts_from_the_history_of_its_workload() -> None:
    made, given = Recommender(), autoscaler()
    for minute in range(60):
        made.add([given], [replica("web-1")], [measured("web-1")], minute * MINUTE_S)
    before = recommended(made, given)["target"]
    made.add([given], [replica("web-2")], [], 3600.0)
    assert recommended(made, given)["target"] == before, "the first pod is gone, and the second has no sample"


def test_only_the_greatest_memory_of_a_day_counts() -> None:
    made, given = Recommender(), autoscaler()
    for minute, memory in enumerate(("300000000", "1000000000", "400000000", "500000000")):
        made.add([given], [replica("web-1")], [measured("web-1", memory=memory)], minute * MINUTE_S)
    assert recommended(made, given)["target"]["memory"] == "1168723597"


def test_a_container_that_was_killed_for_memory_gets_more_once() -> None:
    made, given = Recommender(), autoscaler()
    made.add([given], [replica("web-1")], [measured("web-1")], 0.0)
    before = int(recommended(made, given)["target"]["memory"])
    for minute in (1, 2):
        made.add([given], [replica("web-1", restarts=1)], [measured("web-1")], minute * MINUTE_S)
        after = int(recommended(made, given)["target"]["memory"])
        assert 1.15 * before < after < 1.3 * before, "1.2 times the usage, in the next buckets"


def test_a_policy_bounds_the_target_and_not_the_uncapped_one() -> None:
    made, given = Recommender(), autoscaler(maxAllowed={"cpu": "50m"}, minAllowed={"memory": "4Gi"})
    made.add([given], [replica("web-1")], [measured("web-1")], 0.0)
    found = recommended(made, given)
    assert found["target"] == {"cpu": "50m", "memory": str(4 * 2**30)}
    assert found["uncappedTarget"]["cpu"] == "127m"
    cpu_only = autoscaler(controlledResources=["cpu"])
    assert set(recommended(made, cpu_only)["target"]) == {"cpu"}
    assert "recommendation" not in made.status(autoscaler(mode="Off") | {"spec": {
        "targetRef": TARGET, "resourcePolicy": {"containerPolicies": [{"containerName": "c", "mode": "Off"}]},
    }}, matched=True, now_s=0.0)  # fmt: skip


def test_a_tiny_container_gets_the_minimum_of_a_pod() -> None:
    made, given = Recommender(), autoscaler()
    made.add([given], [replica("web-1")], [measured("web-1", cpu="1m", memory="1000")], 0.0)
    assert recommended(made, given)["target"] == {"cpu": "25m", "memory": str(250 * 2**20)}


@pytest.mark.parametrize("mode", ["Initial", "Recreate", "InPlaceOrRecreate", "Auto"])
def test_modes_that_would_change_pods_are_named_as_not_applied(mode: str) -> None:
    conditions = Recommender().status(autoscaler(mode), matched=False, now_s=0.0)["conditions"]
    held = {each["type"]: (each["status"], each["message"]) for each in conditions}
    assert held["ConfigUnsupported"][0] == "True"
    assert f"updateMode {mode} is not applied" in held["ConfigUnsupported"][1]
    assert held["NoPodsMatched"][0] == "True"
    assert held["RecommendationProvided"][0] == "False"


def test_pods_belong_to_the_workload_that_made_them() -> None:
    given = autoscaler()
    assert is_target(given, replica("web-1"))
    assert not is_target(given, replica("web-1", phase="Pending"))
    assert not is_target(given, make_pod("web-2"))
    other = replica("web-3")
    other["metadata"]["ownerReferences"][0]["name"] = "web-api-5d4"
    assert not is_target(given, other)
    elsewhere = replica("web-4")
    elsewhere["metadata"]["namespace"] = "other"
    assert not is_target(given, elsewhere)


def test_a_checkpoint_gives_the_same_recommendation_later_too() -> None:
    """Weights are rounded to ten thousandths of the greatest: percentiles stay, unless they were on an edge."""
    made, given = Recommender(), autoscaler()
    for minute in range(300):
        use = measured("web-1", f"{50 + minute}m", str(10**8 + minute * 10**6))
        made.add([given], [replica("web-1")], [use], minute * MINUTE_S)
    (kept,) = made.checkpoints(given, 300 * MINUTE_S)
    successor = Recommender()
    successor.restore(given, [kept])
    assert recommended(successor, given) == recommended(made, given)
    for recommender in (made, successor):
        recommender.add([given], [replica("web-2")], [measured("web-2", "400m", "900000000")], 400 * MINUTE_S)
    assert recommended(successor, given)["target"] == recommended(made, given)["target"]


@pytest.mark.parametrize(
    "damage",
    [
        {"version": "v2"},
        {"cpuHistogram": {"bucketWeights": {"100000": 1}, "totalWeight": 1.0}},
        {"cpuHistogram": {"bucketWeights": {"1": 1}, "totalWeight": float("inf")}},
        {"cpuHistogram": {"bucketWeights": {"1": 1}, "totalWeight": 1e300}},
        {"cpuHistogram": {"bucketWeights": {"1": 10**400}, "totalWeight": 1.0}},
        {"cpuHistogram": {"bucketWeights": {"1": 1e-300}, "totalWeight": 1.0}},
        {"cpuHistogram": ["no", "histogram"]},
        {"firstSampleStart": None},
        {"totalSamplesCount": "many"},
    ],
)
def test_checkpoints_that_cannot_be_read_are_left_out(damage: dict[str, Any]) -> None:
    made, given = Recommender(), autoscaler()
    made.add([given], [replica("web-1")], [measured("web-1")], 0.0)
    (kept,) = made.checkpoints(given, 0.0)
    successor = Recommender()
    successor.restore(given, [{**kept, "status": {**kept["status"], **damage}}])
    assert "recommendation" not in successor.status(given, matched=True, now_s=0.0)


def test_an_autoscaler_has_a_bounded_number_of_histories() -> None:
    made, given = Recommender(), autoscaler()
    for number in range(MOST_CONTAINERS + 20):
        pod, usage = replica("web-1"), measured("web-1")
        pod["spec"]["containers"][0]["name"] = usage["containers"][0]["name"] = f"c{number}"
        made.add([given], [pod], [usage], number * MINUTE_S)
    names = {each["spec"]["containerName"] for each in made.checkpoints(given, 0.0)}
    assert names == {f"c{number}" for number in range(20, MOST_CONTAINERS + 20)}
