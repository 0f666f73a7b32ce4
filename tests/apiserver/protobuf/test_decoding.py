"""Protobuf bodies against pairs that Kubernetes' own Go types (k8s.io/api v0.37.2) made.

`pairs.jsonl.xz` has one object a line: the body as `runtime/serializer/protobuf` writes it, and the JSON that Go gives
for what it reads back. The objects are random, with at least one for nearly every field of the table.
"""

import base64
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api import builtin_kinds, errors
from rota.apiserver.protobuf import decoding, schemas

PAIRS = Path(__file__).parent / "pairs.jsonl.xz"


def pairs() -> Iterator[tuple[bytes, dict[str, Any]]]:
    with lzma.open(PAIRS, "rt", encoding="utf-8") as lines:
        for line in lines:
            pair = json.loads(line)
            yield base64.b64decode(pair["body"]), pair["object"]


BODIES = [body for body, _ in pairs()]


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, data: bytes) -> bytes:
    return decoding.PREFIX + field(1, field(1, api_version) + field(2, kind)) + field(2, data) + field(3, "")


def test_every_recorded_body_becomes_what_go_writes_as_json() -> None:
    wrong = [expected for data, expected in pairs() if decoding.decode(data) != expected]
    assert wrong == []
    assert len(BODIES) > 700


def test_the_recorded_bodies_reach_every_kind_of_the_table() -> None:
    seen = {(expected["apiVersion"], expected["kind"]) for _, expected in pairs()}
    assert {(version, kind) for version, kinds in schemas.kinds().items() for kind in kinds} <= seen


def test_every_built_in_kind_with_a_protobuf_form_upstream_is_in_the_table() -> None:
    missing = {str(one.gvk) for one in builtin_kinds.resource_types() if not schemas.of_kind(one.api_version, one.kind)}
    assert missing == set()


@pytest.mark.parametrize("version", ["v1", "apps/v1", "policy/v1", "meta.k8s.io/v1"])
def test_delete_options_are_known_in_the_version_of_whatever_is_deleted(version: str) -> None:
    data = field(1, 30) + field(2, field(1, "u-1")) + field(4, "Background")
    assert decoding.decode(body(version, "DeleteOptions", data)) == {
        "apiVersion": version,
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 30,
        "preconditions": {"uid": "u-1"},
        "propagationPolicy": "Background",
    }


def test_a_deployment_is_clean_of_empty_fields() -> None:
    container = field(1, "nginx") + field(2, "nginx:1.27") + field(5, "") + field(8, b"") + field(16, 0)
    template = field(1, field(11, field(1, "app") + field(2, "web"))) + field(2, field(2, container))
    spec = (
        field(1, 3)
        + field(2, field(1, field(1, "app") + field(2, "web")))
        + field(3, template)
        + field(5, 0)
        + field(7, 0)
    )
    found = decoding.decode(body("apps/v1", "Deployment", field(1, field(1, "web")) + field(2, spec)))
    assert found == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "nginx", "image": "nginx:1.27", "resources": {}}]},
            },
            "strategy": {},
        },
        "status": {},
    }


def test_fields_of_embedded_structs_stand_beside_those_of_their_parent() -> None:
    volume = field(1, "scratch") + field(2, field(2, field(1, "Memory")))
    pod = decoding.decode(body("v1", "Pod", field(2, field(1, volume))))
    assert pod["spec"]["volumes"] == [{"name": "scratch", "emptyDir": {"medium": "Memory"}}]


def test_secret_data_is_base64_in_json() -> None:
    entries = field(2, field(1, "password") + field(2, b"\x00\xff")) + field(2, field(1, "empty"))
    assert decoding.decode(body("v1", "Secret", entries))["data"] == {"password": "AP8=", "empty": ""}


def test_a_list_of_numbers_may_be_packed_or_not() -> None:
    plain = field(4, 1) + field(4, 2)
    packed = field(4, b"\x01\x02")
    found = [
        decoding.decode(body("v1", "Pod", field(2, field(14, data))))["spec"]["securityContext"]
        for data in (plain, packed)
    ]
    assert found == [{"supplementalGroups": [1, 2]}] * 2


def test_a_struct_that_comes_in_parts_is_the_sum_of_them() -> None:
    data = field(1, field(1, "web")) + field(1, field(3, "default"))
    assert decoding.decode(body("v1", "Pod", data))["metadata"] == {"name": "web", "namespace": "default"}


def test_unknown_fields_are_skipped_whatever_their_wire_type() -> None:
    group = varint(900 << 3 | 3) + field(1, "inside") + varint(900 << 3 | 4)
    fixed = varint(901 << 3 | 1) + bytes(8) + varint(902 << 3 | 5) + bytes(4)
    data = field(903, "x") + field(904, 7) + group + fixed + field(1, field(1, "web"))
    assert decoding.decode(body("v1", "Namespace", data))["metadata"] == {"name": "web"}


def test_a_custom_kind_has_no_protobuf_form() -> None:
    with pytest.raises(errors.UnsupportedMediaType):
        decoding.decode(body("example.com/v1", "Widget", b""))


def metadata(data: bytes) -> bytes:
    return body("v1", "Pod", field(1, data))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "must begin with"),
        (b"{}", "must begin with"),
        (b"k8s\x00", "'Kind' is missing"),
        (body("", "Pod", b""), "'apiVersion' is missing"),
        (body("v1", "Pot", b""), 'no kind "Pot" is registered for version "v1"'),
        (body("v1", "Pod", b"\x0a\x05ab"), "unexpected end"),
        (body("v1", "Pod", b"\x0a" + b"\xff" * 9 + b"\x01"), "unexpected end"),
        (body("v1", "Pod", b"\xff" * 11), "longer than 64 bits"),
        (body("v1", "Pod", b"\x0b"), "unexpected end of a group"),
        (body("v1", "Pod", b"\x0c"), "illegal wire type 4"),
        (body("v1", "Pod", b"\x07"), "illegal wire type 7"),
        (body("v1", "Pod", b"\x02\x00"), "illegal field number 0"),
        (body("v1", "Pod", field(1, 5)), "wrong wire type 0 for field 1"),
        (metadata(field(7, "many")), "wrong wire type 2 for field 7"),
        (metadata(field(1, b"\xff\xfe")), "not valid UTF-8"),
        (metadata(field(8, field(1, 1 << 60))), "not within the years"),
        (body("v1", "Node", field(3, field(1, field(1, "cpu") + field(2, field(1, "many"))))), "quantities must match"),
        (body("apps/v1", "ControllerRevision", field(2, field(1, "{"))), "embedded JSON is malformed"),
        (body("apps/v1", "ControllerRevision", field(2, field(1, "[" * 100_000))), "embedded JSON is malformed"),
        (
            body("policy/v1", "PodDisruptionBudget", field(2, field(1, field(1, 7)))),
            "IntOrString is of the unknown type 7",
        ),
    ],
)
def test_what_cannot_be_read_is_a_bad_request_that_says_why(data: bytes, words: str) -> None:
    with pytest.raises(errors.BadRequest) as refusal:
        decoding.decode(data)
    assert words in refusal.value.message


def test_nesting_without_end_is_refused() -> None:
    schema = b""
    for _ in range(2 * decoding.MAX_DEPTH):
        schema = field(28, schema)
    version = field(1, "v1") + field(4, field(1, schema))
    with pytest.raises(errors.BadRequest, match="nested more than"):
        decoding.decode(body("apiextensions.k8s.io/v1", "CustomResourceDefinition", field(2, field(7, version))))


@pytest.mark.slow
@pytest.mark.parametrize("part", [field(2, b""), field(1, b""), field(4000, b""), field(10, b"")])
def test_a_small_body_cannot_become_a_huge_object(part: bytes) -> None:
    with pytest.raises(errors.BadRequest, match="send less at once"):
        decoding.decode(body("v1", "Pod", field(2, part * (decoding.MAX_PARTS + 1))))


def read(data: bytes) -> None:
    """What every body must lead to: an object, or a refusal."""
    try:
        found = decoding.decode(data)
    except (errors.BadRequest, errors.UnsupportedMediaType):
        return
    assert isinstance(json.dumps(found, allow_nan=False), str)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_a_refusal(data: bytes) -> None:
    read(data)
    read(decoding.PREFIX + data)
    read(body("v1", "Pod", data))


@pytest.mark.slow
@settings(max_examples=300)
@given(st.sampled_from(BODIES), st.data())
def test_damaged_bodies_are_an_object_or_a_refusal(whole: bytes, data: st.DataObject) -> None:
    read(whole[: data.draw(st.integers(0, len(whole)))])
    place = data.draw(st.integers(len(decoding.PREFIX), len(whole) - 1))
    read(whole[:place] + bytes([data.draw(st.integers(0, 255))]) + whole[place + 1 :])
    read(whole[:place] + data.draw(st.binary(max_size=12)) + whole[place:])
