"""Webhooks, rules in Python, and the generic reading of kinds without a rule."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from rota.federation.customization.entry_points import PythonRules
from rota.federation.customization.interpreter import Interpreter
from rota.federation.customization.operations import CannotInterpret
from rota.federation.customization.webhooks import Webhooks
from rota.federation.interpreters import generic

KIND = ("example.org/v1", "Thing")
THING: dict[str, Any] = {
    "apiVersion": KIND[0],
    "kind": KIND[1],
    "metadata": {"name": "a", "namespace": "n", "generation": 3},
    "spec": {"size": 4, "replicas": 1},
}


def encoded(*operations: dict[str, Any]) -> str:
    return base64.b64encode(json.dumps(operations).encode()).decode()


class Hook:
    """A webhook server that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {
            "InterpretReplica": {"replicas": 4, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
            "ReviseReplica": {
                "patchType": "JSONPatch",
                "patch": encoded({"op": "replace", "path": "/spec/size", "value": 9}),
            },
            "Retain": {},
            "InterpretHealth": {"healthy": False},
            "InterpretStatus": {"rawStatus": {"seen": True}},
            "InterpretDependency": {
                "dependencies": [{"apiVersion": "v1", "kind": "Secret", "namespace": "n", "name": "s"}]
            },
            "InterpretComponent": {"components": [{"name": "x", "replicas": 1}]},
            "AggregateStatus": {
                "patchType": "JSONPatch",
                "patch": encoded({"op": "add", "path": "/status", "value": {"sum": 5}}),
            },
        }

    async def handle(self, request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        self.asked.append(asked)
        response = {"uid": asked["uid"], "successful": True, **self.answers[asked["operation"]]}
        return web.json_response({"response": response})


@pytest.fixture
async def hook() -> AsyncIterator[tuple[Hook, Interpreter]]:
    made = Hook()
    application = web.Application()
    application.router.add_post("/interpret", made.handle)
    async with TestServer(application) as server:
        configuration = {
            "metadata": {"name": "things"},
            "webhooks": [
                {
                    "name": "things.example.org",
                    "clientConfig": {"url": str(server.make_url("/interpret"))},
                    "interpreterContextVersions": ["v1alpha1"],
                    "rules": [
                        {"operations": ["*"], "apiGroups": ["example.org"], "apiVersions": ["v1"], "kinds": ["Thing"]}
                    ],
                }
            ],
        }
        webhooks = Webhooks(lambda: [configuration])
        try:
            yield made, Interpreter([webhooks])
        finally:
            await webhooks.close()


async def test_webhooks_answer_every_operation(hook: tuple[Hook, Interpreter]) -> None:
    made, rules = hook
    assert await rules.replicas(THING) == (4, {"resourceRequest": {"cpu": "1"}})
    assert (await rules.revised(THING, 9))["spec"]["size"] == 9
    assert await rules.retained(THING, {**THING, "status": {}}) == THING
    assert await rules.health(THING) is False
    assert await rules.status(THING) == {"seen": True}
    assert [one["name"] for one in await rules.dependencies(THING)] == ["s"]
    assert await rules.components(THING) == [{"name": "x", "replicas": 1}]
    assert await rules.aggregated(THING, [{"clusterName": "m1"}], "") == {"sum": 5}
    revised, retained, aggregated = (made.asked[place] for place in (1, 2, 7))
    assert revised["replicas"] == 9
    assert revised["kind"] == {"group": "example.org", "version": "v1", "kind": "Thing"}
    assert retained["observedObject"]["status"] == {}
    assert aggregated["aggregatedStatus"] == [{"clusterName": "m1"}]
    # other kinds are not asked about
    assert await rules.replicas({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}}) == (1, None)
    assert len(made.asked) == 8


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"uid": "another"}, "not for this question"),
        ({"successful": False, "status": {"message": "no idea"}}, "no idea"),
        ({"replicas": "many"}, "no replicas"),
    ],
)
async def test_a_webhook_that_answers_wrongly_is_named(
    hook: tuple[Hook, Interpreter], answer: dict[str, Any], why: str
) -> None:
    made, rules = hook
    made.answers["InterpretReplica"] = answer
    with pytest.raises(CannotInterpret, match=why):
        await rules.replicas(THING)


async def test_a_long_answer_of_a_webhook_is_read_whole(hook: tuple[Hook, Interpreter]) -> None:
    made, rules = hook
    made.answers["InterpretStatus"] = {"rawStatus": {"log": "x" * (1 << 20)}}
    assert await rules.status(THING) == made.answers["InterpretStatus"]["rawStatus"]


async def test_rules_in_python_come_before_native_ones_and_failures_are_named() -> None:
    class Rule:
        kind = KIND

        def replicas(self, obj: dict[str, Any]) -> tuple[int, None]:
            return obj["spec"]["size"], None

        def healthy(self, obj: dict[str, Any]) -> bool:
            raise KeyError("status")

    rules = Interpreter([PythonRules([Rule()])])
    assert await rules.replicas(THING) == (4, None)
    assert await rules.components(THING) is None
    with pytest.raises(CannotInterpret, match="InterpretHealth of Thing n/a: KeyError"):
        await rules.health(THING)


DEFINITION = {
    "spec": {
        "versions": [
            {
                "name": "v1",
                "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
            }
        ]
    }
}


async def test_unknown_kinds_are_opaque_unless_asked_for() -> None:
    opaque = Interpreter(scale_paths=lambda kind: generic.scale_paths(DEFINITION, "v1"))
    assert await opaque.replicas(THING) is None
    assert await opaque.health({**THING, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}) is None
    assert await opaque.aggregated(THING, [{"clusterName": "a", "status": {"size": 1}}], "") is None


async def test_unknown_kinds_are_read_by_scale_generation_and_conditions() -> None:
    rules = Interpreter(reads_unknown=True, scale_paths=lambda kind: generic.scale_paths(DEFINITION, "v1"))
    assert await rules.replicas(THING) == (4, None)
    assert (await rules.revised(THING, 2))["spec"] == {"size": 2, "replicas": 1}

    def with_status(**status: Any) -> dict[str, Any]:
        return {**THING, "status": status}

    ready = [{"type": "Ready", "status": "True"}]
    assert await rules.health(with_status(conditions=ready, observedGeneration=3)) is True
    assert await rules.health(with_status(conditions=ready, observedGeneration=2)) is False
    assert await rules.health(with_status(conditions=[*ready, {"type": "Stalled", "status": "True"}])) is False
    assert await rules.health(with_status(phase="whatever")) is None
    items = [
        {"clusterName": "a", "status": {"size": 1, "version": "x", "conditions": ready}},
        {
            "clusterName": "b",
            "status": {
                "size": 2,
                "version": "x",
                "conditions": [{"type": "Ready", "status": "False", "message": "no"}],
            },
        },
    ]
    status = await rules.aggregated(THING, items, "now")
    assert status is not None
    assert (status["size"], status["version"]) == (3, "x")
    assert [(one["type"], one["status"], one["message"]) for one in status["conditions"]] == [
        ("Ready", "False", "b: no")
    ]
