"""JSON merge patch: the cases of RFC 7386's appendix, and laws."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api.patches import errors, json_values, merge

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text("abc", max_size=2)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_rfc_hold(target: Any, patch: Any, result: Any) -> None:
    assert merge.apply(target, patch) == result


def test_fields_keep_their_place_in_the_object() -> None:
    assert list(merge.apply({"a": 1, "b": 2, "c": 3}, {"b": 5, "d": 6})) == ["a", "b", "c", "d"]


def test_a_patch_nested_beyond_reason_is_refused() -> None:
    patch: dict[str, Any] = {}
    for _ in range(5000):
        patch = {"a": patch}
    with pytest.raises(errors.MalformedPatch, match="exceeded max depth"):
        merge.apply({}, patch)


@pytest.mark.slow
@given(values, values)
def test_applying_a_patch_twice_changes_nothing_more(target: Any, patch: Any) -> None:
    once = merge.apply(target, patch)
    assert json_values.same(merge.apply(once, patch), once)


@pytest.mark.slow
@given(values, values)
def test_arguments_are_not_changed_and_not_shared(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    result = merge.apply(target, patch)
    for part in _containers(result):
        part.clear()
    assert (target, patch) == before


@pytest.mark.slow
@given(objects, objects)
def test_the_difference_leads_from_one_object_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    reached = merge.apply(before, merge.diff(before, after))
    assert json_values.same(_without_nulls(reached), _without_nulls(after))


@pytest.mark.slow
@given(objects)
def test_equal_objects_differ_by_an_empty_patch(obj: dict[str, Any]) -> None:
    assert merge.diff(obj, copy.deepcopy(obj)) == {}


def _containers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for item in value.values() for part in _containers(item)] + [value]
    if isinstance(value, list):
        return [part for item in value for part in _containers(item)] + [value]
    return []


def _without_nulls(value: Any) -> Any:
    """A merge patch cannot say null, and so cannot tell null from absent; lists are beyond it altogether."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value
