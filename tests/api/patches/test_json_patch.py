"""JSON patch: operations, limits, messages."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api.patches import errors, json_patch

POD = {"metadata": {"name": "web", "labels": {"a/b": "1"}}, "spec": {"containers": [{"name": "x"}, {"name": "y"}]}}


def test_operations_apply_one_after_the_other() -> None:
    result = json_patch.apply(
        POD,
        [
            {"op": "test", "path": "/metadata/name", "value": "web"},
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "z"}},
            {"op": "remove", "path": "/spec/containers/0"},
            {"op": "replace", "path": "/metadata/labels/a~1b", "value": "2"},
            {"op": "copy", "from": "/spec/containers/0/name", "path": "/metadata/labels/first"},
            {"op": "move", "from": "/metadata/labels/first", "path": "/metadata/labels/moved"},
        ],
    )
    assert result == {
        "metadata": {"name": "web", "labels": {"a/b": "2", "moved": "y"}},
        "spec": {"containers": [{"name": "y"}, {"name": "z"}]},
    }


def test_what_is_missing_is_null_to_a_test() -> None:
    assert json_patch.apply({"spec": {}}, [{"op": "test", "path": "/spec/x", "value": None}]) == {"spec": {}}


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"op": "test", "path": "/metadata/name", "value": "db"}, "testing value /metadata/name failed: test failed"),
        ({"op": "test", "path": "/nowhere", "value": 1}, "testing value /nowhere failed: test failed"),
        (
            {"op": "test", "path": "/no/x", "value": 1},
            "test operation does not apply: is missing path: /no/x: missing value",
        ),
        (
            {"op": "remove", "path": "/spec/x"},
            "error in remove for path: '/spec/x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            {"op": "remove", "path": "/no/x"},
            'remove operation does not apply: doc is missing path: "/no/x": missing value',
        ),
        (
            {"op": "replace", "path": "/spec/x", "value": 1},
            "replace operation does not apply: doc is missing key: /spec/x: missing value",
        ),
        (
            {"op": "replace", "path": "/no/x", "value": 1},
            "replace operation does not apply: doc is missing path: /no/x: missing value",
        ),
        (
            {"op": "add", "path": "/no/x", "value": 1},
            'add operation does not apply: doc is missing path: "/no/x": missing value',
        ),
        (
            {"op": "add", "path": "/spec/containers/9", "value": 1},
            "error in add for path: '/spec/containers/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (
            {"op": "copy", "from": "/no/x", "path": "/a"},
            "copy operation does not apply: doc is missing from path: /no/x: missing value",
        ),
        (
            {"op": "move", "from": "/spec", "path": "/no/x"},
            "move operation does not apply: doc is missing destination path: /no/x: missing value",
        ),
        (
            {"op": "move", "from": "/spec/x", "path": "/a"},
            "error in move for path: '/spec/x': Unable to move nonexistent key: x: missing value",
        ),
        ({"op": "append", "path": "/metadata/name", "value": "!"}, "Unexpected kind: append"),
        ({"path": "/a"}, "Unexpected kind: unknown"),
        ({"op": "add", "value": 1}, "add operation failed to decode path: missing value"),
        ({"op": "move", "path": "/a"}, "move operation failed to decode from: missing value"),
    ],
)
def test_an_operation_that_does_not_apply_says_why(operation: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InapplicablePatch) as raised:
        json_patch.apply(POD, [operation])
    assert raised.value.message == message


def test_an_add_without_a_value_is_refused() -> None:
    with pytest.raises(errors.InapplicablePatch, match="error in add for path: '/a'"):
        json_patch.apply(POD, [{"op": "add", "path": "/a"}])


@pytest.mark.parametrize("patch", [{"op": "add"}, "add", None, [1], [["op"]]])
def test_a_patch_is_a_list_of_operations(patch: Any) -> None:
    with pytest.raises(errors.MalformedPatch, match="list of operations"):
        json_patch.apply(POD, patch)


def test_true_is_not_one() -> None:
    with pytest.raises(errors.InapplicablePatch):
        json_patch.apply({"a": 1}, [{"op": "test", "path": "/a", "value": True}])


def test_too_many_operations_are_refused_before_any_is_applied() -> None:
    with pytest.raises(errors.PatchTooLarge, match=r"maximum operations in a JSON patch is 10000, got 10001"):
        json_patch.apply(POD, [{"op": "bogus"}] * 10_001)


def test_copies_cannot_blow_the_document_up() -> None:
    document = {"a": ["x" * 1000] * 100}
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 40
    with pytest.raises(errors.InapplicablePatch, match="exceeding the limit 3145728"):
        json_patch.apply(document, doubling)


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@pytest.mark.slow
@given(objects, objects)
def test_the_operations_between_two_documents_lead_from_one_to_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    operations = jsonpatch.make_patch(before, after).patch
    unchanged = copy.deepcopy((before, operations))
    assert json_patch.apply(before, operations) == after
    assert (before, operations) == unchanged


def test_a_failing_patch_leaves_the_document_as_it_was() -> None:
    document = copy.deepcopy(POD)
    with pytest.raises(errors.InapplicablePatch):
        json_patch.apply(document, [{"op": "remove", "path": "/spec"}, {"op": "remove", "path": "/spec"}])
    assert document == POD
