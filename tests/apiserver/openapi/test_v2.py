from typing import Any

import msgspec
import pytest

from rota.api import scheme
from rota.api.kinds import ResourceType
from rota.apiserver.openapi import v2, v3

_DOTTED = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def _openapi(kinds: scheme.Scheme) -> v2.OpenApiV2:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "nullable": True,
                "anyOf": [{"required": ["a"]}],
                "properties": {"a": {"type": "array", "items": {"x-kubernetes-int-or-string": True, "anyOf": []}}},
            }
        },
    }
    return v2.OpenApiV2(kinds, v3.OpenApiV3(kinds, schema_of=lambda _resource: schema, version="v1.33.0"))


@pytest.fixture(scope="module")
def batch() -> dict[str, Any]:
    return _openapi(scheme.Scheme(one for one in scheme.builtin() if one.group == "batch")).describe()


@pytest.mark.parametrize("accept", [_DOTTED.replace("v2.v1", "v2@v1"), f"{_DOTTED}, application/json"])
def test_go_clients_get_an_empty_document_under_a_name_that_they_can_parse(accept: str) -> None:
    document = _openapi(scheme.builtin()).document(accept)
    assert (document.body, document.content_type) == (b"", _DOTTED)


def test_other_clients_get_json_which_is_kept_until_the_scheme_changes() -> None:
    kinds = scheme.Scheme(one for one in scheme.builtin() if one.group == "coordination.k8s.io")
    openapi = _openapi(kinds)
    first = openapi.document("application/json")
    assert first.content_type == "application/json"
    assert msgspec.json.decode(first.body)["swagger"] == "2.0"
    assert openapi.document() is first
    kinds.add(ResourceType(group="g.example.com", version="v1", kind="K", plural="ks", namespaced=False))
    assert "com.example.g.v1.K" in msgspec.json.decode(openapi.document().body)["definitions"]


def test_bodies_and_answers_are_written_in_the_way_of_version_2(batch: dict[str, Any]) -> None:
    create = batch["paths"]["/apis/batch/v1/namespaces/{namespace}/jobs"]["post"]
    job = {"$ref": "#/definitions/io.k8s.api.batch.v1.Job"}
    assert create["parameters"][0] == {"name": "body", "in": "body", "required": True, "schema": job}
    assert create["consumes"] == create["produces"] == ["application/json", "application/yaml"]
    assert create["responses"]["201"] == {"description": "Created", "schema": job}
    assert "requestBody" not in create
    assert {"name": "dryRun", "in": "query", "type": "string"}.items() <= create["parameters"][2].items()


def test_references_may_have_a_description_and_lead_somewhere(batch: dict[str, Any]) -> None:
    spec = batch["definitions"]["io.k8s.api.batch.v1.Job"]["properties"]["spec"]
    assert spec["$ref"] == "#/definitions/io.k8s.api.batch.v1.JobSpec"
    assert spec["description"]
    text = msgspec.json.encode(batch).decode()
    assert "#/components/schemas" not in text
    targets = {piece.partition('"')[0] for piece in text.split('"#/definitions/')[1:]}
    assert targets <= batch["definitions"].keys()


def test_alternatives_are_left_out(batch: dict[str, Any]) -> None:
    port = batch["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    assert (port["type"], port["format"]) == ("string", "int-or-string")
    kinds = scheme.Scheme([ResourceType(group="g.example.com", version="v1", kind="K", plural="ks", namespaced=False)])
    spec = _openapi(kinds).describe()["definitions"]["com.example.g.v1.K"]["properties"]["spec"]
    assert spec == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"x-kubernetes-int-or-string": True}}},
    }
