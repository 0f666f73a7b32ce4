"""Pipelines written as functions: the objects that come of them, and what cannot be written."""

import functools
import json
import os
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import rota
from rota.api.pipelines import expressions
from rota.python import task_runner
from rota.python.promises import Promise


@rota.task
def cities(count: int) -> list[str]:
    return ["Oslo", "Lima", "Rio"][:count]


@rota.task(retries=2, timeout=60, cpu=0.1, labels={"team": "a"})
def visit(city: str, greeting: str = "hello") -> str:
    return f"{greeting} {city}"


@rota.task
def gather(visits: list[str], more: dict[str, Any] | None = None) -> str:
    return ", ".join(visits)


@rota.task
def tidy(status: str) -> None: ...


@rota.pipeline(schedule="0 6 * * *", time_zone="Europe/Oslo", parallelism=4, timeout=600, failure_policy="continue")
def report(count: int = 2, mode: Literal["quick", "full"] = "quick") -> str:
    found = cities(count)
    visits = visit.each(found)
    extra = visit.step(when=mode == "full", name="extra", after=[found])("Bern")
    with rota.on_exit():
        tidy(rota.run_status())
    return gather(visits, more={"nested": [extra]})


def _step(spec: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in [*spec["steps"], *spec.get("onExit", [])] if one["name"] == name)
    return found


def _bare(step: dict[str, Any]) -> dict[str, Any]:
    """A step without the code in it."""
    return {name: value for name, value in step.items() if name != "template"}


def test_a_pipeline_is_what_a_person_would_have_written() -> None:
    made = report.manifest()
    assert (made["apiVersion"], made["kind"], made["metadata"]["name"]) == ("rota.dev/v1alpha1", "Pipeline", "report")
    spec = made["spec"]
    assert {name: value for name, value in spec.items() if name not in {"steps", "onExit"}} == yaml.safe_load("""
        parameters:
        - {name: count, default: "2"}
        - {name: mode, default: quick, choices: [quick, full]}
        parallelism: 4
        timeoutSeconds: 600
        failurePolicy: Continue
        schedule: {cron: "0 6 * * *", timeZone: Europe/Oslo}
    """)
    assert [_bare(one) for one in spec["steps"]] == yaml.safe_load("""
        - {name: cities, outputs: [{name: result}, {name: signature}, {name: items}, {name: items-signature}]}
        - name: visit
          outputs: [{name: result}, {name: signature}]
          forEach: {from: "{{ steps.cities.outputs.items }}"}
          retries: {limit: 2, initialSeconds: 1}
          timeoutSeconds: 60
        - name: extra
          outputs: [{name: result}, {name: signature}]
          dependsOn: [cities]
          when: parameters.mode == "full"
          retries: {limit: 2, initialSeconds: 1}
          timeoutSeconds: 60
        - {name: gather, outputs: [{name: result}, {name: signature}]}
    """)
    assert [one["name"] for one in spec["onExit"]] == ["tidy"]


def test_what_is_passed_on_stands_in_the_template_as_a_reference() -> None:
    spec = report.manifest()["spec"]
    template = _step(spec, "gather")["template"]
    assert template["metadata"]["annotations"] == {
        "rota.dev/value-0": "={{ steps.visit.outputs.result }}",
        "rota.dev/value-1": "={{ steps.extra.outputs.result }}",
        "rota.dev/proof-0": "visit result {{ run.uid }} {{ steps.visit.outputs.signature }}",
        "rota.dev/proof-1": "extra result {{ run.uid }} {{ steps.extra.outputs.signature }}",
        "rota.dev/proof-scope": "{{ run.uid }}",
    }
    container = template["spec"]["containers"][0]
    assert {
        "name": "ROTA_VALUE_1",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['rota.dev/value-1']"}},
    } in (container["env"])
    header = json.loads(next(one["value"] for one in container["env"] if one["name"] == "ROTA_TASK"))
    assert header["values"] == ["values", "value"]
    assert _step(spec, "visit")["template"]["metadata"]["labels"] == {"team": "a"}
    assert _step(spec, "cities")["template"]["metadata"]["annotations"] == {
        "rota.dev/value-0": "={{ parameters.count }}",
        "rota.dev/proof-scope": "{{ run.uid }}",
    }


def test_the_graph_follows_what_is_passed_on() -> None:
    assert report.graph().splitlines() == [
        "cities",
        "tidy",
        "  visit  <- cities",
        "  extra  <- cities",
        "    gather  <- extra, visit",
    ]


def test_yaml_says_the_same() -> None:
    assert yaml.safe_load(report.to_yaml()) == report.manifest()


def test_a_pipeline_can_be_called_here() -> None:
    assert report(count=2) == "hello Oslo, hello Lima"


def test_a_pipeline_within_another_adds_its_steps() -> None:
    @rota.pipeline
    def outer() -> str:
        return visit(report(3))

    steps = [one["name"] for one in outer.manifest()["spec"]["steps"]]
    assert steps == ["cities", "visit", "extra", "gather", "visit-2"]


def test_anything_that_can_be_called_can_be_a_step() -> None:
    @rota.pipeline
    def odd() -> None:
        rota.task(functools.partial(visit.function, greeting="hei"))("Oslo")
        rota.task(len)("Oslo")

    assert [one["name"] for one in odd.manifest()["spec"]["steps"]] == ["step", "len"]


def test_lists_that_are_known_are_items_whatever_they_hold() -> None:
    @rota.pipeline
    def many(greeting: str) -> list[str]:
        first = visit("Rio")
        return visit.each(["{{ a }} $(B)", first, "Oslo"], [greeting, "b", "c"])

    items = _step(many.manifest()["spec"], "visit-2")["forEach"]["items"]
    assert items[0] == {"0": {"value": '"{\\u007b a }} $(B)"', "proof": "   "}, "1": "{{ parameters.greeting }}"}
    assert task_runner.read(items[0]["0"]["value"]) == "{{ a }} $(B)"
    assert items[1]["0"] == {
        "value": "{{ steps.visit.outputs.result }}",
        "proof": "visit result {{ run.uid }} {{ steps.visit.outputs.signature }}",
    }


_ANSWERS = st.integers() | st.text(max_size=5) | st.booleans() | st.none() | st.lists(st.text(max_size=2), max_size=2)


@pytest.mark.slow
@given(_ANSWERS, _ANSWERS)
def test_a_comparison_holds_when_the_pipeline_runs_as_it_would_here(found: Any, wanted: Any) -> None:
    if type(found) is not type(wanted):
        return  # texts and numbers that look alike are the same to a pipeline
    promise = Promise(None, "steps.a.outputs.result", kind="value")

    def holds(condition: Any) -> bool:
        return expressions.condition(condition.text).holds(lambda _: task_runner.write(found))

    assert holds(promise == wanted) is (found == wanted)
    assert holds(promise != wanted) is (found != wanted)
    assert holds(~(promise == wanted) | (promise == wanted)) is True
    assert holds(promise.is_in([wanted])) is (found == wanted)


# --- what cannot be written -------------------------------------------------------------------------------------------


def _refused(body: Any, kind: type[Exception] = rota.PipelineError) -> str:
    with pytest.raises(kind) as caught:
        rota.pipeline(name="wrong")(body).manifest()
    return str(caught.value)


def test_values_that_are_not_there_yet_cannot_be_looked_at() -> None:
    def branch(count: int = 1) -> None:
        if count:
            cities(1)

    def loop() -> None:
        for city in cities(1):
            visit(city)

    def look() -> None:
        visit(cities(1)[0])

    def ask() -> None:
        visit(cities(1).count)  # type: ignore[arg-type] # on purpose

    def write(bucket: str = "a") -> None:
        visit(f"{bucket}/b")

    assert "have a step make the text that it belongs into" in _refused(write, TypeError)
    assert "parameters.count is not there while the pipeline is written: use fn.step(when" in _refused(
        branch, TypeError
    )
    assert "use fn.map(...) or fn.each(...)" in _refused(loop, TypeError)
    assert "have a step take 0 out of it" in _refused(look, TypeError)
    assert "have a step take it out" in _refused(ask, AttributeError)


def test_wrong_calls_are_refused_where_they_stand() -> None:
    def wrong() -> None:
        visit("Oslo", volume=3)  # type: ignore[call-arg] # on purpose

    with pytest.raises(TypeError, match="unexpected keyword argument 'volume'") as caught:
        rota.pipeline(wrong).manifest()
    assert any(entry.name == "wrong" for entry in caught.traceback), "the traceback leads to the line"


def test_unknown_parameters_are_refused_by_name() -> None:
    with pytest.raises(rota.PipelineError, match="report has no parameter cuont; there are count, mode"):
        report.run(None, cuont=3)  # type: ignore[call-arg] # on purpose
    with pytest.raises(rota.PipelineError, match="the parameter count is a int, and '3' is none"):
        report.run(None, count="3")  # type: ignore[arg-type] # on purpose
    with pytest.raises(rota.PipelineError, match="mode is one of quick, full, and not slow"):
        report.run(None, mode="slow")  # type: ignore[arg-type] # on purpose


def test_other_mistakes_have_words_too() -> None:
    escaped: list[Any] = []

    @rota.pipeline
    def first() -> None:
        escaped.append(cities(1))

    first.manifest()

    def mixed() -> None:
        visit(escaped[0])

    def condition() -> None:
        visit.step(when="always")("Oslo")

    def after() -> None:
        visit.step(after=["cities"])("Oslo")

    def submitted() -> None:
        visit.submit("Oslo")

    def empty() -> None: ...

    def large() -> None:
        gather([os.urandom(80_000).hex()])

    def starred(*names: str) -> None: ...

    assert "belongs to another pipeline" in _refused(mixed)
    assert "when='always' is no condition" in _refused(condition)
    assert "after='cities' is no step" in _refused(after)
    assert "submit in a pipeline; call it" in _refused(submitted)
    assert "a pipeline has at least one step" in _refused(empty)
    assert "KiB, and a step may have 64" in _refused(large, rota.TooLarge)
    assert "*names cannot be a parameter" in _refused(starred)
    with pytest.raises(rota.PipelineError, match="a step has no option then"):
        visit.step(then=1)  # type: ignore[call-arg] # on purpose
    with pytest.raises(rota.PipelineError, match="a pipeline has no option cron"):
        rota.pipeline(cron="* * * * *")  # type: ignore[call-overload] # on purpose


def test_notebooks_show_pictures_and_nothing_but() -> None:
    assert report._repr_html_().startswith("<div><svg")
    assert "<script>" not in visit.options(priority="<script>")._repr_html_()
