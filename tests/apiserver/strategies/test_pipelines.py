"""Validation of pipelines and their runs, and how they are printed."""

from typing import Any

import pytest

from rota.controllers.pipelines.states import Phase, RunPhase
from rota.testing.api import ApiServer

GROUP = "/apis/rota.dev/v1alpha1/namespaces/default"
STEP = {"name": "a", "template": {"spec": {"containers": [{"name": "main", "command": ["true"]}]}}}


def pipeline(*steps: Any, **spec: Any) -> dict[str, Any]:
    return {"kind": "Pipeline", "metadata": {"name": "p"}, "spec": {"steps": list(steps) or [STEP], **spec}}


def run(**spec: Any) -> dict[str, Any]:
    return {"kind": "PipelineRun", "metadata": {"name": "r"}, "spec": spec}


async def test_a_circle_is_refused_with_its_place(api: ApiServer) -> None:
    steps = [{**STEP, "name": "a", "dependsOn": ["b"]}, {**STEP, "name": "b", "dependsOn": ["a"]}]
    answer = await api.post(f"{GROUP}/pipelines", pipeline(*steps))
    assert answer.code == 422
    [cause] = answer.json["details"]["causes"]
    assert cause["field"] == "spec.steps[0]"
    assert "a -> b -> a" in cause["message"]


@pytest.mark.parametrize(
    ("schedule", "field"),
    [
        ({"cron": "never"}, "spec.schedule.cron"),
        ({"cron": "@daily", "concurrencyPolicy": "Maybe"}, "spec.schedule.concurrencyPolicy"),
        ({"cron": "@daily", "timeZone": "Mars/Olympus"}, "spec.schedule.timeZone"),
        ({"cron": "@daily", "parameters": [{"name": "x", "value": "1"}]}, "spec.schedule.parameters[0].name"),
    ],
)
async def test_a_schedule_that_cannot_be_kept_is_refused(api: ApiServer, schedule: Any, field: str) -> None:
    answer = await api.post(f"{GROUP}/pipelines", pipeline(schedule=schedule))
    assert answer.code == 422
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [field]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.pipeline"),
        ({"pipeline": "p", "pipelineSpec": {"steps": [STEP]}}, "spec.pipeline"),
        ({"pipelineSpec": {"steps": [{**STEP, "dependsOn": ["x"]}]}}, "spec.pipelineSpec.steps[0].dependsOn[0]"),
        ({"pipelineSpec": {"steps": [STEP], "parameters": [{"name": "n"}]}}, "spec.parameters[n]"),
        ({"pipeline": "No!"}, "spec.pipeline"),
        ({"pipeline": "p", "ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished"),
    ],
)
async def test_a_run_that_could_not_begin_is_refused(api: ApiServer, spec: Any, field: str) -> None:
    answer = await api.post(f"{GROUP}/pipelineruns", run(**spec))
    assert answer.code == 422
    assert [cause["field"] for cause in answer.json["details"]["causes"]] == [field]


async def test_a_run_can_be_suspended_cancelled_and_tried_again_but_not_become_another(api: ApiServer) -> None:
    assert (await api.post(f"{GROUP}/pipelineruns", run(pipeline="p"))).code == 201
    path = f"{GROUP}/pipelineruns/r"
    for change, code in (
        ({"suspend": True}, 200),
        ({"cancel": True}, 200),
        ({"cancel": False}, 422),
        ({"cancel": False, "retry": 1}, 200),
        ({"retry": 0}, 422),
        ({"pipeline": "q"}, 422),
        ({"parameters": [{"name": "x", "value": "1"}]}, 422),
    ):
        assert (await api.patch(path, {"spec": change})).code == code, change


async def test_a_step_run_can_be_stopped_and_nothing_else(api: ApiServer) -> None:
    spec = {"run": "r", "step": "a", "template": STEP["template"]}
    made = {"kind": "StepRun", "metadata": {"name": "r-a"}, "spec": spec}
    assert (await api.post(f"{GROUP}/stepruns", made)).code == 201
    path = f"{GROUP}/stepruns/r-a"
    assert (await api.patch(path, {"spec": {"cancel": True}})).code == 200
    assert (await api.patch(path, {"spec": {"step": "b"}})).code == 422


async def test_a_step_run_of_nothing_is_refused(api: ApiServer) -> None:
    assert (await api.post(f"{GROUP}/stepruns", {"kind": "StepRun", "metadata": {"name": "x"}})).code == 422


async def test_only_phases_that_controllers_know_are_written(api: ApiServer) -> None:
    await api.post(f"{GROUP}/pipelineruns", run(pipeline="p"))
    spec = {"run": "r", "step": "a", "template": STEP["template"]}
    await api.post(f"{GROUP}/stepruns", {"kind": "StepRun", "metadata": {"name": "r-a"}, "spec": spec})
    for path, phases in ((f"{GROUP}/pipelineruns/r/status", RunPhase), (f"{GROUP}/stepruns/r-a/status", Phase)):
        for phase in phases:
            assert (await api.patch(path, {"status": {"phase": phase.value}})).code == 200
        refused = await api.patch(path, {"status": {"phase": "Dreaming"}})
        assert (refused.code, refused.json["details"]["causes"][0]["field"]) == (422, "status.phase")


async def test_a_status_is_written_through_its_own_door_and_shown(api: ApiServer) -> None:
    await api.post(f"{GROUP}/pipelineruns", run(pipeline="p"))
    status = {
        "phase": "Running",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T00:01:30Z",
        "counts": {"succeeded": 3, "cached": 1, "waiting": 4, "failed": 0},
    }
    await api.patch(f"{GROUP}/pipelineruns/r/status", {"status": status})
    shown = await api.get(f"{GROUP}/pipelineruns", accept="application/json;as=Table;g=meta.k8s.io;v=v1")
    assert shown.json["rows"][0]["cells"][:6] == ["r", "p", "Running", "4/8", 0, "90s"]
