"""What filters and scores see of pods that a session has placed."""

from typing import Any

import pytest

from rota.scheduler.batch import scenarios

CONF = """
actions: allocate
tiers:
- plugins: [{name: priority}, {name: predicates}]
- plugins: [{name: nodeorder, arguments: {leastrequested.weight: 0, balancedresource.weight: 0}}]
"""
HERE = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
QUEUE = {"metadata": {"name": "q"}, "spec": {"weight": 1}, "status": {"state": "Open"}}


def node(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"cpu": "8", "pods": "9"}}}


def pod(name: str, *, affinity: dict[str, Any] | None = None, on: str | None = None) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {"app": "x"},
            "annotations": {"scheduling.k8s.io/group-name": name},
        },
        "spec": {
            "affinity": affinity,
            "nodeName": on,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


def binds(*pods: dict[str, Any]) -> dict[str, str]:
    groups = [
        {
            "metadata": {
                "name": each["metadata"]["name"],
                "namespace": "default",
                "creationTimestamp": f"2026-01-0{day}T00:00:00Z",
            },
            "spec": {"queue": "q", "minMember": 1},
            "status": {"phase": "Inqueue"},
        }
        for day, each in enumerate(pods, start=1)
    ]
    situation = {"conf": CONF, "nodes": [node("a"), node("b")], "queues": [QUEUE], "podGroups": groups, "pods": [*pods]}
    return dict(scenarios.decide(situation).binds)


AWAY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [HERE]}}
RATHER_AWAY = {
    "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "podAffinityTerm": HERE}]}
}


@pytest.mark.parametrize("affinity", [AWAY, RATHER_AWAY])
def test_what_a_pod_placed_now_wants_is_known_in_the_next_session(affinity: dict[str, Any]) -> None:
    assert binds(pod("first", affinity=affinity), pod("second")) == {"default/first": "a", "default/second": "a"}
    assert binds(pod("first", affinity=affinity, on="a"), pod("second")) == {"default/second": "b"}


@pytest.mark.parametrize("affinity", [AWAY, RATHER_AWAY])
def test_what_a_pod_wants_itself_counts_at_once(affinity: dict[str, Any]) -> None:
    placed = binds(pod("first", affinity=affinity), pod("second"), pod("third", affinity=affinity))
    assert placed == {"default/first": "a", "default/second": "a", "default/third": "b"}
