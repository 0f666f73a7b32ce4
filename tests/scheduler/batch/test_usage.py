"""Measured usage: usage filters and scores by it, rescheduling names pods for shuffle by it."""

from typing import Any

import pytest
from tests.scheduler.batch.situations import NOW, group, node, pod, situation

from rota.scheduler.batch import conf, registry, scenarios, snapshots
from rota.scheduler.batch.times import seconds

USAGE = """
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: usage, arguments: {thresholds: {cpu: 50, mem: 90}}}]
"""
RESCHEDULING = """
actions: "shuffle"
tiers:
- plugins:
  - name: gang
  - name: rescheduling
    arguments:
      interval: 1m
      strategies:
      - name: lowNodeUtilization
        params: {thresholds: {cpu: 30}, targetThresholds: {cpu: 60}}
"""


def metrics(name: str, cpu: str, *, memory: str = "1Gi", at: str = NOW) -> dict[str, Any]:
    return {"metadata": {"name": name}, "timestamp": at, "usage": {"cpu": cpu, "memory": memory}}


def placed(*figures: dict[str, Any], pods: int = 1) -> dict[str, str]:
    one = situation(
        USAGE,
        nodes=[node("a"), node("b")],
        podGroups=[group("g", least=pods)],
        pods=[pod("g", number, {"cpu": "2"}) for number in range(pods)],
        nodeMetrics=list(figures),
    )
    return dict(scenarios.decide(one).binds)


def test_a_node_above_the_threshold_takes_no_pods() -> None:
    assert placed(metrics("a", "4100m"), metrics("b", "3900m")) == {"default/g-w-0": "b"}


def test_old_figures_and_missing_ones_refuse_nothing() -> None:
    old = "2026-05-01T11:54:59Z"
    assert placed(metrics("a", "8", at=old), metrics("b", "8", at=old)) == {"default/g-w-0": "a"}


def test_a_group_without_a_node_says_why() -> None:
    one = situation(
        USAGE,
        nodes=[node("a")],
        podGroups=[group("g")],
        pods=[pod("g", 0, {"cpu": "1"})],
        nodeMetrics=[metrics("a", "5"), metrics("unknown", "1")],
    )
    decided = scenarios.decide(one)
    assert not decided.binds
    assert "1 measured cpu usage is above the threshold" in decided.conditions["default/g"].message


def test_the_less_used_node_is_better_and_placed_pods_count() -> None:
    # The first pod makes b fuller than a: 1.4 expected cores on top of 1.
    assert placed(metrics("a", "2"), metrics("b", "1"), pods=2) == {"default/g-w-0": "b", "default/g-w-1": "a"}


def moved(*, cpus: dict[str, str], priorities: tuple[int, ...] = (0, 0, 0), conf_text: str = RESCHEDULING) -> list[str]:
    one = situation(
        conf_text,
        nodes=[node("a"), node("b")],
        podGroups=[group("g", phase="Running")],
        pods=[pod("g", number, {"cpu": "2"}, on="a", priority=each) for number, each in enumerate(priorities)],
        nodeMetrics=[metrics(name, cpu) for name, cpu in cpus.items()],
    )
    return list(scenarios.decide(one).evicts)


def test_pods_leave_a_full_node_until_it_is_below_its_target() -> None:
    assert moved(cpus={"a": "6", "b": "1"}) == ["default/g-w-0"]


def test_pods_of_low_priority_leave_first() -> None:
    assert moved(cpus={"a": "6", "b": "1"}, priorities=(3, 2, 1)) == ["default/g-w-2"]


@pytest.mark.parametrize("cpus", [{"a": "6", "b": "3"}, {"a": "4", "b": "1"}, {"a": "6"}, {}])
def test_without_a_high_and_a_low_node_nothing_leaves(cpus: dict[str, str]) -> None:
    assert moved(cpus=cpus) == []


def test_room_on_low_nodes_is_not_promised_twice() -> None:
    # b may use 4.8 cores and uses 2.3, so one pod of two cores moves, though a stays above its target of 4.8.
    assert len(moved(cpus={"a": "8", "b": "2300m"})) == 1


@pytest.mark.parametrize("selector", ["queueSelector: [other]", "labelSelector: {app: other}"])
def test_only_selected_pods_leave(selector: str) -> None:
    text = RESCHEDULING.replace("interval: 1m", f"interval: 1m\n      {selector}")
    assert moved(cpus={"a": "6", "b": "1"}, conf_text=text) == []


def test_strategies_run_once_per_interval() -> None:
    configuration = conf.parse(RESCHEDULING, registry.KNOWN)

    def evicted(now: float, done_at: dict[str, float]) -> int:
        state = snapshots.build(
            nodes=[node("a"), node("b")],
            pods=[pod("g", number, {"cpu": "2"}, on="a") for number in range(3)],
            groups=[group("g", phase="Running")],
            queues=[situation("")["queues"][0]],
            metrics=[metrics("a", "6"), metrics("b", "1")],
            now=now,
        )
        state.done_at = done_at
        return sum(kind == "evict" for kind, _, _ in registry.run(state, configuration).sent)

    done_at: dict[str, float] = {}
    assert [evicted(seconds(NOW) + later, done_at) for later in (0, 59, 60)] == [1, 0, 1]
