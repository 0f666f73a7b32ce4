"""Valid and invalid request bodies, and the messages about the latter."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from rota.apiserver import bodies
from rota.testing.api import ApiServer

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "main", "image": "i"}], "hostnam": "typo"},
}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}


async def test_yaml_is_read_like_json(api: ApiServer) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  date: '2001-01-01'\n"
    answer = await api.request("POST", MAPS, body=text, headers={"content-type": "application/yaml"})
    assert answer.code == 201
    assert answer.json["data"] == {"date": "2001-01-01"}


async def test_kind_and_version_may_be_left_out_of_built_in_kinds(api: ApiServer) -> None:
    answer = await api.post(MAPS, {"metadata": {"name": "a"}})
    assert (answer.code, answer.json["kind"]) == (201, "ConfigMap")


async def test_unknown_fields_are_refused_warned_of_or_ignored_by_field_validation(api: ApiServer) -> None:
    strict = await api.post(PODS, POD, fieldValidation="Strict")
    assert strict.code == 400
    assert strict.json["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.hostnam"'
    )
    told = await api.post(PODS, POD, fieldValidation="Warn", dryRun="All")
    assert told.code == 201
    assert told.warnings == ['299 - "unknown field \\"spec.hostnam\\""']
    assert "hostnam" not in told.json["spec"]
    assert (await api.post(PODS, POD, dryRun="All")).warnings == told.warnings
    assert (await api.post(PODS, POD, fieldValidation="Ignore", dryRun="All")).warnings == []


async def test_field_validation_must_be_one_of_three_values(api: ApiServer) -> None:
    answer = await api.post(MAPS, CONFIG, fieldValidation="Loud")
    assert answer.code == 422
    assert answer.json["message"] == (
        'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loud": '
        'supported values: "", "Ignore", "Strict", "Warn"'
    )


async def test_duplicate_fields_are_reported_with_their_path(api: ApiServer) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"},"data":{"k":"1"}}'
    strict = await api.post(MAPS, body, fieldValidation="Strict")
    assert 'strict decoding error: duplicate field "metadata.name"' in strict.json["message"]
    assert (await api.post(MAPS, body)).warnings == ['299 - "duplicate field \\"metadata.name\\""']


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "the object provided is unrecognized"),
        (b"{", "the object provided is unrecognized (must be of type ConfigMap)"),
        (b"[]", "the object provided is unrecognized"),
        (b"\xff\xfe", "the object provided is unrecognized"),
        (b'"\\ud800"', "the object provided is unrecognized"),
        (b"[" * 100_000, "the object provided is unrecognized"),
        (json.dumps({**CONFIG, "data": {"k": 1}}).encode(), "json: cannot unmarshal number into Go struct field"),
        (json.dumps({**CONFIG, "metadata": "x"}).encode(), "cannot be handled as a ConfigMap"),
        (json.dumps({**CONFIG, "apiVersion": "v2"}).encode(), 'no kind "ConfigMap" is registered for version "v2"'),
        (json.dumps({**CONFIG, "kind": "Secret"}).encode(), "cannot be handled as a ConfigMap"),
        (json.dumps({**CONFIG, "kind": 7}).encode(), "cannot be handled as a ConfigMap"),
    ],
)
async def test_a_body_that_is_no_object_of_the_kind_is_refused(api: ApiServer, body: bytes, complaint: str) -> None:
    answer = await api.post(MAPS, body)
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")
    assert complaint in answer.json["message"]


async def test_an_unknown_format_is_refused_with_those_that_are_read(api: ApiServer) -> None:
    answer = await api.request("POST", MAPS, body=b"<a/>", headers={"content-type": "text/xml"})
    assert answer.code == 415
    assert answer.json["message"] == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


async def test_too_large_a_body_is_refused(api: ApiServer) -> None:
    body = json.dumps({**CONFIG, "data": {"k": "x" * (3 * 1024 * 1024)}}).encode()
    answer = await api.post(MAPS, body)
    assert (answer.code, answer.json["reason"]) == (413, "RequestEntityTooLarge")
    assert answer.json["message"] == "Request entity too large: limit is 3145728"


def test_a_document_that_explodes_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        references = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{references}]")
    with pytest.raises(bodies.Unreadable, match="excessive aliasing"):
        bodies.parse_yaml("\n".join(lines).encode())
    with pytest.raises(bodies.Unreadable, match="excessive aliasing"):
        bodies.parse_yaml(b"a: &a\n  b: *a\n")


@pytest.mark.parametrize(
    "text",
    [
        b"a: !!python/object:os.system x",
        b"a: [",
        b"a: \x00",
        b"? {a: b}\n: c",
        b'a: "\\ud800"',
        b'"\\ud800": a',
        b"- !!binary aGk=",
    ],
)
def test_yaml_that_json_cannot_express_is_refused(text: bytes) -> None:
    with pytest.raises(bodies.Unreadable):
        bodies.parse_yaml(text)


JSON_VALUES = some.recursive(
    some.none() | some.booleans() | some.integers(-(2**63), 2**63 - 1) | some.text(),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert bodies.parse_json(json.dumps(value).encode()) == bodies.Parsed(value, [])


@given(some.binary(max_size=200))
def test_no_bytes_make_a_parser_fail_in_another_way(body: bytes) -> None:
    for parse in (bodies.parse_json, bodies.parse_yaml):
        with contextlib.suppress(bodies.Unreadable):
            parse(body)
