"""Runs of pipelines decided step by step: random graphs on a runtime that is nothing but chance."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import fields
from rota.api.pipelines import graphs, pipeline_validation
from rota.controllers.pipelines import engine
from rota.controllers.pipelines.progress import Progress, RunState
from rota.controllers.pipelines.states import BLOCKED, Decision, Phase, RunPhase, StepKey, StepState

TEMPLATE = {"spec": {"containers": [{"name": "main", "command": ["echo", "{{ run.name }}"]}]}}
SUCCEEDED = StepState(phase=Phase.SUCCEEDED)
FAILED = StepState(phase=Phase.FAILED)


def step(name: str, *waits: str, **parts: Any) -> dict[str, Any]:
    return {"name": name, "template": TEMPLATE, "dependsOn": list(waits), **parts}


def run(*steps: dict[str, Any], states: Mapping[Any, StepState] | None = None, **spec: Any) -> RunState:
    flags = {name: spec.pop(name) for name in ("suspend", "cancel", "parameters") if name in spec}
    whole = {"steps": list(steps), **spec}
    return RunState(
        name="r",
        namespace="ns",
        uid="u",
        spec=whole,
        steps=Progress(states),
        started_at=0.0,
        waits=graphs.graph([*steps, *spec.get("onExit", ())]),
        **{"parameters": {}, **flags},
    )


def made(state: RunState, now: float = 1.0) -> list[StepKey]:
    return [one.key for one in engine.decide(state, now=now).make]


def test_steps_begin_when_those_they_wait_for_are_over() -> None:
    steps = step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c")
    assert made(run(*steps)) == [("a", None)]
    assert made(run(*steps, states={("a", None): SUCCEEDED})) == [("b", None), ("c", None)]
    two = {("a", None): SUCCEEDED, ("b", None): SUCCEEDED}
    assert made(run(*steps, states=two)) == [("c", None)]


def test_what_is_mentioned_is_waited_for_and_filled_in() -> None:
    template = {"spec": {"containers": [{"args": ["{{ steps.a.outputs.x }}", "{{ parameters.p }}"]}]}}
    steps = step("a", outputs=[{"name": "x"}]), step("b", template=template)
    assert made(run(*steps, parameters={"p": "1"})) == [("a", None)]
    done = {("a", None): StepState(phase=Phase.SUCCEEDED, outputs={"x": "7"})}
    [new] = engine.decide(run(*steps, states=done, parameters={"p": "1"}), now=1).make
    assert new.spec["template"]["spec"]["containers"][0]["args"] == ["7", "1"]


def test_an_output_that_never_came_fails_the_step_that_wants_it_by_name() -> None:
    steps = (
        step("a", outputs=[{"name": "x"}]),
        step("b", env="{{ steps.a.outputs.x }}", template={"a": "{{ steps.a.outputs.x }}"}),
    )
    [new] = engine.decide(run(*steps, states={("a", None): SUCCEEDED}), now=1).make
    assert (new.phase, new.reason) == (Phase.FAILED, "TemplateError")
    assert "step a has left no output x" in new.message


def test_a_condition_that_does_not_hold_leaves_a_step_out_and_goes_on() -> None:
    steps = step("a", when='parameters.go == "yes"'), step("b", "a")
    [skipped] = engine.decide(run(*steps, parameters={"go": "no"}), now=1).make
    assert (skipped.phase, skipped.reason) == (Phase.SKIPPED, "ConditionNotMet")
    states = {("a", None): StepState(phase=Phase.SKIPPED, reason="ConditionNotMet")}
    assert made(run(*steps, states=states, parameters={"go": "no"})) == [("b", None)]


def test_what_waits_for_a_failure_is_left_out_unless_it_asks_for_it() -> None:
    steps = (
        step("a"),
        step("b", "a"),
        step("c", "b"),
        step("mend", "a", when='steps.a.status == "Failed"'),
    )
    state = run(*steps, states={("a", None): FAILED}, failurePolicy="Continue")
    found = {one.key[0]: (one.phase, one.reason) for one in engine.decide(state, now=1).make}
    assert found == {"b": (Phase.SKIPPED, BLOCKED), "mend": (Phase.WAITING, "")}
    blocked = {**state.steps, ("b", None): StepState(phase=Phase.SKIPPED, reason=BLOCKED)}
    [c] = [one for one in engine.decide(replace(state, steps=Progress(blocked)), now=1).make if one.key[0] == "c"]
    assert c.reason == BLOCKED


def test_the_first_failure_ends_a_run_that_fails_fast() -> None:
    states = {("a", None): FAILED, ("b", None): StepState(phase=Phase.RUNNING)}
    decision = engine.decide(run(step("a"), step("b"), step("c"), states=states), now=1)
    assert (decision.make, decision.stop, decision.phase) == ([], [("b", None)], RunPhase.RUNNING)
    ended = {**states, ("b", None): StepState(phase=Phase.CANCELLED)}
    decision = engine.decide(run(step("a"), step("b"), step("c"), states=ended), now=1)
    assert (decision.phase, decision.message) == (RunPhase.FAILED, "a failed")


def test_a_failure_that_is_shrugged_off_is_none() -> None:
    steps = step("a", continueOnFailure=True), step("b", "a")
    assert made(run(*steps, states={("a", None): FAILED})) == [("b", None)]
    decision = engine.decide(run(*steps, states={("a", None): FAILED, ("b", None): SUCCEEDED}), now=1)
    assert decision.phase is RunPhase.SUCCEEDED


@pytest.mark.parametrize(
    ("each", "items"),
    [
        ({"items": ["x", {"y": 1}]}, ["x", {"y": 1}]),
        ({"from": "{{ parameters.list }}"}, ["1", "2"]),
        ({"from": "{{ steps.a.outputs.names }}"}, ["p", "q"]),
    ],
)
def test_a_step_runs_once_for_each_item(each: dict[str, Any], items: list[Any]) -> None:
    steps = step("a", outputs=[{"name": "names"}]), step("b", "a", forEach=each, template={"args": ["{{ item }}"]})
    states = {("a", None): StepState(phase=Phase.SUCCEEDED, outputs={"names": "p\nq\n"})}
    found = engine.decide(run(*steps, states=states, parameters={"list": '["1", "2"]'}), now=1).make
    assert [(one.key, one.spec["item"]) for one in found] == [(("b", index), item) for index, item in enumerate(items)]


def test_outputs_of_all_items_come_together_in_their_order() -> None:
    steps = (
        step("a", forEach={"items": [1, 2]}, outputs=[{"name": "x"}]),
        step("b", template={"all": "{{ steps.a.outputs.x }}"}),
    )
    states = {("a", index): StepState(phase=Phase.SUCCEEDED, outputs={"x": f"v{index}"}) for index in (1, 0)}
    [new] = engine.decide(run(*steps, states=states), now=1).make
    assert new.spec["template"] == {"all": ["v0", "v1"]}


def test_what_is_no_list_fails_the_step_and_nothing_to_do_is_done() -> None:
    [bad] = engine.decide(run(step("a", forEach={"from": "{{ parameters.n }}"}), parameters={"n": "[1,"}), now=1).make
    assert (bad.phase, bad.reason) == (Phase.FAILED, "TemplateError")
    [none] = engine.decide(run(step("a", forEach={"items": []})), now=1).make
    assert (none.phase, none.reason) == (Phase.SUCCEEDED, "NoItems")


def test_what_was_done_for_nothing_has_left_an_empty_list() -> None:
    steps = (
        step("a", forEach={"items": []}, outputs=[{"name": "x"}]),
        step("b", template={"all": "{{ steps.a.outputs.x }}"}),
    )
    states = {("a", None): StepState(phase=Phase.SUCCEEDED, reason="NoItems")}
    [new] = engine.decide(run(*steps, states=states), now=1).make
    assert new.spec["template"] == {"all": []}


def test_no_more_begins_than_may_go_on_at_a_time() -> None:
    wide = step("a", forEach={"items": list(range(9))}, parallelism=4)
    assert len(made(run(wide, step("b")))) == 5
    assert len(made(run(wide, step("b"), parallelism=2))) == 2
    going = {("a", 0): StepState(phase=Phase.RUNNING), ("a", 1): SUCCEEDED}
    assert made(run(wide, parallelism=3, states=going)) == [("a", 2), ("a", 3)]


def test_while_suspended_nothing_begins_and_what_runs_goes_on() -> None:
    decision = engine.decide(run(step("a"), suspend=True), now=1)
    assert (decision.make, decision.phase) == ([], RunPhase.SUSPENDED)
    going = {("a", None): StepState(phase=Phase.RUNNING)}
    assert engine.decide(run(step("a"), suspend=True, states=going), now=1).phase is RunPhase.RUNNING


def test_steps_at_the_end_run_however_it_ended() -> None:
    last = {"onExit": [step("tell", template={"how": "{{ run.status }}"})]}
    for states, flags, how in (
        ({("a", None): SUCCEEDED}, {}, "Succeeded"),
        ({("a", None): FAILED}, {}, "Failed"),
        ({("a", None): StepState(phase=Phase.CANCELLED)}, {"cancel": True}, "Cancelled"),
    ):
        state = run(step("a"), states=states, **last, **flags)
        [new] = engine.decide(state, now=1).make
        assert new.spec["template"] == {"how": how}
        after = replace(state, steps=Progress({**state.steps, ("tell", None): SUCCEEDED}))
        assert engine.decide(after, now=1).phase.value == how


def test_while_suspended_the_steps_at_the_end_wait_too_unless_it_is_cancelled() -> None:
    state = run(step("a"), onExit=[step("tell")], states={("a", None): SUCCEEDED}, suspend=True)
    held = engine.decide(state, now=1)
    assert (held.make, held.phase) == ([], RunPhase.SUSPENDED)
    assert made(replace(state, cancel=True)) == [("tell", None)]


def test_a_run_without_an_end_is_over_though_suspended() -> None:
    state = run(step("a"), states={("a", None): SUCCEEDED}, suspend=True)
    assert engine.decide(state, now=1).phase is RunPhase.SUCCEEDED


def test_at_the_end_a_run_that_took_too_long_has_failed() -> None:
    last = {"onExit": [step("tell", template={"how": "{{ run.status }}"})], "timeoutSeconds": 10}
    state = run(step("a"), states={("a", None): StepState(phase=Phase.CANCELLED)}, **last)
    [new] = engine.decide(state, now=11).make
    assert new.spec["template"] == {"how": "Failed"}


def test_items_may_refer_to_values() -> None:
    each = step("a", forEach={"items": ["{{ parameters.p }}", "y"]}, template={"x": "{{ item }}"})
    new = engine.decide(run(each, parameters={"p": "x"}), now=1).make
    assert [one.spec["template"]["x"] for one in new] == ["x", "y"]


def test_a_list_that_is_nested_without_end_is_no_list() -> None:
    [new] = engine.decide(
        run(step("a", forEach={"from": "{{ parameters.p }}"}), parameters={"p": "[" * 99_999}), now=1
    ).make
    assert (new.phase, new.reason) == (Phase.FAILED, "TemplateError")


def test_a_run_that_takes_too_long_is_stopped() -> None:
    state = run(step("a"), timeoutSeconds=10, states={("a", None): StepState(phase=Phase.RUNNING)})
    assert engine.decide(state, now=9).wake_at == 10
    decision = engine.decide(state, now=10)
    assert (decision.stop, decision.reason) == ([("a", None)], "DeadlineExceeded")


# --- random graphs ----------------------------------------------------------------------------------------------------


@dataclass
class Runtime:
    """Runs steps by chance; remembers in what order they began and ended."""

    rng: random.Random
    #: Kept all along, as a leader does who lives through the whole run.
    states: Progress = field(default_factory=Progress)
    begun: list[StepKey] = field(default_factory=list)
    ended: list[StepKey] = field(default_factory=list)

    def apply(self, decision: Decision) -> None:
        for new in decision.make:
            assert new.key not in self.states, "made twice"
            self.states.put(new.key, StepState(phase=new.phase, reason=new.reason))
            if not new.phase.over:
                self.begun.append(new.key)
        for key in decision.stop:
            self.states.put(key, StepState(phase=Phase.CANCELLED))
            self.ended.append(key)

    def advance(self) -> bool:
        going = [key for key, state in self.states.items() if not state.phase.over]
        if not going:
            return False
        for key in self.rng.sample(going, self.rng.randint(1, len(going))):
            fails = self.rng.random() < 0.15
            phase = Phase.FAILED if fails else Phase.SUCCEEDED
            self.states.put(key, StepState(phase=phase, outputs={"x": str(key[1])}))
            self.ended.append(key)
        return True


@st.composite
def pipelines(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 8))
    steps = []
    for number in range(count):
        waits = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        parts: dict[str, Any] = {"outputs": [{"name": "x"}]}
        if draw(st.booleans()) and draw(st.booleans()):
            parts["forEach"] = {"items": list(range(draw(st.integers(0, 4))))}
            parts["parallelism"] = draw(st.integers(1, 3))
        if draw(st.integers(0, 5)) == 0:
            parts["continueOnFailure"] = True
        if waits and draw(st.integers(0, 4)) == 0:
            parts["when"] = f'steps.s{min(waits)}.status == "Succeeded"'
        steps.append(step(f"s{number}", *(f"s{one}" for one in sorted(waits)), **parts))
    spec: dict[str, Any] = {"steps": steps, "failurePolicy": draw(st.sampled_from(["FailFast", "Continue"]))}
    if draw(st.booleans()):
        spec["parallelism"] = draw(st.integers(1, 4))
    if draw(st.booleans()):
        spec["onExit"] = [step("end")]
    return spec


@given(pipelines(), st.integers(0, 1000), st.none() | st.integers(0, 6))
def test_random_graphs_run_in_order_each_step_once_and_come_to_an_end(
    spec: dict[str, Any], seed: int, cancelled_at: int | None
) -> None:
    assert pipeline_validation.check(spec, fields.Path("spec")) == []
    runtime = Runtime(random.Random(seed))
    waits = graphs.graph([*spec["steps"], *spec.get("onExit", ())])
    state = RunState(
        name="r", namespace="n", uid="u", spec=spec, parameters={}, steps=Progress(), started_at=0, waits=waits
    )
    most = spec.get("parallelism") or 10**9
    for turn in range(200):
        # a leader that has just begun sees the same objects and decides the same
        seen = replace(state, steps=runtime.states, cancel=cancelled_at is not None and turn >= cancelled_at)
        decision = engine.decide(seen, now=1)
        assert decision == engine.decide(replace(seen, steps=Progress(runtime.states)), now=1)
        if decision.phase.over:
            break
        runtime.apply(decision)
        assert sum(not one.phase.over for one in runtime.states.values()) <= most
        if not decision.make and not runtime.advance():
            assert decision.stop, "nothing goes on and nothing happens"
        elif random.Random(turn).random() < 0.5:
            runtime.advance()
    else:
        raise AssertionError("the run never ends")
    assert all(one.phase.over for one in runtime.states.values())
    for name, _ in runtime.begun:
        for other in waits.get(name, ()):
            # everybody before has ended, or was never to run
            assert not any(key[0] == other and key not in runtime.ended for key in runtime.begun)
    assert len(runtime.begun) == len(set(runtime.begun))
    if spec.get("onExit"):
        assert ("end", None) in runtime.states
    failed = {name for (name, _), one in runtime.states.items() if one.phase is Phase.FAILED}
    forgiven = {one["name"] for one in spec["steps"] if one.get("continueOnFailure")}
    if decision.phase is RunPhase.SUCCEEDED:
        assert failed <= forgiven


def test_ten_thousand_items_are_decided_on_in_portions() -> None:
    wide = step("a", forEach={"items": list(range(10_000))})
    states: dict[StepKey, StepState] = {}
    while new := engine.decide(run(wide, states=states), now=1).make:
        assert len(new) <= engine.MOST_AT_ONCE
        states |= dict.fromkeys((one.key for one in new), SUCCEEDED)
    assert len(states) == 10_000
    assert engine.decide(run(wide, states=states), now=1).phase is RunPhase.SUCCEEDED
