"""extender: every verb is asked, an answer counts, and a failure refuses unless it may be ignored."""

import json
from typing import Any

import pytest
from tests.scheduler.batch.situations import group, node, pod, situation

from rota.scheduler.batch import scenarios

CONF = """
actions: "ACTIONS"
tiers:
- plugins:
  - {name: priority}
  - {name: gang, enablePreemptable: false}
  - name: extender
    arguments:
      extender.urlPrefix: http://hooks/v1
      extender.httpTimeout: 3s
      ARGUMENTS
"""


class Program:
    """A program outside, with fixed answers by verb."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def ask(self, address: str, body: bytes, timeout_s: float) -> bytes:
        assert address.startswith("http://hooks/v1/")
        assert timeout_s == 3.0
        verb, said = address.rsplit("/", 1)[1], json.loads(body)
        self.asked.append((verb, said))
        answer = self.answers.get(verb)
        if answer is None:
            raise OSError("connection refused")
        return json.dumps(answer(said) if callable(answer) else answer).encode()


def decide(program: Program, *arguments: str, actions: str = "allocate", **sections: Any) -> Any:
    text = CONF.replace("ACTIONS", actions).replace("ARGUMENTS", "\n      ".join(arguments))
    sections = {
        "nodes": [node("a"), node("b")],
        "podGroups": [group("g")],
        "pods": [pod("g", 0, {"cpu": "1"})],
        **sections,
    }
    return scenarios.decide(situation(text, **sections), ask=program.ask)


def test_a_refused_node_is_not_used() -> None:
    program = Program(fits=lambda said: {"errorMessage": "too noisy" if said["node"]["Name"] == "a" else ""})
    assert decide(program, "extender.predicateVerb: fits").binds == {"default/g-w-0": "b"}
    verb, said = program.asked[0]
    assert verb == "fits"
    assert said["task"]["Resreq"]["MilliCPU"] == 1000
    assert said["node"]["Idle"]["MilliCPU"] == 8000


def test_scores_choose_the_node() -> None:
    program = Program(rate={"nodeScore": {"a": 1, "b": 7.5}})
    assert decide(program, "extender.prioritizeVerb: rate").binds == {"default/g-w-0": "b"}


@pytest.mark.parametrize(("ignorable", "bound"), [("true", 1), ("false", 0)])
def test_a_failure_refuses_unless_it_may_be_ignored(ignorable: str, bound: int) -> None:
    decided = decide(Program(), "extender.predicateVerb: fits", f"extender.ignorable: {ignorable}")
    assert len(decided.binds) == bound


def test_only_pods_with_managed_resources_are_asked_about() -> None:
    program = Program()
    decided = decide(program, "extender.predicateVerb: fits", "extender.managedResources: example.com/fpga")
    assert decided.binds
    assert not program.asked


@pytest.mark.parametrize(("status", "phase"), [(1, "Inqueue"), (0, "Inqueue"), (-1, "Pending")])
def test_the_program_may_keep_a_group_out(status: int, phase: str) -> None:
    waiting = group("g", phase="Pending", minResources={"cpu": "1"})
    decided = decide(
        Program(enter={"status": status}), "extender.jobEnqueueableVerb: enter", actions="enqueue", podGroups=[waiting]
    )
    assert decided.phases["default/g"] == phase


def test_a_group_is_bound_only_when_the_program_says_so() -> None:
    assert not decide(Program(ready={"status": False}), "extender.jobReadyVerb: ready").binds
    assert decide(Program(ready={"status": True}), "extender.jobReadyVerb: ready").binds


def test_an_overused_queue_gets_nothing() -> None:
    assert not decide(Program(over={"overused": True}), "extender.queueOverusedVerb: over").binds
    assert decide(Program(over={"overused": False}), "extender.queueOverusedVerb: over").binds


def test_the_program_chooses_victims() -> None:
    classes = [{"metadata": {"name": "high"}, "value": 9}]
    low = [pod("low", number, {"cpu": "4"}, on="a") for number in range(2)]
    program = Program(evict=lambda said: {"status": 1, "victims": [said["evictees"][-1]]})
    decided = decide(
        program,
        "extender.preemptableVerb: evict",
        actions="allocate, preempt",
        nodes=[node("a")],
        priorityClasses=classes,
        podGroups=[group("low", phase="Running"), group("g", priorityClassName="high")],
        pods=[*low, pod("g", 0, {"cpu": "4"}, priority=9)],
    )
    assert len(decided.evicts) == 1
    named = next(said["evictees"][-1] for verb, said in program.asked if verb == "evict")
    assert decided.evicts[0] == f"default/{named['Name']}"


def test_sessions_and_places_are_announced() -> None:
    program = Program(begin={}, end={}, put={}, drop={})
    decide(
        program,
        "extender.onSessionOpenVerb: begin",
        "extender.onSessionCloseVerb: end",
        "extender.allocateFuncVerb: put",
        "extender.deallocateFuncVerb: drop",
    )
    assert [verb for verb, _ in program.asked] == ["begin", "put", "end"]
    assert set(program.asked[0][1]) == {"jobs", "nodes", "queues"}


def test_offline_an_extender_gives_no_answer() -> None:
    text = CONF.replace("ACTIONS", "allocate").replace("ARGUMENTS", "extender.predicateVerb: fits")
    one = situation(text, nodes=[node("a")], podGroups=[group("g")], pods=[pod("g", 0, {"cpu": "1"})])
    assert not scenarios.decide(one).binds
