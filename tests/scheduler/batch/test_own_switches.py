"""Switches that Volcano does not have: off unless a configuration names them, and what each changes."""

from typing import Any

import pytest
from tests.scheduler.batch.situations import group, node, pod, situation

from rota.scheduler.batch import scenarios

CLASSES = [{"metadata": {"name": "high"}, "value": 9}]


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"weight": 1, **spec}, "status": {"state": "Open"}}


def decided(text: str, gangs: list[tuple[dict[str, Any], list[dict[str, Any]]]], **sections: Any) -> Any:
    return scenarios.decide(
        situation(
            text,
            priorityClasses=CLASSES,
            podGroups=[one for one, _ in gangs],
            pods=[each for _, pods in gangs for each in pods],
            **sections,
        )
    )


def running(name: str, *places: str, queue: str = "q", least: int | None = None, cpu: str = "4") -> Any:
    pods = [pod(name, number, {"cpu": cpu}, on=place) for number, place in enumerate(places)]
    return group(name, least=len(places) if least is None else least, queue=queue, phase="Running"), pods


def waiting(name: str, pods: int, *, queue: str = "q", cpu: str = "4", **spec: Any) -> Any:
    return group(name, least=pods, queue=queue, **spec), [
        pod(name, number, {"cpu": cpu}, priority=9 if "priorityClassName" in spec else 0) for number in range(pods)
    ]


# --- reclaim and preempt: idle nodes and nodes with victims in one search ---------------------------------------------

RECLAIM = """
actions: "allocate, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang, enableReclaimable: false}]
- plugins: [{name: predicates}, {name: capacity}]
configurations: [{name: reclaim, arguments: {useIdleNodes: SWITCH}}]
"""


@pytest.mark.parametrize(("switch", "evictions"), [("false", 0), ("true", 2)])
def test_reclaim_combines_an_idle_node_with_victims(switch: str, evictions: int) -> None:
    outcome = decided(
        RECLAIM.replace("SWITCH", switch),
        [running("old", "a", "a", queue="rich", least=1), waiting("new", 2, queue="poor", cpu="8")],
        nodes=[node("a"), node("b")],
        queues=[queue("rich", deserved={"cpu": "1"}), queue("poor", deserved={"cpu": "16"})],
    )
    assert len(outcome.evicts) == evictions
    assert set(outcome.pipelined.values()) == ({"a", "b"} if switch == "true" else set())


PREEMPT = """
actions: "allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}]
- plugins: [{name: predicates}]
configurations: [{name: preempt, arguments: {useIdleNodes: SWITCH}}]
"""


@pytest.mark.parametrize(("switch", "evictions"), [("false", 4), ("true", 2)])
def test_preempt_takes_idle_nodes_before_it_evicts(switch: str, evictions: int) -> None:
    # The gang of two whole nodes could use c; without the switch, a and b lose their pods, whichever rates better.
    outcome = decided(
        PREEMPT.replace("SWITCH", switch),
        [running("old", "a", "a", "b", "b", least=1), waiting("new", 2, cpu="8", priorityClassName="high")],
        nodes=[node("a"), node("b"), node("c")],
    )
    assert len(outcome.evicts) == evictions


# --- gangpreempt: the fewest gangs ------------------------------------------------------------------------------------

GANGS = """
actions: "allocate, gangpreempt"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}]
configurations: [{name: gangpreempt, arguments: {fewestGangs: SWITCH}}]
"""


@pytest.mark.parametrize(("switch", "broken"), [("false", 3), ("true", 1)])
def test_as_few_gangs_as_possible_are_broken(switch: str, broken: int) -> None:
    # Two gangs have one node together, a third has the other; one gang's room is enough.
    outcome = decided(
        GANGS.replace("SWITCH", switch),
        [
            running("s1", "a"),
            running("s2", "a"),
            running("wide", "b", "b"),
            waiting("new", 1, cpu="8", priorityClassName="high"),
        ],
        nodes=[node("a"), node("b")],
    )
    gangs = {each.split("/")[1].split("-")[0] for each in outcome.evicts}
    assert len(gangs) <= broken
    if switch == "true":
        assert gangs == {"wide"}
        assert len(outcome.evicts) == 2


def test_pods_beyond_the_minimum_that_are_not_needed_stay() -> None:
    outcome = decided(
        GANGS.replace("SWITCH", "true"),
        [
            running("x", "a", "a", least=0),
            running("y", "b", "b", least=0),
            waiting("new", 1, cpu="8", priorityClassName="high"),
        ],
        nodes=[node("a"), node("b")],
    )
    assert len(outcome.evicts) == 2
    assert len({each.split("-")[0] for each in outcome.evicts}) == 1


# --- enqueue: groups that will reclaim --------------------------------------------------------------------------------

ENQUEUE = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: overcommit, arguments: {overcommit-factor: 1.0}}, {name: predicates}, {name: SHARES}]
configurations: [{name: enqueue, arguments: {letInToReclaim: SWITCH}}]
"""


@pytest.mark.parametrize("shares", ["proportion", "capacity"])
@pytest.mark.parametrize(
    ("switch", "cpu", "phase"), [("false", "4", "Pending"), ("true", "4", "Inqueue"), ("true", "5", "Pending")]
)
def test_a_group_without_pods_is_let_in_as_far_as_its_queue_is_entitled(
    shares: str, switch: str, cpu: str, phase: str
) -> None:
    new = group("new", queue="poor", phase="Pending", minResources={"cpu": cpu})
    outcome = decided(
        ENQUEUE.replace("SWITCH", switch).replace("SHARES", shares),
        [running("old", "a", "a", queue="rich", least=1), (new, [])],
        nodes=[node("a")],
        queues=[queue("rich", deserved={"cpu": "4"}), queue("poor", deserved={"cpu": "4"})],
    )
    assert outcome.phases["default/new"] == phase
