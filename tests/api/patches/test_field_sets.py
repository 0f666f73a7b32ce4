"""Field paths and field sets: the wire form, the text form, the order, and set laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api.patches import errors, field_paths, fieldsets, json_values, schemas
from rota.api.patches.field_paths import Path, PathElement, path

scalars = st.integers(-5, 5) | st.text(max_size=3) | st.booleans() | st.sampled_from([0.5, 1e21, 1e-7])
elements: st.SearchStrategy[PathElement] = st.one_of(
    st.text(max_size=4).map(field_paths.field),
    st.dictionaries(st.sampled_from(["name", "port"]), scalars, min_size=1).map(field_paths.key),
    scalars.map(field_paths.value),
    st.integers(0, 9).map(field_paths.index),
)
field_sets: st.SearchStrategy[fieldsets.FieldSet] = st.frozensets(
    st.lists(elements, min_size=1, max_size=4).map(lambda steps: path(*steps)), max_size=12
)


def test_a_set_is_written_as_a_tree_in_which_a_dot_marks_inner_members() -> None:
    container = field_paths.key({"name": "web"})
    fields = frozenset(
        {
            path("spec", "replicas"),
            path("spec", "containers", container),
            path("spec", "containers", container, "image"),
            path("metadata", "finalizers", field_paths.value("x")),
            path("list", field_paths.index(0)),
        }
    )
    tree = {
        "f:list": {"i:0": {}},
        "f:metadata": {"f:finalizers": {'v:"x"': {}}},
        "f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}, "f:replicas": {}},
    }
    assert fieldsets.to_wire(fields) == tree
    assert fieldsets.from_wire(tree) == fields


def test_keys_are_written_by_name_whatever_order_they_came_in() -> None:
    port = field_paths.key({"protocol": "TCP", "port": 80})
    assert field_paths.wire(port) == 'k:{"port":80,"protocol":"TCP"}'
    assert port == field_paths.parse('k:{ "protocol":"TCP", "port":80}')


def test_members_of_a_tree_come_in_the_order_of_kinds_and_names() -> None:
    fields = frozenset(
        {
            path(field_paths.index(2)),
            path(field_paths.value(True)),
            path(field_paths.value("a")),
            path(field_paths.value(10)),
            path(field_paths.value(9)),
            path(field_paths.key({"b": 1})),
            path(field_paths.key({"a": 1, "b": 2})),
            path("b"),
            path("a"),
        }
    )
    assert list(fieldsets.to_wire(fields)) == [
        "f:a",
        "f:b",
        'k:{"a":1,"b":2}',
        'k:{"b":1}',
        "v:9",
        "v:10",
        'v:"a"',
        "v:true",
        "i:2",
    ]


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (path("spec", "replicas"), ".spec.replicas"),
        (path("c", field_paths.key({"name": "web"}), "image"), '.c[name="web"].image'),
        (path("p", field_paths.key({"protocol": "TCP", "port": 80})), '.p[port=80,protocol="TCP"]'),
        (path("f", field_paths.value("a/b")), '.f[="a/b"]'),
        (path("f", field_paths.value(True)), ".f[=true]"),
        (path("f", field_paths.value(1.5)), ".f[=1.5]"),
        (path("l", field_paths.index(3)), ".l[3]"),
        (path("l", field_paths.value('say "hi"\n\x01é')), '.l[="say \\"hi\\"\\n\\x01é"]'),
    ],
)
def test_paths_read_as_in_conflict_messages(steps: Path, text: str) -> None:
    assert field_paths.text(steps) == text


@pytest.mark.parametrize(
    ("value", "wire", "text"),
    [
        (1.0, "1", "1"),
        (100000.0, "100000", "100000"),
        (1.5, "1.5", "1.5"),
        (1e21, "1e+21", "1e+21"),
        (1e20, "100000000000000000000", "100000000000000000000"),
        (1e-6, "0.000001", "1e-06"),
        (1e-7, "1e-7", "1e-07"),
        (1.25e-10, "1.25e-10", "1.25e-10"),
        (12345.678, "12345.678", "12345.678"),
        (-0.00001234, "-0.00001234", "-1.234e-05"),
        (123456789.125e12, "123456789125000000000", "123456789125000000000"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, wire: str, text: str) -> None:
    assert json_values.number_text(value, wire=True) == wire
    assert json_values.number_text(value, wire=False) == text


def test_text_that_could_end_a_script_is_escaped_as_kubernetes_does() -> None:
    assert field_paths.wire(field_paths.value("<a>&")) == 'v:"\\u003ca\\u003e\\u0026"'


def test_true_and_one_are_different_elements_but_one_and_one_point_zero_are_the_same() -> None:
    assert field_paths.value(True) != field_paths.value(1)
    assert field_paths.value(1) == field_paths.value(1.0)


def test_elements_of_a_kind_yet_to_be_invented_are_left_out() -> None:
    assert fieldsets.from_wire({"f:a": {}, "z:b": {"f:c": {}}}) == {path("a")}


@pytest.mark.parametrize(
    "tree", [{"a": {}}, {"": {}}, {"k:[]": {}}, {"k:{": {}}, {"v:": {}}, {"i:x": {}}, {"f:a": 1}, []]
)
def test_a_tree_that_makes_no_sense_is_refused(tree: Any) -> None:
    with pytest.raises(errors.MalformedPatch, match="managedFields"):
        fieldsets.from_wire(tree)


def test_fields_are_listed_level_by_level() -> None:
    fields = [path("a", "b", "c"), path("a", "z"), path("a", "b"), path("b")]
    assert fieldsets.in_order(fields) == [path("b"), path("a", "b"), path("a", "z"), path("a", "b", "c")]


def test_taking_out_a_subtree_takes_out_everything_below_it() -> None:
    fields = frozenset({path("a"), path("a", "b"), path("a", "b", "c"), path("ab")})
    assert fieldsets.without_subtrees(fields, frozenset({path("a", "b")})) == {path("a"), path("ab")}


def test_declared_parents_join_their_members_but_map_entries_do_not() -> None:
    pod = schemas.for_kind("v1", "Pod")
    assert pod is not None
    container = field_paths.key({"name": "web"})
    fields = frozenset(
        {path("metadata", "labels", "app"), path("spec", "containers", container, "resources", "limits", "cpu")}
    )
    assert fieldsets.with_named_parents(fields, pod) - fields == {
        path("metadata"),
        path("metadata", "labels"),
        path("spec"),
        path("spec", "containers"),
        path("spec", "containers", container, "resources"),
        path("spec", "containers", container, "resources", "limits"),
    }


@pytest.mark.slow
@given(field_sets)
def test_the_wire_form_round_trips(fields: fieldsets.FieldSet) -> None:
    assert fieldsets.from_wire(fieldsets.to_wire(fields)) == fields


@pytest.mark.slow
@given(field_sets, field_sets)
def test_union_and_difference_on_the_wire_are_those_of_the_sets(
    left: fieldsets.FieldSet, right: fieldsets.FieldSet
) -> None:
    def again(fields: fieldsets.FieldSet) -> fieldsets.FieldSet:
        return fieldsets.from_wire(fieldsets.to_wire(fields))

    assert again(left | right) == again(left) | again(right)
    assert again(left - right) == again(left) - again(right)
    assert again(left & right) | again(left - right) == again(left)


@pytest.mark.slow
@given(field_sets, field_sets)
def test_nothing_of_a_removed_subtree_is_left(fields: fieldsets.FieldSet, roots: fieldsets.FieldSet) -> None:
    left = fieldsets.without_subtrees(fields, roots)
    assert left <= fields
    assert not left & roots
    assert not any(found[: len(root)] == root for found in left for root in roots)


@pytest.mark.slow
@given(field_sets)
def test_listing_is_a_permutation(fields: fieldsets.FieldSet) -> None:
    listed = fieldsets.in_order(fields)
    assert len(listed) == len(fields)
    assert frozenset(listed) == fields
