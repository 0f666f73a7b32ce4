"""Conversion webhooks: objects in every version of their kind, and what happens if they cannot be converted."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rota.apiserver.conversion_webhooks import conversion_calls, conversion_reviews
from rota.testing.api import ApiServer
from rota.testing.webhook_server import Said, WebhookServer

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_GROUP = "/apis/stable.example.com"
_V1, _V2 = (f"{_GROUP}/{one}/namespaces/default/addresses" for one in ("v1", "v2"))


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with ApiServer() as server:
        yield server


@pytest.fixture
async def hook() -> AsyncIterator[WebhookServer]:
    async with WebhookServer("hook.default.svc") as server:
        server.answer = converting
        yield server


def _version(name: str, properties: dict[str, Any], *, storage: bool) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    columns = [{"name": one, "type": "string", "jsonPath": f".spec.{one}"} for one in properties]
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
        "selectableFields": [{"jsonPath": f".spec.{one}"} for one in properties],
        "subresources": {"status": {}},
    }


def definition(client: dict[str, Any], *, storage: str = "v1", **webhook: Any) -> dict[str, Any]:
    """Addresses: `hostPort` in version 1, `host` and `port` in version 2."""
    text = {"type": "string"}
    return {
        "metadata": {"name": "addresses.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {"plural": "addresses", "kind": "Address"},
            "versions": [
                _version("v1", {"hostPort": text}, storage=storage == "v1"),
                _version("v2", {"host": text, "port": {**text, "default": "80"}}, storage=storage == "v2"),
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"], **webhook},
            },
        },
    }


def converted(obj: dict[str, Any], api_version: str) -> dict[str, Any]:
    """An address in another version."""
    spec = obj.get("spec") or {}
    if api_version.endswith("/v2"):
        host, _, port = spec.get("hostPort", "").partition(":")
        new = {"host": host, "port": port}
    else:
        new = {"hostPort": f"{spec.get('host', '')}:{spec.get('port', '')}"}
    return {**obj, "apiVersion": api_version, "spec": new}


def converting(review: dict[str, Any]) -> Said:
    """Convert all objects of a review."""
    request = review["request"]
    found = [converted(one, request["desiredAPIVersion"]) for one in request["objects"]]
    return {"convertedObjects": found, "result": {"status": "Success"}}


def failing(message: str) -> Callable[[dict[str, Any]], Said]:
    return lambda _: {"convertedObjects": [], "result": {"status": "Failure", "message": message}}


def _address(name: str, version: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"stable.example.com/{version}",
        "kind": "Address",
        "metadata": {"name": name},
        "spec": spec,
    }


async def _define(api: ApiServer, body: dict[str, Any]) -> None:
    made = await api.post(_DEFINITIONS, body)
    assert made.code == 201, made
    await _served(api)


async def _served(api: ApiServer) -> None:
    await _answers(api, _V1, 200)


async def _answers(api: ApiServer, path: str, code: int) -> None:
    for _ in range(6000):
        if (await api.get(path)).code == code:
            return
        await api.clock.sleep(0.01)
    raise AssertionError(f"{path} does not answer {code}")


async def _redefine(api: ApiServer, body: dict[str, Any]) -> None:
    """Change the definition, and wait until the server has seen it: it warns of a version that is deprecated."""
    live = (await api.get(f"{_DEFINITIONS}/addresses.stable.example.com")).json
    mark = f"seen {live['metadata']['resourceVersion']}"
    for version in body["spec"]["versions"]:
        version |= {"deprecated": True, "deprecationWarning": mark}
    live["spec"] = body["spec"]
    changed = await api.put(f"{_DEFINITIONS}/addresses.stable.example.com", live)
    assert changed.code == 200, changed
    for _ in range(1000):
        if mark in str((await api.get(f"{_V1}/none")).warnings):
            return
        await api.clock.sleep(0.01)
    raise AssertionError("the definition is not in force")


async def _stored(api: ApiServer, name: str) -> dict[str, Any]:
    page = await api.store.list("/")
    (entry,) = [one for one in page.entries if one.key.endswith(f"addresses/default/{name}")]
    found: dict[str, Any] = json.loads(entry.value)
    return found


async def test_an_object_is_stored_in_one_version_and_served_in_each(api: ApiServer, hook: WebhookServer) -> None:
    await _define(api, definition(hook.client_config("/convert")))
    first = await api.post(_V1, _address("one", "v1", hostPort="a:1"))
    assert (first.code, hook.reviews) == (201, [])
    second = await api.post(_V2, _address("two", "v2", host="b", port="2"))
    assert (second.code, second.json["apiVersion"], second.json["spec"]) == (
        201,
        "stable.example.com/v2",
        {"host": "b", "port": "2"},
    )
    for name in ("one", "two"):
        assert (await _stored(api, name))["apiVersion"] == "stable.example.com/v1"
    assert (await _stored(api, "two"))["spec"] == {"hostPort": "b:2"}
    assert (await api.get(f"{_V1}/two")).json["spec"] == {"hostPort": "b:2"}
    read = (await api.get(f"{_V2}/one")).json
    assert read["spec"] == {"host": "a", "port": "1"}
    assert read["metadata"]["resourceVersion"] == first.json["metadata"]["resourceVersion"]
    assert read["metadata"]["uid"] == first.json["metadata"]["uid"]


async def test_a_list_is_converted_in_one_review_and_once(api: ApiServer, hook: WebhookServer) -> None:
    await _define(api, definition(hook.client_config("/convert")))
    for number in range(5):
        await api.post(_V1, _address(f"a{number}", "v1", hostPort=f"h{number}:{number}"))
    listed = (await api.get(_V2)).json
    assert [one["spec"]["host"] for one in listed["items"]] == ["h0", "h1", "h2", "h3", "h4"]
    assert listed["apiVersion"] == "stable.example.com/v2"
    assert [len(one["request"]["objects"]) for one in hook.reviews] == [5]
    chosen = (await api.get(_V2, fieldSelector="spec.host=h3")).json
    assert [one["metadata"]["name"] for one in chosen["items"]] == ["a3"]
    assert len(hook.reviews) == 1
    table = await api.get(_V2, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table.json["rows"][2]["cells"][1:] == ["h2", "2"]


async def test_changes_are_made_in_the_version_of_the_request(api: ApiServer, hook: WebhookServer) -> None:
    await _define(api, definition(hook.client_config("/convert")))
    await api.post(_V1, _address("one", "v1", hostPort="a:1"))
    patched = await api.patch(f"{_V2}/one", {"spec": {"port": "9"}})
    assert (patched.code, patched.json["spec"]) == (200, {"host": "a", "port": "9"})
    assert (await _stored(api, "one"))["spec"] == {"hostPort": "a:9"}
    status = await api.patch(f"{_V2}/one/status", {"status": {}})
    assert status.code == 200
    live = (await api.get(f"{_V2}/one")).json
    live["spec"]["host"] = "c"
    replaced = await api.put(f"{_V2}/one", live)
    assert (replaced.code, replaced.json["spec"]) == (200, {"host": "c", "port": "9"})
    dry = await api.put(f"{_V2}/one", {**replaced.json, "spec": {"host": "d", "port": "1"}}, dryRun="All")
    assert (dry.code, dry.json["spec"]) == (200, {"host": "d", "port": "1"})
    assert (await _stored(api, "one"))["spec"] == {"hostPort": "c:9"}
    assert (await api.delete(f"{_V2}/one")).code == 200
    assert (await api.get(f"{_V1}/one")).code == 404


async def test_an_apply_in_one_version_sees_the_owners_of_another(api: ApiServer, hook: WebhookServer) -> None:
    await _define(api, definition(hook.client_config("/convert")))
    first = _address("one", "v1", hostPort="a:1")
    assert (await api.patch(f"{_V1}/one", first, kind="apply", fieldManager="first")).code == 201
    other = _address("one", "v2", host="b", port="1")
    conflict = await api.patch(f"{_V2}/one", other, kind="apply", fieldManager="second")
    assert conflict.code == 409, conflict
    forced = await api.patch(f"{_V2}/one", other, kind="apply", fieldManager="second", force="true")
    assert (forced.code, forced.json["spec"]) == (200, {"host": "b", "port": "1"})
    owners = {one["manager"]: one["apiVersion"] for one in forced.json["metadata"]["managedFields"]}
    assert owners["second"] == "stable.example.com/v2"
    assert (await api.get(f"{_V1}/one")).json["spec"] == {"hostPort": "b:1"}


async def test_a_watch_shows_changes_in_its_version(api: ApiServer, hook: WebhookServer) -> None:
    await _define(api, definition(hook.client_config("/convert")))
    made = await api.post(_V1, _address("one", "v1", hostPort="a:1"))
    await api.patch(f"{_V1}/one", {"spec": {"hostPort": "b:2"}})
    await api.delete(f"{_V1}/one")
    since = str(int(made.json["metadata"]["resourceVersion"]) - 1)
    async with api.watch(_V2, resourceVersion=since) as events:
        seen = [await events.next() for _ in range(3)]
    assert [(one["type"], one["object"]["spec"]["host"]) for one in seen] == [
        ("ADDED", "a"),
        ("MODIFIED", "b"),
        ("DELETED", "b"),
    ]


async def test_a_webhook_that_fails_harms_only_what_it_must_convert(api: ApiServer, hook: WebhookServer) -> None:
    await _define(api, definition(hook.client_config("/convert")))
    made = await api.post(_V1, _address("one", "v1", hostPort="a:1"))
    hook.answer = failing("not today")
    refused = "conversion webhook for stable.example.com/v1, Kind=Address failed: not today"
    for path in (f"{_V2}/one", _V2):
        answer = await api.get(path)
        assert (answer.code, answer.json["message"]) == (500, refused)
    assert (await api.get(_V1)).json["items"][0]["spec"] == {"hostPort": "a:1"}
    assert (await api.post(_V2, _address("two", "v2", host="b"))).code == 500
    assert (await api.get(f"{_V1}/two")).code == 404
    since = str(int(made.json["metadata"]["resourceVersion"]) - 1)
    async with api.watch(_V2, resourceVersion=since) as events:
        event = await events.next()
    assert (event["type"], event["object"]["message"]) == ("ERROR", refused)
    assert (await api.delete(f"{_V1}/one")).code == 200


async def test_an_object_that_cannot_be_read_back_is_not_written(api: ApiServer, hook: WebhookServer) -> None:
    await _define(api, definition(hook.client_config("/convert")))
    hook.answer = lambda review: (
        converting(review)
        if review["request"]["desiredAPIVersion"].endswith("/v1")
        else failing("one way only")(review)
    )
    assert (await api.post(_V2, _address("two", "v2", host="b"))).code == 500
    assert (await api.get(_V1)).json["items"] == []


async def test_a_write_without_a_change_moves_an_object_to_the_new_storage_version(
    api: ApiServer, hook: WebhookServer
) -> None:
    client = hook.client_config("/convert")
    await _define(api, definition(client))
    await api.post(_V1, _address("one", "v1", hostPort="a:1"))
    await _redefine(api, definition(client, storage="v2"))
    assert (await _stored(api, "one"))["spec"] == {"hostPort": "a:1"}
    read = (await api.get(f"{_V1}/one")).json
    moved = await api.put(f"{_V1}/one", read)
    assert (moved.code, moved.json["spec"]) == (200, {"hostPort": "a:1"})
    stored = await _stored(api, "one")
    assert (stored["apiVersion"], stored["spec"]) == ("stable.example.com/v2", {"host": "a", "port": "1"})
    again = await api.put(f"{_V1}/one", moved.json)
    assert again.json["metadata"]["resourceVersion"] == moved.json["metadata"]["resourceVersion"]


async def test_objects_without_a_webhook_are_stored_in_the_storage_version(api: ApiServer, hook: WebhookServer) -> None:
    """A webhook that is declared later gets them in the version that says how they are."""
    body = definition(hook.client_config("/convert"))
    webhook = body["spec"].pop("conversion")
    for version in body["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["selectableFields"] = []
    await _define(api, body)
    await api.post(_V2, _address("one", "v2", hostPort="a:1"))
    assert (await _stored(api, "one"))["apiVersion"] == "stable.example.com/v1"
    assert (await api.get(f"{_V2}/one")).json["apiVersion"] == "stable.example.com/v2"
    body["spec"]["conversion"] = webhook
    await _redefine(api, body)
    assert (await api.get(f"{_V2}/one")).json["spec"] == {"host": "a", "port": "1"}


async def test_an_empty_webhook_with_the_strategy_none_is_no_webhook(tmp_path: Path) -> None:
    """Such a definition is valid. A server that starts reads all definitions before it serves anything."""
    url = f"sqlite:///{tmp_path}/store.db"
    body = definition({})
    body["spec"]["conversion"] = {"strategy": "None", "webhook": {}}
    async with ApiServer(store_url=url) as api:
        await _define(api, body)
    async with ApiServer(store_url=url) as api:
        await _served(api)


async def test_a_definition_is_deleted_although_its_webhook_is_gone(api: ApiServer, hook: WebhookServer) -> None:
    await _define(api, definition(hook.client_config("/convert"), storage="v1"))
    await api.post(_V1, _address("one", "v1", hostPort="a:1"))
    hook.answer = failing("gone")
    name = f"{_DEFINITIONS}/addresses.stable.example.com"
    assert (await api.delete(name)).code == 200
    await _answers(api, name, 404)


async def test_objects_that_cannot_be_converted_delay_the_deletion_of_their_definition_only(
    tmp_path: Path, hook: WebhookServer
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    name = f"{_DEFINITIONS}/addresses.stable.example.com"
    async with ApiServer(store_url=url) as api:
        await _define(api, definition(hook.client_config("/convert"), storage="v1"))
        await api.post(_V1, _address("one", "v1", hostPort="a:1"))
        await _redefine(api, definition(hook.client_config("/convert"), storage="v2"))
        hook.answer = failing("gone")
        assert (await api.delete(name)).code == 200
    async with ApiServer(store_url=url) as api:
        other = definition({})
        del other["spec"]["conversion"]
        other["metadata"]["name"] = "places.stable.example.com"
        other["spec"]["names"] = {"plural": "places", "kind": "Place"}
        assert (await api.post(_DEFINITIONS, other)).code == 201
        await _answers(api, f"{_GROUP}/v1/places", 200)
        assert (await api.get(name)).code == 200
        hook.answer = converting
        await _answers(api, name, 404)


async def test_admission_sees_a_request_in_the_version_that_it_names(api: ApiServer, hook: WebhookServer) -> None:
    await _define(api, definition(hook.client_config("/convert")))

    def answer(review: dict[str, Any]) -> Said:
        if review["kind"] == "ConversionReview":
            return converting(review)
        seen.append(review["request"]["object"]["spec"])
        operations = [{"op": "replace", "path": "/spec/hostPort", "value": "z:9"}]
        patch = base64.b64encode(json.dumps(operations).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": patch}

    seen: list[Any] = []
    hook.answer = answer
    rule = {"apiGroups": ["stable.example.com"], "apiVersions": ["v1"], "resources": ["*"], "operations": ["CREATE"]}
    webhook = {
        "name": "one.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": hook.client_config("/mutate"),
        "rules": [rule],
    }
    registration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    made = await api.post(registration, {"metadata": {"name": "it"}, "webhooks": [webhook]})
    assert made.code == 201, made
    created = await api.post(_V2, _address("two", "v2", host="b", port="2"))
    assert (created.code, created.json["spec"]) == (201, {"host": "z", "port": "9"})
    assert seen == [{"hostPort": "b:2"}]


async def test_a_service_is_called_at_a_ready_endpoint(api: ApiServer, hook: WebhookServer) -> None:
    service = {"metadata": {"name": "hook"}, "spec": {"ports": [{"name": "tls", "port": 443}]}}
    assert (await api.post("/api/v1/namespaces/default/services", service)).code == 201
    slices = {
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "ports": [{"name": "tls", "port": hook.port}],
        "endpoints": [{"addresses": ["127.0.0.1"]}],
    }
    made = await api.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slices)
    assert made.code == 201, made
    client = {"caBundle": hook.bundle, "service": {"name": "hook", "namespace": "default", "path": "/convert"}}
    await _define(api, definition(client))
    declared = (await api.get(f"{_DEFINITIONS}/addresses.stable.example.com")).json["spec"]["conversion"]
    assert declared["webhook"]["clientConfig"]["service"]["port"] == 443
    created = await api.post(_V2, _address("two", "v2", host="b", port="2"))
    assert (created.code, (await api.get(f"{_V1}/two")).json["spec"]) == (201, {"hostPort": "b:2"})


async def test_a_large_list_is_sent_in_several_reviews(
    api: ApiServer, hook: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion_calls, "_MOST_OBJECTS", 3)
    await _define(api, definition(hook.client_config("/convert")))
    for number in range(7):
        await api.post(_V1, _address(f"a{number}", "v1", hostPort=f"h{number}:1"))
    listed = (await api.get(_V2)).json
    assert [one["spec"]["host"] for one in listed["items"]] == [f"h{number}" for number in range(7)]
    assert [len(one["request"]["objects"]) for one in hook.reviews] == [3, 3, 1]


async def test_undeclared_fields_are_pruned_and_defaults_are_those_of_the_objects_own_version(
    api: ApiServer, hook: WebhookServer
) -> None:
    await _define(api, definition(hook.client_config("/convert")))
    await api.post(_V1, _address("one", "v1", hostPort="a:1"))

    def answer(review: dict[str, Any]) -> Said:
        said = converting(review)
        assert isinstance(said, dict)
        for one in said["convertedObjects"]:
            one["spec"] = {"host": "a", "undeclared": "x"}
        return said

    hook.answer = answer
    assert (await api.get(f"{_V2}/one")).json["spec"] == {"host": "a"}


_ORIGINAL = {"kind": "A", "metadata": {"name": "n", "labels": {"a": "b"}, "finalizers": ["x/y"]}}


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        ("text", "invalid object at index 2: it is not a map"),
        ({"apiVersion": "g/v2", "metadata": {}}, "invalid kind (expected A, received )"),
        ({"apiVersion": "g/v2", "kind": "A"}, "must have the same name: n != "),
        (
            {"apiVersion": "g/v2", "kind": "A", "metadata": {"name": "n", "labels": 1}},
            "invalid metadata.labels of type",
        ),
    ],
)
def test_objects_that_are_not_the_converted_ones_are_refused(obj: Any, why: str) -> None:
    with pytest.raises(conversion_reviews.InvalidConversion) as refused:
        conversion_reviews.adopt(_ORIGINAL, obj, "g/v2", 2)
    assert why in str(refused.value)


def test_of_the_metadata_a_webhook_changes_labels_and_annotations_only() -> None:
    changed = {"name": "n", "finalizers": [], "annotations": {"c": "d"}}
    found = conversion_reviews.adopt(_ORIGINAL, {"apiVersion": "g/v2", "kind": "A", "metadata": changed}, "g/v2")
    assert found["metadata"] == {"name": "n", "finalizers": ["x/y"], "annotations": {"c": "d"}}
