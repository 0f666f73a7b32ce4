"""Stored bytes: the revision is spliced in, and nothing else changes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api import codec, decoding, scheme

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.text('"\\{}metadata:a', max_size=12)
objects = st.builds(
    lambda rest, metadata, head: {**rest, **({} if metadata is None else {"metadata": metadata}), **head},
    st.dictionaries(st.text(max_size=5), json_values, max_size=3).map(
        lambda found: {name: value for name, value in found.items() if name != "metadata"}
    ),
    st.none() | st.dictionaries(names | st.just("resourceVersion"), json_values, max_size=3),
    st.fixed_dictionaries({}, optional={"apiVersion": names, "kind": names}),
)


def _normal(obj: dict[str, Any], revision: int) -> dict[str, Any]:
    """The same by the ordinary way: decode, set the field, encode."""
    return {**obj, "metadata": {**(obj.get("metadata") or {}), "resourceVersion": str(revision)}}


@pytest.mark.slow
@given(objects, st.integers(0, 2**63))
def test_splicing_gives_what_encoding_with_the_revision_would_give(obj: dict[str, Any], revision: int) -> None:
    spliced = codec.with_revision(codec.encode(obj), revision)
    assert json.loads(spliced) == _normal(obj, revision)


@pytest.mark.slow
@given(objects)
def test_an_old_revision_never_reaches_the_store(obj: dict[str, Any]) -> None:
    assert "resourceVersion" not in json.loads(codec.encode(obj))["metadata"]
    assert codec.encode(json.loads(codec.with_revision(codec.encode(obj), 7))) == codec.encode(obj)


def test_stored_objects_begin_with_what_they_are() -> None:
    obj = {"spec": {"a": 1}, "metadata": {"name": "x", "resourceVersion": "1"}, "kind": "Pod", "apiVersion": "v1"}
    assert codec.encode(obj) == b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"a":1}}'
    assert codec.with_revision(codec.encode(obj), 12) == (
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"12","name":"x"},"spec":{"a":1}}'
    )


def test_structs_are_stored_without_what_they_do_not_set() -> None:
    pods = scheme.builtin().find("pods")
    assert pods is not None
    pod = decoding.typed(b'{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}', pods)
    assert json.loads(codec.encode(pod)) == {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]},
    }  # fmt: skip


def test_metadata_is_read_without_the_rest() -> None:
    obj = {
        "kind": "Pod",
        "metadata": {
            "name": "x",
            "namespace": "default",
            "uid": "u",
            "generation": 2,
            "labels": {"a": "b"},
            "managedFields": [{"manager": "m"}],
            "finalizers": ["f"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "o", "controller": True}],
            "deletionTimestamp": "2024-01-01T00:00:00Z",
        },
        "spec": {"a": [1, 2, 3]},
    }
    meta = codec.read_meta(codec.with_revision(codec.encode(obj), 9))
    assert (meta.name, meta.namespace, meta.uid, meta.generation) == ("x", "default", "u", 2)
    assert (meta.labels, meta.finalizers, meta.resource_version) == ({"a": "b"}, ("f",), "9")
    assert meta.deletion_timestamp == "2024-01-01T00:00:00Z"
    assert meta.owner_references is not None
    assert meta.owner_references[0].controller
    assert codec.read_meta(codec.encode({})).name == ""


@pytest.mark.parametrize("count", [0, 1, 3])
def test_lists_are_put_together_from_stored_bytes(count: int) -> None:
    items = [(codec.encode({"metadata": {"name": str(one)} if one else {}}), one) for one in range(count)]
    listed = codec.encode_list(items, api_version="v1", kind="PodList", revision=5, continue_="t", remaining=0)
    assert json.loads(listed) == {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "5", "continue": "t", "remainingItemCount": 0},
        "items": [json.loads(codec.with_revision(*item)) for item in items],
    }


def test_events_are_lines() -> None:
    assert codec.encode_event("ADDED", b'{"a":1}') == b'{"type":"ADDED","object":{"a":1}}\n'
