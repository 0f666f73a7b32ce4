"""Lists, pages, selectors, shapes and resource versions."""

import gzip
import json
from typing import Any

import pytest
import yaml

from rota.testing.api import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def fill(api: ApiServer, count: int, **metadata: Any) -> list[str]:
    names = [f"m{number:03}" for number in range(count)]
    for name in names:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"k": name}}
        assert (await api.post(MAPS, body)).code == 201
    return names


def names(listed: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_a_list_has_the_revision_it_was_made_at(api: ApiServer) -> None:
    await fill(api, 2)
    listed = (await api.get(MAPS)).json
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) >= int(listed["items"][-1]["metadata"]["resourceVersion"])
    assert "kind" not in listed["items"][0]


async def test_an_empty_list_is_a_list(api: ApiServer) -> None:
    assert (await api.get("/api/v1/pods")).json["items"] == []


async def test_pages_show_one_revision(api: ApiServer) -> None:
    expected = await fill(api, 5)
    first = (await api.get(MAPS, limit=2)).json
    assert first["metadata"]["remainingItemCount"] == 3
    await api.delete(f"{MAPS}/m004")
    second = (await api.get(MAPS, limit=2, **{"continue": first["metadata"]["continue"]})).json
    third = (await api.get(MAPS, limit=2, **{"continue": second["metadata"]["continue"]})).json
    assert names(first) + names(second) + names(third) == expected
    assert "continue" not in third["metadata"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first["metadata"]["resourceVersion"]
    }


async def test_pages_through_a_selector_are_full_and_tell_no_remainder(api: ApiServer) -> None:
    await fill(api, 6)
    for name in ("m001", "m003", "m005"):
        await api.patch(f"{MAPS}/{name}", {"metadata": {"labels": {"odd": "yes"}}})
    first = (await api.get(MAPS, limit=2, labelSelector="odd=yes")).json
    assert names(first) == ["m001", "m003"]
    assert "remainingItemCount" not in first["metadata"]
    second = (await api.get(MAPS, limit=2, labelSelector="odd=yes", **{"continue": first["metadata"]["continue"]})).json
    assert names(second) == ["m005"]


async def test_a_token_whose_revision_is_compacted_offers_to_go_on_inconsistently(api: ApiServer) -> None:
    await fill(api, 4)
    first = (await api.get(MAPS, limit=2)).json
    await fill_one_more(api)
    await api.store.compact((await api.store.revision_range()).revision)
    gone = await api.get(MAPS, limit=2, **{"continue": first["metadata"]["continue"]})
    assert (gone.code, gone.json["reason"]) == (410, "Expired")
    assert gone.json["message"].startswith("The provided continue parameter is too old")
    onward = (await api.get(MAPS, **{"continue": gone.json["metadata"]["continue"]})).json
    assert names(onward) == ["m002", "m003", "m999"]


async def fill_one_more(api: ApiServer) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m999"}}
    assert (await api.post(MAPS, body)).code == 201


async def test_an_exact_list_of_a_compacted_revision_is_gone(api: ApiServer) -> None:
    await fill(api, 1)
    old = (await api.get(MAPS)).json["metadata"]["resourceVersion"]
    await fill_one_more(api)
    exact = {"resourceVersion": old, "resourceVersionMatch": "Exact"}
    assert names((await api.get(MAPS, **exact)).json) == ["m000"]
    await api.store.compact((await api.store.revision_range()).revision)
    answer = await api.get(MAPS, **exact)
    assert (answer.code, answer.json["message"]) == (410, "The resourceVersion for the provided list is too old.")


@pytest.mark.parametrize("token", ["nonsense", "e30", "eyJ2IjoieCJ9", "%00"])
async def test_a_foreign_continue_token_is_refused(api: ApiServer, token: str) -> None:
    answer = await api.get(MAPS, **{"continue": token})
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")
    assert answer.json["message"].startswith("continue key is not valid")


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ({"resourceVersionMatch": "Exact"}, "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 'is forbidden for resourceVersion "0"'),
        ({"resourceVersionMatch": "Maybe", "resourceVersion": "1"}, 'Unsupported value: "Maybe"'),
        ({"sendInitialEvents": "true"}, "sendInitialEvents is forbidden for list"),
    ],
)
async def test_parameters_that_do_not_go_together_are_named(
    api: ApiServer, query: dict[str, str], complaint: str
) -> None:
    answer = await api.get(MAPS, **query)
    assert answer.code == 422
    assert complaint in answer.json["message"]
    assert answer.json["message"].startswith('ListOptions.meta.k8s.io "" is invalid: ')


@pytest.mark.parametrize("version", ["abc", "-1", "1.5", "99999999999999999999999"])
async def test_a_resource_version_is_a_number(api: ApiServer, version: str) -> None:
    for path in (MAPS, f"{MAPS}/x"):
        answer = await api.get(path, resourceVersion=version)
        assert answer.code == 400
        assert answer.json["message"].startswith("invalid resource version")


@pytest.mark.slow
async def test_a_resource_version_from_the_future_is_waited_for_and_then_refused(api: ApiServer) -> None:
    answer = await api.get(MAPS, resourceVersion="1000000")
    assert (answer.code, answer.json["reason"]) == (504, "Timeout")
    assert answer.json["details"]["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]


async def test_fields_select(api: ApiServer) -> None:
    await fill(api, 3)
    assert names((await api.get(MAPS, fieldSelector="metadata.name=m001")).json) == ["m001"]
    assert names((await api.get(MAPS, fieldSelector="metadata.name!=m001")).json) == ["m000", "m002"]
    everywhere = "/api/v1/configmaps"
    both = "metadata.name=m001,metadata.namespace=default"
    assert names((await api.get(everywhere, fieldSelector=both)).json) == ["m001"]
    unknown = await api.get(MAPS, fieldSelector="data.k=m001")
    assert (unknown.code, unknown.json["reason"]) == (400, "BadRequest")


async def test_a_broken_label_selector_is_refused(api: ApiServer) -> None:
    answer = await api.get(MAPS, labelSelector="a in (b")
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("query", [{"limit": "many"}, {"limit": "9" * 30}, {"timeoutSeconds": "soon"}])
async def test_numbers_are_numbers(api: ApiServer, query: dict[str, str]) -> None:
    assert (await api.get(MAPS, **query)).code == 400


async def test_tables_have_rows_with_metadata(api: ApiServer) -> None:
    await fill(api, 2)
    table = (await api.get(MAPS, accept=TABLE, limit=1)).json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"]["remainingItemCount"] == 1
    assert [row["cells"][0] for row in table["rows"]] == ["m000"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    one = (await api.get(f"{MAPS}/m001", accept=TABLE)).json
    assert [row["cells"][0] for row in one["rows"]] == ["m001"]


async def test_metadata_alone_can_be_had(api: ApiServer) -> None:
    await fill(api, 1, labels={"a": "b"})
    many = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    listed = (await api.get(MAPS, accept=many)).json
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"][0]["metadata"]["labels"] == {"a": "b"}
    assert listed["items"][0]["metadata"]["resourceVersion"]
    assert "data" not in listed["items"][0]
    one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    single = (await api.get(f"{MAPS}/m000", accept=one)).json
    assert (single["kind"], "data" in single) == ("PartialObjectMetadata", False)


async def test_yaml_and_indented_json_are_the_same_object(api: ApiServer) -> None:
    await fill(api, 1)
    plain = (await api.get(f"{MAPS}/m000")).json
    as_yaml = await api.get(f"{MAPS}/m000", accept="application/yaml")
    assert as_yaml.headers["content-type"] == "application/yaml"
    assert yaml.safe_load(as_yaml.body) == plain
    pretty = await api.get(f"{MAPS}/m000", pretty="true")
    assert pretty.json == plain
    assert b'\n  "kind"' in pretty.body


async def test_large_answers_are_compressed_for_clients_that_can_read_them(api: ApiServer) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"k": "x" * 200_000}}
    await api.post(MAPS, body)
    answer = await api.request("GET", f"{MAPS}/big", headers={"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.body) < 10_000
    assert json.loads(gzip.decompress(answer.body))["data"] == body["data"]
    assert "content-encoding" not in (await api.get(f"{MAPS}/big")).headers


async def test_head_has_no_body(api: ApiServer) -> None:
    answer = await api.request("HEAD", MAPS)
    assert (answer.code, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


async def test_the_server_says_how_it_is_and_what_it_is(api: ApiServer) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/readyz/store"):
        assert (await api.get(path)).body == b"ok"
    verbose = await api.request("GET", "/readyz", query={"verbose": ""})
    assert verbose.body == b"[+]ping ok\n[+]store ok\nreadyz check passed\n"
    assert (await api.get("/readyz/nonsense")).code == 404
    assert (await api.get("/version")).json["major"] == "1"
    await api.get(MAPS)
    metrics = await api.get("/metrics")
    line = b'rota_apiserver_requests_total{code="200",resource="configmaps",verb="list"} 1.0'
    assert line in metrics.body


async def test_unknown_paths_are_refused_as_upstream_refuses_them(api: ApiServer) -> None:
    for path in ("/nowhere", "/apis/nope/v1/x"):
        nowhere = await api.get(path)
        assert (nowhere.code, nowhere.body) == (404, b"404 page not found\n")
    version = await api.get("/apis/apps/v9/x")
    assert (version.code, version.json["message"]) == (404, "the server could not find the requested resource")
    unknown = await api.get("/api/v1/nowhere")
    assert unknown.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server could not find the requested resource",
        "reason": "NotFound",
        "details": {},
        "code": 404,
    }
    refused = await api.delete("/api/v1/pods")
    assert (refused.code, refused.json["reason"]) == (405, "MethodNotAllowed")
    assert refused.json["message"] == "the server does not allow this method on the requested resource"
    assert (await api.get(MAPS, accept="text/html")).code == 406


@pytest.mark.slow
async def test_every_description_can_be_had(api: ApiServer) -> None:
    index = (await api.get("/openapi/v3")).json["paths"]
    assert "apis/rota.dev/v1alpha1" in index
    for place in index.values():
        assert (await api.get(place["serverRelativeURL"])).code == 200
    assert (await api.get("/openapi/v2")).code == 200
    for path in ("/api", "/apis", "/api/v1", "/apis/apps", "/apis/rota.dev/v1alpha1"):
        first = await api.get(path)
        again = await api.request("GET", path, headers={"if-none-match": first.headers["etag"]})
        assert (first.code, again.code, again.body) == (200, 304, b"")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/configmaps/plain",
        "/api/v1/namespaces/default",
        "/apis/events.k8s.io/v1/namespaces/default/events/told",
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers/scaled",
    ],
)
async def test_the_short_way_to_an_object_leads_to_the_same_as_the_long_one(api: ApiServer, path: str) -> None:
    await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "plain"}, "data": {"a": "b"}})
    event = {"metadata": {"name": "told"}, "involvedObject": {"kind": "Pod", "namespace": "default"}, "reason": "Why"}
    await api.post("/api/v1/namespaces/default/events", event)
    scaled = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 3}
    scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    assert (await api.post(scalers, {"metadata": {"name": "scaled"}, "spec": scaled})).code == 201
    short, long = await api.get(path), await api.get(path, pretty="false")
    assert (short.code, short.body) == (200, long.body)
    assert short.headers == long.headers
    assert (await api.get(path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).json["kind"] == "Table"
    assert (await api.get(path, accept="application/yaml")).headers["content-type"] == "application/yaml"
    assert (await api.get(path, accept="image/png")).code == 406
    by_hand = await api.request("GET", path, headers={"user-agent": "curl/8"})
    assert by_hand.body.startswith(b"{\n")
    assert by_hand.json == short.json
    assert (await api.get(f"{path}-not")).code == 404
