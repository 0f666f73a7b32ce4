"""Custom kinds that are defined while the server runs."""

import asyncio
from typing import Any

from rota.testing.api import ApiServer

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


def definition(**spec: Any) -> dict[str, Any]:
    properties = {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1},
                "color": {"type": "string", "default": "red"},
                "replicas": {"type": "integer"},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        "selectableFields": [{"jsonPath": ".spec.color"}],
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version], **spec},
    }


def widget(name: str = "w1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1, **spec}}


async def establish(api: ApiServer, body: dict[str, Any]) -> None:
    created = await api.post(DEFINITIONS, body)
    assert created.code == 201, created
    path = f"{DEFINITIONS}/{body['metadata']['name']}"
    async with asyncio.timeout(60):
        while True:
            held = {one["type"]: one["status"] for one in await told(api, path)}
            served = (await api.get(f"/apis/{body['spec']['group']}/v1")).code == 200
            if held.get("Established") == "True" and served:
                return
            await asyncio.sleep(0.005)


async def told(api: ApiServer, path: str) -> list[dict[str, str]]:
    return ((await api.get(path)).json.get("status") or {}).get("conditions") or []


async def until_gone(api: ApiServer, path: str) -> None:
    async with asyncio.timeout(60):
        while (await api.get(path)).code != 404:  # noqa: ASYNC110 - as a client waits
            await asyncio.sleep(0.005)


async def test_a_defined_kind_is_served_with_its_schema(api: ApiServer) -> None:
    assert (await api.get(WIDGETS)).code == 404
    await establish(api, definition())
    created = await api.post(WIDGETS, {**widget(), "bogus": 1})
    assert created.code == 201, created
    assert created.json["spec"] == {"size": 1, "color": "red"}
    assert created.json["metadata"]["generation"] == 1
    assert created.warnings == ['299 - "unknown field \\"bogus\\""']
    refused = await api.post(WIDGETS, widget("w2", size=0))
    assert refused.code == 422
    assert refused.json["message"] == (
        'Widget.example.com "w2" is invalid: spec.size: Invalid value: 0: '
        "spec.size in body should be greater than or equal to 1"
    )
    listed = (await api.get(WIDGETS)).json
    assert (listed["kind"], listed["items"][0]["kind"]) == ("WidgetList", "Widget")
    assert [
        one["metadata"]["name"] for one in (await api.get(WIDGETS, fieldSelector="spec.color=red")).json["items"]
    ] == ["w1"]


async def test_status_and_spec_of_a_custom_object_have_their_own_doors(api: ApiServer) -> None:
    await establish(api, definition())
    await api.post(WIDGETS, widget())
    done = await api.patch(f"{WIDGETS}/w1/status", {"status": {"phase": "Done"}, "spec": {"size": 9}})
    assert (done.json["status"], done.json["spec"]["size"]) == ({"phase": "Done"}, 1)
    assert done.json["metadata"]["generation"] == 1
    grown = await api.patch(f"{WIDGETS}/w1", {"status": {"phase": "No"}, "spec": {"size": 2}})
    assert (grown.json["status"], grown.json["metadata"]["generation"]) == ({"phase": "Done"}, 2)


async def test_custom_objects_are_applied_merged_and_printed(api: ApiServer) -> None:
    await establish(api, definition())
    applied = await api.patch(f"{WIDGETS}/w1", widget(size=3), kind="apply", fieldManager="me")
    assert applied.code == 201, applied
    strategic = await api.patch(f"{WIDGETS}/w1", {}, kind="strategic")
    assert strategic.code == 415
    table = (await api.get(WIDGETS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
    assert table["rows"][0]["cells"] == ["w1", 3]


async def test_discovery_and_openapi_know_the_kind(api: ApiServer) -> None:
    await establish(api, definition())
    [resource] = [one for one in (await api.get("/apis/example.com/v1")).json["resources"] if one["name"] == "widgets"]
    assert (resource["kind"], resource["shortNames"]) == ("Widget", ["wd"])
    document = (await api.get("/openapi/v3/apis/example.com/v1")).json
    assert any("Widget" in name for name in document["components"]["schemas"])


async def test_a_custom_update_names_the_version_it_has_seen(api: ApiServer) -> None:
    await establish(api, definition())
    await api.post(WIDGETS, widget())
    answer = await api.put(f"{WIDGETS}/w1", widget(size=2))
    assert answer.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.json["message"]


async def test_protobuf_is_not_for_custom_kinds(api: ApiServer) -> None:
    await establish(api, definition())
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    answer = await api.request("POST", WIDGETS, body=b"k8s\x00", headers=headers)
    assert answer.code == 415


async def test_the_objects_go_before_their_definition(api: ApiServer) -> None:
    await establish(api, definition())
    await api.post(WIDGETS, widget())
    await api.post(WIDGETS, {**widget("held"), "metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
    path = f"{DEFINITIONS}/widgets.example.com"
    assert (await api.delete(path)).code == 200
    await until_gone(api, f"{WIDGETS}/w1")
    assert (await api.get(f"{WIDGETS}/held")).json["metadata"]["deletionTimestamp"]
    assert (await api.get(path)).code == 200
    await api.patch(f"{WIDGETS}/held", {"metadata": {"finalizers": None}})
    await until_gone(api, path)
    await until_gone(api, WIDGETS)


async def test_another_server_on_the_store_serves_the_kind_as_well() -> None:
    async with ApiServer(store_url="memory://custom") as one, ApiServer(store_url="memory://custom", seed=1) as two:
        await establish(one, definition())
        await one.post(WIDGETS, widget())
        async with asyncio.timeout(60):
            while (await two.get(f"{WIDGETS}/w1")).code != 200:  # noqa: ASYNC110 - as a client waits
                await asyncio.sleep(0.005)
    async with ApiServer(store_url="memory://custom") as later:
        assert (await later.get(f"{WIDGETS}/w1")).code == 200


async def test_a_name_that_is_taken_is_not_accepted(api: ApiServer) -> None:
    await establish(api, definition())
    second = definition(names={"plural": "gadgets", "kind": "Widget"})
    second["metadata"]["name"] = "gadgets.example.com"
    assert (await api.post(DEFINITIONS, second)).code == 201
    path = f"{DEFINITIONS}/gadgets.example.com"
    async with asyncio.timeout(60):
        while not (conditions := await told(api, path)):  # noqa: ASYNC110 - as a client waits
            await asyncio.sleep(0.005)
    assert {one["type"]: one["status"] for one in conditions} == {"NamesAccepted": "False", "Established": "False"}
    assert (await api.get("/apis/example.com/v1/gadgets")).code == 404
