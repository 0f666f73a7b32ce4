"""What is refused of a pipeline, and where."""

from typing import Any

import pytest

from rota.api import fields
from rota.api.pipelines import pipeline_validation

TEMPLATE = {"spec": {"containers": [{"name": "main", "command": ["true"]}]}}
SPEC = fields.Path("spec")


def step(name: str, **parts: Any) -> dict[str, Any]:
    return {"name": name, "template": TEMPLATE, **parts}


def complaints(**spec: Any) -> list[str]:
    return [f"{one.field}: {one.detail}" for one in pipeline_validation.check(spec, SPEC)]


def test_a_pipeline_that_uses_everything_is_fine() -> None:
    spec = {
        "parameters": [{"name": "rows", "default": "10"}, {"name": "model", "choices": ["a", "b"]}],
        "steps": [
            step("split", outputs=[{"name": "parts", "from": "stdout"}]),
            step("work", forEach={"from": "{{ steps.split.outputs.parts }}"}, env="{{ item }} {{ parameters.rows }}"),
            step("join", dependsOn=["work"], when='steps.work.status == "Succeeded" and parameters.model in ["a"]'),
        ],
        "onExit": [step("tell", env="{{ run.status }} {{ steps.join.status }} {{ workspace }}")],
        "failurePolicy": "Continue",
        "parallelism": 4,
    }
    assert pipeline_validation.check(spec, SPEC) == []


def test_a_gang_has_no_workspace() -> None:
    assert complaints(steps=[step("a", gang=2)]) == []
    [why] = complaints(steps=[step("a")], onExit=[step("b", gang=2)], workspace={})
    assert why.startswith("spec.onExit[0].gang: its pods may run on several nodes")


@pytest.mark.parametrize(
    ("steps", "where", "why"),
    [
        ([], "spec.steps", "at least one"),
        ([step("a"), step("a")], "spec.steps[1].name", ""),
        ([step("A_b")], "spec.steps[0].name", "lower case"),
        ([{"name": "a"}], "spec.steps[0].template", "not both"),
        ([{"name": "a", "template": TEMPLATE, "job": {"spec": {}}}], "spec.steps[0].template", "not both"),
        ([step("a", dependsOn=["b"])], "spec.steps[0].dependsOn[0]", ""),
        ([step("a", dependsOn=["b"]), step("b", dependsOn=["a"])], "spec.steps[0]", "a -> b -> a"),
        ([step("a", env="{{ parameters.x }}")], "spec.steps[0].env", "no parameter x"),
        ([step("a", env="{{ item }}")], "spec.steps[0].env", "forEach"),
        ([step("a", env="{{ steps.b.status }}")], "spec.steps[0].env", "no step b"),
        ([step("a"), step("b", env="{{ steps.a.outputs.x }}")], "spec.steps[1].env", "no output x"),
        ([step("a", env="{{ steps.a.status }}")], "spec.steps[0].env", "wait for itself"),
        ([step("a", env="{{ nothing }}")], "spec.steps[0].env", "there are parameters.NAME"),
        ([step("a", env="{{ oops( }}")], "spec.steps[0].env", "names no value"),
        ([step("a", when="parameters.x ==")], "spec.steps[0].when", "ends too early"),
        ([step("a", timeoutSeconds=0)], "spec.steps[0].timeoutSeconds", "at least 1"),
        ([step("a", near=["b"])], "spec.steps[0].near[0]", ""),
        ([step("a", gang=0)], "spec.steps[0].gang", "at least 1"),
        ([{"name": "a", "job": {"spec": {}}, "gang": 2}], "spec.steps[0].gang", "no job"),
        (
            [step("a", gang=2, template={"spec": {**TEMPLATE["spec"], "schedulerName": "default-scheduler"}})],
            "spec.steps[0].template.spec.schedulerName",
            "one by one",
        ),
        ([step("a", forEach={})], "spec.steps[0].forEach", "items or from"),
        ([step("a", forEach={"items": [], "from": "{{ run.name }}"})], "spec.steps[0].forEach", "not both"),
        ([step("a", retries={"limit": -1})], "spec.steps[0].retries.limit", "at least 0"),
        ([step("a", retries={"limit": 1, "factor": 0})], "spec.steps[0].retries.factor", "at least 1"),
        ([step("a", outputs=[{"name": "x", "from": "air"}])], "spec.steps[0].outputs[0].from", ""),
    ],
)
def test_errors_name_their_path(steps: list[dict[str, Any]], where: str, why: str) -> None:
    told = complaints(steps=steps)
    assert len(told) == 1, told
    assert told[0].startswith(f"{where}: ")
    assert why in told[0]


def test_a_circle_through_what_steps_mention_is_one_too() -> None:
    steps = [step("a", when='steps.b.status == "Failed"'), step("b", dependsOn=["a"])]
    assert "a -> b -> a" in complaints(steps=steps)[0]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([{"name": "model", "value": "a"}], ""),
        ([{"name": "model", "value": "c"}], "values[0].value"),
        ([{"name": "model", "value": "a"}, {"name": "model", "value": "b"}], "values[1].name"),
        ([{"name": "model", "value": "a"}, {"name": "x", "value": "b"}], "the pipeline has model, rows"),
        ([], "values[model]"),
    ],
)
def test_a_run_gives_values_to_the_parameters_that_there_are(given: list[dict[str, Any]], why: str) -> None:
    spec = {"parameters": [{"name": "rows", "default": "10"}, {"name": "model", "choices": ["a", "b"]}]}
    told = [
        f"{one.field}: {one.detail}" for one in pipeline_validation.check_values(spec, given, fields.Path("values"))
    ]
    assert len(told) == bool(why)
    assert why in "".join(told)
