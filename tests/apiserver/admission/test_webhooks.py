"""Webhooks: what they see and change, and that one that hangs, dies, lies or loops harms only what it guards."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

import pytest

from rota.api.identifiers import GroupResource
from rota.apiserver.admission import webhook_client
from rota.apiserver.interfaces import Attributes, Object
from rota.apiserver.subresources import bindings
from rota.testing.api import Answer, ApiServer
from rota.testing.webhook_server import Said, WebhookServer

_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
_MAPS = "/api/v1/namespaces/default/configmaps"
_PODS = "/api/v1/namespaces/default/pods"
_RULE: dict[str, Any] = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}
_PATIENCE_S = 60.0


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def hook() -> AsyncIterator[WebhookServer]:
    async with WebhookServer("hook.default.svc") as server:
        yield server


def _webhook(server: WebhookServer, name: str = "one", **declared: Any) -> dict[str, Any]:
    return {
        "name": f"{name}.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": server.client_config(f"/{name}"),
        "rules": [_RULE],
        **declared,
    }


async def _configure(api: ApiServer, *webhooks: Mapping[str, Any], mutating: bool = False, name: str = "it") -> None:
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    body = {"kind": kind, "metadata": {"name": name}, "webhooks": list(webhooks)}
    answer = await api.post(f"{_REGISTRATION}/{kind.lower()}s", body)
    assert answer.code == 201, answer
    assert answer.warnings == []


def _map(name: str = "m", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def _pod(name: str = "p") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def _patch(*operations: Mapping[str, Any]) -> dict[str, Any]:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


def _deny(_: dict[str, Any]) -> Said:
    return {"allowed": False, "status": {"message": "no"}}


async def test_webhooks_see_each_others_changes_and_earlier_ones_are_called_again(
    api: ApiServer, hook: WebhookServer
) -> None:
    """The first asks to be called again, the second does not; the second changes something in the first round only."""

    def answer(review: dict[str, Any]) -> Said:
        data = review["request"]["object"]["data"]
        if "first" not in data:
            return _patch({"op": "add", "path": "/data/first", "value": "1"})
        if "second" not in data:
            return _patch({"op": "add", "path": "/data/second", "value": "1"})
        return _patch({"op": "add", "path": "/data/again", "value": "1"})

    hook.answer = answer
    first, second = _webhook(hook, "a", reinvocationPolicy="IfNeeded"), _webhook(hook, "b")
    await _configure(api, first, second, mutating=True)
    made = await api.post(_MAPS, _map(x="y"))
    assert made.json["data"] == {"x": "y", "first": "1", "second": "1", "again": "1"}
    assert len(hook.reviews) == 3


async def test_a_container_that_a_webhook_adds_gets_the_servers_defaults(api: ApiServer, hook: WebhookServer) -> None:
    limits = {
        "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "100m"}}]},
    }
    assert (await api.post("/api/v1/namespaces/default/limitranges", limits)).code == 201
    hook.answer = lambda _: _patch({"op": "add", "path": "/spec/containers/-", "value": {"name": "d", "image": "j"}})
    rule = {**_RULE, "resources": ["pods"], "operations": ["CREATE"]}
    await _configure(api, _webhook(hook, rules=[rule]), mutating=True)
    pod = (await api.post(_PODS, _pod())).json
    added = pod["spec"]["containers"][1]
    assert (added["name"], added["resources"], added["imagePullPolicy"]) == (
        "d",
        {"requests": {"cpu": "100m"}},
        "Always",
    )


async def test_pods_are_reviewed_although_templates_of_them_are_known(api: ApiServer, hook: WebhookServer) -> None:
    for number in range(4):
        assert (await api.post(_PODS, _pod(f"before-{number}"))).code == 201
    hook.answer = _deny
    await _configure(api, _webhook(hook, rules=[{**_RULE, "resources": ["pods"]}]))
    refused = await api.post(_PODS, _pod("after"))
    assert (refused.code, refused.json["message"]) == (
        400,
        'admission webhook "one.example.com" denied the request: no',
    )
    batch = await api.post(_PODS, {"kind": "PodList", "items": [_pod("many")]}, batch="true")
    assert [one["status"]["code"] for one in batch.json["verdicts"]] == [400]
    await api.delete(f"{_REGISTRATION}/validatingwebhookconfigurations/it")
    assert (await api.post(_PODS, _pod("after"))).code == 201


async def test_bindings_evictions_and_connections_are_reviewed(hook: WebhookServer) -> None:
    async with ApiServer(conflict_check=False) as api:
        for name in ("p", "q"):
            assert (await api.post(_PODS, _pod(name))).code == 201
        hook.answer = _deny
        parts = ["pods/binding", "pods/eviction", "pods/exec"]
        await _configure(api, _webhook(hook, rules=[{**_RULE, "resources": parts}]))
        binding = {"metadata": {"name": "p"}, "target": {"name": "n"}}
        assert (await api.post(f"{_PODS}/p/binding", binding)).code == 400
        assert (await api.post(f"{_PODS}/p/eviction", {"metadata": {"name": "p"}})).code == 400
        assert (await api.post(f"{_PODS}/p/exec", b"", command="ls", stdout="true")).code == 400
        assert [one["request"]["operation"] for one in hook.reviews] == ["CREATE", "CREATE", "CONNECT"]
        assert hook.reviews[2]["request"]["object"] == {
            "kind": "PodExecOptions",
            "apiVersion": "v1",
            "command": ["ls"],
            "stdout": True,
        }
        hook.answer = lambda review: {"allowed": review["request"]["name"] == "q"}
        path = f"/apis/rota.dev/v1alpha1/{bindings.BATCHES.plural}"
        many = [{"metadata": {"namespace": "default", "name": one}, "target": {"name": "n"}} for one in ("p", "q")]
        atomic = await api.post(path, {"bindings": many, "atomic": True})
        assert (atomic.json["bound"], [one["status"]["code"] for one in atomic.json["verdicts"]]) == (0, [400, 409])
        batch = await api.post(path, {"bindings": many})
        assert (batch.json["bound"], [one["status"]["code"] for one in batch.json["verdicts"]]) == (1, [400, 201])
        assert (await api.get(f"{_PODS}/q")).json["spec"]["nodeName"] == "n"
        assert "nodeName" not in (await api.get(f"{_PODS}/p")).json["spec"]


async def test_a_webhook_sees_the_parameters_that_a_connection_is_made_with(
    api: ApiServer, hook: WebhookServer
) -> None:
    assert (await api.post(_PODS, _pod())).code == 201
    await _configure(api, _webhook(hook, rules=[{**_RULE, "resources": ["pods/exec"]}]))
    hook.answer = _deny
    query = "container=c&container=other&tty=0&tty=1&stdout=1&stdin=&command=ls"
    assert (await api.post(f"{_PODS}/p/exec?{query}", b"")).code == 400
    seen = hook.reviews[0]["request"]["object"]
    assert {name: item for name, item in seen.items() if name not in ("kind", "apiVersion")} == {
        "container": "c",
        "command": ["ls"],
        "stdout": True,
    }


async def test_a_webhook_that_changes_a_connection_is_an_error(api: ApiServer, hook: WebhookServer) -> None:
    assert (await api.post(_PODS, _pod())).code == 201
    hook.answer = lambda _: _patch({"op": "replace", "path": "/command", "value": ["true"]})
    await _configure(api, _webhook(hook, rules=[{**_RULE, "resources": ["pods/exec"]}]), mutating=True)
    refused = await api.post(f"{_PODS}/p/exec", b"", command="ls", stdout="true")
    assert refused.code == 500
    assert "has changed the parameters of a connection" in refused.json["message"]


async def test_a_service_is_called_at_a_ready_endpoint(api: ApiServer, hook: WebhookServer) -> None:
    service = {"metadata": {"name": "hook"}, "spec": {"ports": [{"name": "https", "port": 443}]}}
    assert (await api.post("/api/v1/namespaces/default/services", service)).code == 201
    client = {"service": {"namespace": "default", "name": "hook", "path": "/x"}, "caBundle": hook.bundle}
    await _configure(api, _webhook(hook, clientConfig=client))
    missing = await api.post(_MAPS, _map())
    url = "https://hook.default.svc:443/x?timeout=10s"
    why = f'failed to call webhook: Post "{url}": no endpoints available for service "hook"'
    assert missing.json["message"] == f'Internal error occurred: failed calling webhook "one.example.com": {why}'
    slices = {
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": hook.port}],
        "endpoints": [
            {"addresses": ["192.0.2.1"], "conditions": {"ready": False}},
            {"addresses": ["127.0.0.1"], "conditions": {"ready": True}},
        ],
    }
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    assert (await api.post(path, slices)).code == 201
    assert (await api.post(_MAPS, _map())).code == 201
    assert len(hook.reviews) == 1


async def test_configurations_are_exempt(api: ApiServer, hook: WebhookServer) -> None:
    hook.answer = _deny
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
    await _configure(api, _webhook(hook, rules=[everything]))
    assert (await api.post(_MAPS, _map())).code == 400
    await _configure(api, _webhook(hook), name="other")
    assert (await api.delete(f"{_REGISTRATION}/validatingwebhookconfigurations/other")).code == 200
    assert (await api.delete(f"{_REGISTRATION}/validatingwebhookconfigurations/it")).code == 200
    assert (await api.post(_MAPS, _map())).code == 201


async def test_custom_objects_are_pruned_and_defaulted_after_a_change(api: ApiServer, hook: WebhookServer) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "given"}},
            }
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    assert (await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)).code == 201
    hook.answer = lambda _: _patch({"op": "add", "path": "/spec", "value": {"a": "x", "unknown": 1}})
    rule = {"apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["things"], "operations": ["CREATE"]}
    await _configure(api, _webhook(hook, rules=[rule]), mutating=True)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    path = "/apis/example.com/v1/namespaces/default/things"
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            answer = await api.post(path, thing)
            if answer.code != 404:
                break
            await asyncio.sleep(0.05)
    assert answer.json["spec"] == {"a": "x", "b": "given"}, answer


async def test_one_that_hangs_harms_only_what_it_guards(
    api: ApiServer, hook: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_client, "MOST_CALLS", 2)
    monkeypatch.setattr(webhook_client, "MOST_WAITING", 0)
    ended, asked = asyncio.Event(), asyncio.Semaphore(0)

    async def hang(_: dict[str, Any]) -> Said:
        asked.release()
        await ended.wait()
        return {"allowed": True}

    hook.answer = hang
    await _configure(api, _webhook(hook, timeoutSeconds=30))
    waiting = [asyncio.create_task(api.post(_MAPS, _map(f"m{number}"))) for number in range(2)]
    async with asyncio.timeout(_PATIENCE_S):
        for _ in range(2):
            await asked.acquire()
        # Two are under way: the next fails at once, and other kinds are not concerned.
        refused = await api.post(_MAPS, _map("late"))
        assert (refused.code, refused.json["reason"]) == (500, "InternalError")
        assert "2 calls are under way and 0 requests wait for it" in refused.json["message"]
        assert (await api.post(_PODS, _pod())).code == 201
        ended.set()
        answers: list[Answer] = await asyncio.gather(*waiting)
    assert [one.code for one in answers] == [201] * 2


async def test_one_that_calls_the_server_again_ends(
    api: ApiServer, hook: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook that writes what it guards asks itself; the number of its calls bounds that."""
    monkeypatch.setattr(webhook_client, "MOST_CALLS", 3)
    monkeypatch.setattr(webhook_client, "MOST_WAITING", 0)

    async def loop(review: dict[str, Any]) -> Said:
        answer = await api.post(_MAPS, _map(f"{review['request']['name']}-x"))
        return {"allowed": answer.code == 201, "status": {"message": answer.json.get("message", "")}}

    hook.answer = loop
    await _configure(api, _webhook(hook, timeoutSeconds=30))
    async with asyncio.timeout(_PATIENCE_S):
        answer = await api.post(_MAPS, _map("m"))
    assert answer.code == 400
    assert "3 calls are under way" in answer.json["message"]
    assert len(hook.reviews) == 3
    stored = [one["metadata"]["name"] for one in (await api.get(_MAPS)).json["items"]]
    assert not [name for name in stored if name.startswith("m")]


async def test_one_whose_answer_is_too_long_fails(api: ApiServer, hook: WebhookServer) -> None:
    hook.answer = lambda _: {"allowed": True, "warnings": ["x" * (5 * 1024 * 1024)]}
    await _configure(api, _webhook(hook))
    answer = await api.post(_MAPS, _map())
    assert (answer.code, "more than 4194304 bytes" in answer.json["message"]) == (500, True)


class _Noting:
    """An admission plugin that keeps the audit annotations of requests."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self) -> None:
        self.seen: list[dict[str, str]] = []

    async def admit(self, at: Attributes, _: Object | None, __: Object | None, /) -> None:
        self.seen.append(dict(at.annotations))


async def test_what_a_webhook_says_is_audited(hook: WebhookServer) -> None:
    noting = _Noting()
    async with ApiServer(admission=(noting,)) as api:
        patch = _patch({"op": "add", "path": "/data/b", "value": "1"})
        hook.answer = lambda _: {**patch, "auditAnnotations": {"k": "v"}}
        await _configure(api, _webhook(hook), mutating=True)
        assert (await api.post(_MAPS, _map(a="1"))).code == 201
    assert noting.seen[-1] == {
        "one.example.com/k": "v",
        "mutation.webhook.admission.k8s.io/round_0_index_0": (
            '{"configuration":"it","webhook":"one.example.com","mutated":true}'
        ),
    }


def test_a_bundle_without_authorities_is_refused() -> None:
    """The authorities of the machine would be trusted instead."""
    for bundle in ("!!", " ", base64.b64encode(b"a").decode(), base64.b64encode("é".encode()).decode()):
        with pytest.raises(webhook_client.CallFailed, match="unable to parse bytes as PEM block"):
            webhook_client.trusting(bundle)


def test_comments_of_a_bundle_may_have_any_characters(hook: WebhookServer) -> None:
    bundle = base64.encodebytes("# Autorité\n".encode() + base64.b64decode(hook.bundle)).decode()
    assert webhook_client.trusting(bundle).cert_store_stats()["x509"] == 1
