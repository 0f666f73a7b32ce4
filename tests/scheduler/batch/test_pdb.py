"""Evictions stay within disruption budgets."""

from typing import Any

import pytest

from rota.columns.objects import MalformedObjectError
from rota.scheduler.batch import scenarios

CONF = """
actions: "allocate, ACTION"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: pdb}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
QUEUE = {"metadata": {"name": "q"}, "spec": {"weight": 1}, "status": {"state": "Open"}}


def pod(group: str, number: int, *, priority: int, on: str | None = None) -> dict[str, Any]:
    name = f"{group}-w-{number}"
    annotations = {"scheduling.k8s.io/group-name": group, "volcano.sh/preemptable": "true"}
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": group}, "annotations": annotations}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"priority": priority, "nodeName": on, "containers": [container]}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Running" if on else "Pending"}}


def group(name: str, priority: str, phase: str, *, least: int = 1) -> dict[str, Any]:
    spec = {"queue": "q", "minMember": least, "priorityClassName": priority}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": phase}}


def evicted(*budgets: dict[str, Any], action: str = "preempt", wanted: int = 3) -> list[str]:
    """Let a group of high pods meet a node that is full with four low ones."""
    situation = {
        "conf": CONF.replace("ACTION", action),
        "queues": [QUEUE],
        "nodes": [{"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "pods": "20"}}}],
        "priorityClasses": [{"metadata": {"name": "high"}, "value": 100}, {"metadata": {"name": "low"}, "value": 1}],
        "podGroups": [group("low", "low", "Running"), group("top", "high", "Inqueue", least=wanted)],
        "pods": [pod("low", number, priority=1, on="a") for number in range(4)]
        + [pod("top", number, priority=100) for number in range(wanted)],
        "pdbs": list(budgets),
    }
    return list(scenarios.decide(situation).evicts)


def budget(allowed: int, *, namespace: str = "default", gone: tuple[str, ...] = (), **selector: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "b", "namespace": namespace},
        "spec": {"selector": {"matchLabels": selector}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(gone, "2026-01-01T00:00:00Z")},
    }


def test_without_a_budget_as_many_go_as_are_needed() -> None:
    assert len(evicted()) == 3


@pytest.mark.parametrize("other", [budget(0, app="other"), budget(0, namespace="else", app="low"), budget(0)])
def test_budgets_of_others_do_not_matter(other: dict[str, Any]) -> None:
    assert len(evicted(other)) == 3


def test_a_gang_that_would_need_more_than_the_budget_gets_nothing() -> None:
    assert evicted(budget(0, app="low")) == []
    assert len(evicted(budget(1, app="low"), wanted=1)) == 1


def test_pods_that_the_api_server_counted_already_do_not_count_again() -> None:
    assert evicted(budget(0, app="low"), wanted=1) == []
    assert evicted(budget(0, gone=("low-w-2",), app="low"), wanted=1) == ["default/low-w-2"]


def test_whole_gangs_are_protected_too() -> None:
    assert len(evicted(action="gangpreempt")) > 0
    assert evicted(budget(0, app="low"), action="gangpreempt") == []


def test_a_malformed_budget_is_refused_by_its_path() -> None:
    with pytest.raises(MalformedObjectError, match=r"pdbs\[0\]\.status\.disruptionsAllowed"):
        scenarios.decide(
            {"conf": "actions: allocate", "pdbs": [{"metadata": {"name": "b"}, "status": {"disruptionsAllowed": "x"}}]}
        )
