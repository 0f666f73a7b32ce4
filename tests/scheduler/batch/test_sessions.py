"""One session on a small cluster: gangs whole or not at all, and what a statement takes back."""

from typing import Any

import numpy as np
import pytest
from tests.scheduler.batch import situations

from rota.columns.objects import MalformedObjectError
from rota.scheduler.batch import conf, registry, scenarios, snapshots
from rota.scheduler.batch.heaps import PriorityQueue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.config.faults import ConfigurationError

CONF = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable, "conditions": conditions}}


def pod(group: str, number: int, *, cpu: str = "2", on: str = "", priority: int = 0) -> dict[str, Any]:
    name = f"{group}-w-{number}"
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "annotations": {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": "w"},
        },
        "spec": {
            "priority": priority,
            "schedulerName": "volcano",
            **({"nodeName": on} if on else {}),
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


def group(name: str, minimum: int, *, priority: str = "", phase: str = "Pending") -> dict[str, Any]:
    spec = {"minMember": minimum, "queue": "default", "priorityClassName": priority}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": phase}}


QUEUE = {"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}
HIGH = {"metadata": {"name": "high"}, "value": 1000}


def situation(**fields: Any) -> dict[str, Any]:
    return {"conf": CONF, "queues": [QUEUE], "priorityClasses": [HIGH], **fields}


def test_a_gang_is_placed_whole() -> None:
    scenario = situation(
        nodes=[node("a"), node("b")], podGroups=[group("g", 4)], pods=[pod("g", number) for number in range(4)]
    )
    decision = scenarios.decide(scenario).document()
    assert sorted(decision["binds"].values()) == ["a", "a", "b", "b"]
    assert decision["podGroupPhases"] == {"default/g": "Inqueue"}


def test_a_gang_without_enough_room_takes_none_and_leaves_the_room_to_others() -> None:
    scenario = situation(
        nodes=[node("a"), node("b")],
        podGroups=[group("g", 5, priority="high"), group("h", 4)],
        pods=[pod("g", number, priority=1000) for number in range(5)] + [pod("h", number) for number in range(4)],
    )
    decision = scenarios.decide(scenario).document()
    assert set(decision["binds"]) == {f"default/h-w-{number}" for number in range(4)}
    assert decision["conditions"]["default/g"]["reason"] == "NotEnoughResources"


def test_a_starving_gang_evicts_only_what_another_has_beyond_its_minimum() -> None:
    running = [pod("low", number, on="a" if number < 2 else "b") for number in range(4)]
    scenario = situation(
        nodes=[node("a"), node("b")],
        podGroups=[group("low", 2, phase="Running"), group("top", 2, priority="high", phase="Inqueue")],
        pods=[
            *[
                {**each, "metadata": {**each["metadata"], "labels": {"volcano.sh/preemptable": "true"}}}
                for each in running
            ],
            pod("top", 0, priority=1000),
            pod("top", 1, priority=1000),
        ],
    )
    decision = scenarios.decide(scenario).document()
    assert len(decision["evicts"]) == 2
    assert set(decision["pipelined"]) == {"default/top-w-0", "default/top-w-1"}


def test_what_a_statement_takes_back_leaves_no_trace() -> None:
    session = opened(nodes=[node("a")], groups=[group("g", 1)], pods=[pod("g", 0), pod("g", 1, on="a")])
    job = session.jobs["default/g"]
    waiting, running = job.members["g-w-0"], job.members["g-w-1"]
    before = [table.copy() for table in (session.nodes.idle, session.nodes.releasing, session.nodes.pipelined)]
    statement = session.statement()
    statement.evict(running, "test")
    statement.pipeline(waiting, "a", evicted=True)
    assert (waiting.status, running.status) == (TaskStatus.PIPELINED, TaskStatus.RELEASING)
    statement.discard()
    assert (waiting.status, running.status) == (TaskStatus.PENDING, TaskStatus.RUNNING)
    after = (session.nodes.idle, session.nodes.releasing, session.nodes.pipelined)
    assert all((left == right).all() for left, right in zip(before, after, strict=True))
    assert session.sent == []


def test_what_a_statement_keeps_is_sent_in_order() -> None:
    session = opened(nodes=[node("a")], groups=[group("g", 1)], pods=[pod("g", 0), pod("g", 1, on="a")])
    job = session.jobs["default/g"]
    statement = session.statement()
    statement.allocate(job.members["g-w-0"], "a")
    statement.evict(job.members["g-w-1"], "test")
    statement.commit()
    assert session.sent == [("bind", "default/g-w-0", "a"), ("evict", "default/g-w-1", "test")]


@pytest.mark.parametrize(
    ("section", "item", "message"),
    [
        ("podGroups", {"metadata": {"name": "g"}, "spec": {"minMember": "two"}}, "podGroups[0].spec.minMember"),
        ("podGroups", {"metadata": {"name": "g"}, "spec": {"minResources": {"cpu": "x"}}}, "podGroups[0].spec.minRes"),
        ("queues", {"metadata": {}}, "queues[0].metadata.name: is required"),
        ("queues", {"metadata": {"name": "q"}, "spec": {"deserved": []}}, "queues[0].spec.deserved"),
        ("hyperNodes", {"metadata": {"name": "h"}, "spec": {"members": [{"type": "Rack"}]}}, "hyperNodes[0].spec.memb"),
        ("pods", {"metadata": {"name": "p"}, "spec": {"containers": 1}}, "pods[0].spec.containers"),
        ("pods", 3, "pods[0]: expected an object"),
        (
            "nodes",
            {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "?"}}},
            "nodes[0].status.allocatable.cpu",
        ),
    ],
)
def test_what_is_malformed_is_refused_by_its_path(section: str, item: object, message: str) -> None:
    with pytest.raises(MalformedObjectError) as raised:
        scenarios.decide({"conf": CONF, section: [item]})
    assert str(raised.value).startswith(message)


def test_equals_leave_a_priority_queue_as_gos_heap_has_it() -> None:
    queue: PriorityQueue[tuple[int, str]] = PriorityQueue(lambda left, right: left[0] < right[0])
    for item in ((1, "a"), (1, "b"), (0, "c"), (1, "d")):
        queue.push(item)
    assert [queue.pop()[1] for _ in range(4)] == ["c", "d", "a", "b"]


def opened(*, nodes: list[dict[str, Any]], groups: list[dict[str, Any]], pods: list[dict[str, Any]]) -> Session:
    state = snapshots.build(nodes=nodes, pods=pods, groups=groups, queues=[QUEUE])
    return Session(state, conf.parse(CONF, registry.KNOWN))


def test_ratings_that_are_kept_follow_every_move() -> None:
    nodes = [node("a"), node("b"), node("c")]
    pods = [pod("g", number) for number in range(3)] + [pod("g", 3, on="b")]
    kept, fresh = (opened(nodes=nodes, groups=[group("g", 1)], pods=pods) for _ in range(2))
    rows = np.arange(3)
    kept.rate(kept.jobs["default/g"].members["g-w-0"], rows)
    for session in (kept, fresh):
        members = session.jobs["default/g"].members
        statement = session.statement()
        statement.allocate(members["g-w-0"], "a")
        statement.evict(members["g-w-3"], "test")
        statement.pipeline(members["g-w-1"], "c", evicted=False)
    asked = [session.rate(session.jobs["default/g"].members["g-w-2"], rows).tolist() for session in (kept, fresh)]
    assert asked[0] == asked[1]
    assert len(set(asked[0])) > 1


def test_in_a_strict_queue_nothing_starts_before_an_older_group_that_waits() -> None:
    strict = {**QUEUE, "spec": {"weight": 1, "dequeueStrategy": "fifo"}}
    large, small = group("large", 5), group("small", 1)
    large["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    small["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    scenario = situation(
        nodes=[node("a"), node("b")],
        podGroups=[large, small],
        pods=[pod("large", number) for number in range(5)] + [pod("small", 0)],
    )
    assert scenarios.decide(scenario).document()["binds"] == {"default/small-w-0": "a"}
    assert scenarios.decide({**scenario, "queues": [strict]}).document()["binds"] == {}
    without = {**scenario, "queues": [strict], "pods": [pod("small", 0)]}
    assert scenarios.decide(without).document()["binds"] == {}, "the older group's pods may still come"


def test_a_switch_that_switches_nothing_is_refused_with_its_path() -> None:
    text = 'actions: "allocate"\ntiers:\n- plugins:\n  - {name: gang, enableTargetJob: false}\n'
    with pytest.raises(ConfigurationError) as refused:
        conf.parse(text, registry.KNOWN)
    assert [fault.path for fault in refused.value.faults] == ["tiers[0].plugins[0].enableTargetJob"]


def test_groups_of_one_shape_share_a_refusal_and_smaller_ones_are_still_placed() -> None:
    text = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]'
    one = situations.situation(
        text,
        nodes=[situations.node("a"), situations.node("b")],
        podGroups=[situations.group(name) for name in ("g1", "g2", "g3")],
        pods=[
            situations.pod("g1", 0, {"cpu": "9"}),
            situations.pod("g2", 0, {"cpu": "9"}),
            situations.pod("g3", 0, {"cpu": "8"}),
        ],
    )
    quick, whole = scenarios.decide(one, quick=True), scenarios.decide(one)
    assert quick.binds == whole.binds == {"default/g3-w-0": "a"}
    for key in ("default/g1", "default/g2"):
        assert "2 Insufficient cpu" in quick.conditions[key].message
