"""The sum that a template follows, while its members' autoscalers choose the replicas."""

from typing import Any

import pytest

from rota.federation.control.replica_sync import settled_sum


def deployment(replicas: int, *, generation: int = 1, observed: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "generation": generation},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": observed},
    }


def binding(assigned: dict[str, int], statuses: dict[str, dict[str, int]]) -> dict[str, Any]:
    return {
        "spec": {
            "replicas": sum(assigned.values()),
            "clusters": [{"name": name, "replicas": count} for name, count in assigned.items()],
        },
        "status": {"aggregatedStatus": [{"clusterName": name, "status": one} for name, one in statuses.items()]},
    }


def running(replicas: int, available: int) -> dict[str, int]:
    return {
        "observedGeneration": 1,
        "replicas": replicas,
        "availableReplicas": available,
        "unavailableReplicas": replicas - available,
    }


def test_the_sum_is_that_of_all_clusters() -> None:
    found = settled_sum(deployment(2), binding({"m1": 1, "m2": 1}, {"m1": running(3, 3), "m2": running(2, 1)}))
    assert found == 5


@pytest.mark.parametrize(
    "statuses",
    [
        {},
        {"m1": running(1, 1)},
        # the member has seen the Deployment and has created no pod of it yet
        {"m1": {"observedGeneration": 1}, "m2": {"observedGeneration": 1}},
        {"m1": running(1, 1), "m2": {"observedGeneration": 1, "unavailableReplicas": 1}},
        # one pod of four is created
        {"m1": {"observedGeneration": 1, "replicas": 1, "unavailableReplicas": 4}, "m2": running(1, 1)},
    ],
)
def test_clusters_that_have_only_begun_do_not_change_the_template(statuses: dict[str, dict[str, int]]) -> None:
    assert settled_sum(deployment(2), binding({"m1": 1, "m2": 1}, statuses)) is None


def test_a_status_of_an_earlier_spec_does_not_count() -> None:
    place = binding({"m1": 1, "m2": 1}, {"m1": running(2, 2), "m2": running(2, 2)})
    assert settled_sum(deployment(2, generation=2), place) is None
    assert settled_sum(deployment(3), place) is None
    assert settled_sum(deployment(2), place) == 4
