import copy
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.apiserver.crd import checks, pruning, shaping, structure, uniqueness


def _errors(schema: dict[str, Any], value: Any) -> list[str]:
    return [str(error) for error in checks.compile_value({"type": "object", "properties": {"a": schema}})({"a": value})]


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "integer"}, "x", 'a: Invalid value: "string": a in body must be of type integer: "string"'),
        ({"type": "string"}, None, 'a: Invalid value: "null": a in body must be of type string: "null"'),
        ({"type": "string", "maxLength": 2}, "abc", "a: Too long: may not be more than 2 bytes"),
        ({"type": "string", "minLength": 2}, "a", 'a: Invalid value: "a": a in body should be at least 2 chars long'),
        ({"type": "string", "pattern": "^a+$"}, "b", "a: Invalid value: \"b\": a in body should match '^a+$'"),
        ({"type": "string", "enum": ["x", "y"]}, "z", 'a: Unsupported value: "z": supported values: "x", "y"'),
        ({"type": "integer", "minimum": 1}, 0, "a: Invalid value: 0: a in body should be greater than or equal to 1"),
        (
            {"type": "integer", "maximum": 5, "exclusiveMaximum": True},
            5,
            "a: Invalid value: 5: a in body should be less than 5",
        ),
        ({"type": "integer", "multipleOf": 2}, 3, "a: Invalid value: 3: a in body should be a multiple of 2"),
        ({"type": "array", "maxItems": 1}, [1, 2], "a: Too many: 2: must have at most 1 item"),
        ({"type": "array", "minItems": 1}, [], "a: Invalid value: 0: a in body should have at least 1 items"),
        (
            {"type": "object", "minProperties": 1},
            {},
            "a: Invalid value: 0: a in body should have at least 1 properties",
        ),
        ({"type": "object", "required": ["b"]}, {}, "a.b: Required value"),
        (
            {"type": "array", "items": {"type": "boolean"}},
            [True, 1],
            'a[1]: Invalid value: "integer": a[1] in body must be of type boolean: "integer"',
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"k": 1},
            'a.k: Invalid value: "integer": a.k in body must be of type string: "integer"',
        ),
        (
            {"type": "string", "format": "date-time"},
            "soon",
            'a: Invalid value: "soon": a in body must be of type date-time: "soon"',
        ),
        (
            {"x-kubernetes-int-or-string": True},
            1.5,
            'a: Invalid value: "number": a in body must be of type integer,string: "number"',
        ),
        (
            {"type": "integer", "not": {"minimum": 3}},
            4,
            '<nil>: Invalid value: "": "a" must not validate the schema (not)',
        ),
    ],
)
def test_a_violation_has_the_message_of_kubernetes(schema: dict[str, Any], value: Any, message: str) -> None:
    assert _errors(schema, value) == [message]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "nullable": True}, None),
        ({"type": "number"}, 1),
        ({"type": "integer"}, 2.0),
        ({"x-kubernetes-int-or-string": True}, "50%"),
        ({"x-kubernetes-int-or-string": True}, 50),
        ({"x-kubernetes-preserve-unknown-fields": True}, ["anything", {"at": "all"}]),
        ({"type": "string", "format": "a-remark"}, "x"),
        ({"type": "string", "pattern": "b"}, "abc"),
        ({"type": "integer", "enum": [1, 2]}, 2),
        ({"type": "string", "format": "k8s-short-name"}, "my-name"),
    ],
)
def test_what_keeps_the_rules_is_fine(schema: dict[str, Any], value: Any) -> None:
    assert _errors(schema, value) == []


def test_the_alternative_that_fits_best_tells_what_is_wrong() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "oneOf": [{"required": ["x"], "properties": {"x": {"minimum": 5}}}, {"required": ["y"]}],
    }
    assert _errors(schema, {"x": 1}) == [
        '<nil>: Invalid value: "": "a" must validate one and only one schema (oneOf). Found none valid',
        "a.x: Invalid value: 1: a.x in body should be greater than or equal to 5",
    ]
    assert "Found 2 valid alternatives" in _errors(schema, {"x": 5, "y": 1})[0]


def test_true_is_not_one() -> None:
    assert _errors({"x-kubernetes-preserve-unknown-fields": True, "enum": [1]}, True)
    assert _errors({"x-kubernetes-preserve-unknown-fields": True, "enum": [True]}, 1)
    assert _errors({"type": "integer"}, True)


def test_sets_and_maps_hold_nothing_twice() -> None:
    shape = structure.read(
        {
            "type": "object",
            "properties": {
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {"type": "object", "properties": {"port": {"type": "integer"}}},
                },
            },
        }
    )
    obj = {
        "tags": ["a", "b", "a", "a"],
        "ports": [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}, {"protocol": "TCP", "port": 1}],
    }
    assert [str(error) for error in uniqueness.duplicates(obj, shape)] == [
        'tags[2]: Duplicate value: "a"',
        'ports[2]: Duplicate value: {"port":1,"protocol":"TCP"}',
    ]


def test_defaults_are_given_to_what_is_absent_at_every_depth_and_are_not_shared() -> None:
    shape = structure.read(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "default": {},
                    "properties": {
                        "list": {"type": "array", "default": [1]},
                        "kept": {"type": "string", "default": "d", "nullable": True},
                        "set": {"type": "string", "default": "d"},
                    },
                }
            },
        }
    )
    first: dict[str, Any] = {}
    pruning.shape(first, shape)
    assert first == {"spec": {"list": [1], "kept": "d", "set": "d"}}
    first["spec"]["list"].append(2)
    second: dict[str, Any] = {"spec": {"kept": None, "set": None}}
    pruning.shape(second, shape)
    assert second == {"spec": {"list": [1], "kept": None, "set": "d"}}


def test_undeclared_fields_go_and_are_named_but_not_where_they_are_preserved() -> None:
    shape = structure.read(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "items": {
                            "type": "array",
                            "items": {"type": "object", "properties": {"a": {"type": "string"}}},
                        },
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        "template": {
                            "type": "object",
                            "x-kubernetes-embedded-resource": True,
                            "properties": {"spec": {"type": "object"}},
                        },
                    },
                }
            },
        }
    )
    obj = {
        "apiVersion": "g/v1",
        "kind": "K",
        "metadata": {"name": "n"},
        "spec": {
            "items": [{"a": "x", "b": 1}],
            "free": {"any": {"thing": 1}},
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {}}, "spec": {"x": 1}, "y": 2},
        },
        "extra": 1,
    }
    assert pruning.shape(obj, shape) == ["extra", "spec.items[0].b", "spec.template.spec.x", "spec.template.y"]
    assert obj["spec"]["free"] == {"any": {"thing": 1}}  # type: ignore[index]
    assert obj["spec"]["template"] == {  # type: ignore[index]
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {}},
        "spec": {},
    }
    assert obj["metadata"] == {"name": "n"}


_SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.booleans(), st.integers(-5, 5), st.sampled_from([0.5, 1.5, -2.5]), st.text("ab", max_size=4)
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)),
    max_leaves=8,
)


def _schemas() -> st.SearchStrategy[dict[str, Any]]:
    numbers = st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": st.integers(-3, 3), "maximum": st.integers(-3, 3)},
    )
    strings = st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "maxLength": st.integers(0, 3),
            "minLength": st.integers(0, 3),
            "pattern": st.sampled_from(["^a", "b$", "^(ab)*$", "[^b]"]),
            "enum": st.lists(st.text("ab", max_size=2), min_size=1, max_size=3, unique=True),
        },
    )
    leaves = st.one_of(numbers, strings, st.just({"type": "boolean"}))

    def deeper(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        arrays = st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner},
            optional={"maxItems": st.integers(0, 3), "minItems": st.integers(0, 2)},
        )
        objects = st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)},
            optional={
                "required": st.lists(st.sampled_from("xyz"), min_size=1, max_size=2, unique=True),
                "minProperties": st.integers(0, 2),
                "maxProperties": st.integers(0, 3),
                "anyOf": st.lists(inner, min_size=1, max_size=2),
                "oneOf": st.lists(inner, min_size=1, max_size=2),
                "allOf": st.lists(inner, min_size=1, max_size=2),
                "not": inner,
            },
        )
        return st.one_of(arrays, objects)

    return st.recursive(leaves, deeper, max_leaves=5)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(_schemas(), _VALUES)
def test_the_verdict_is_that_of_json_schema(schema: dict[str, Any], value: Any) -> None:
    expected = jsonschema_rs.Draft4Validator(schema).is_valid(value)
    assert (checks.compile_value(schema)(value) == []) is expected


_NAMES = st.sampled_from(["a", "b", "kind", "metadata", "apiVersion"])
_NULLABLE_VALUES = st.recursive(
    st.none() | _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=4)),
    max_leaves=12,
)


def _structures(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    flags = {
        "x-kubernetes-preserve-unknown-fields": st.booleans(),
        "x-kubernetes-embedded-resource": st.booleans(),
        "nullable": st.booleans(),
        "default": _NULLABLE_VALUES,
    }
    if not depth:
        return st.fixed_dictionaries({}, optional=flags)
    below = _structures(depth - 1)
    inner = {
        "items": below,
        "properties": st.dictionaries(_NAMES, below, max_size=3),
        "additionalProperties": st.booleans() | below,
    }
    return st.fixed_dictionaries({}, optional={**flags, **inner})


@given(_structures(3), st.dictionaries(_NAMES, _NULLABLE_VALUES, max_size=5))
def test_a_compiled_shape_does_what_pruning_nulls_and_defaults_do(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    shape = structure.read(schema)
    expected, before = copy.deepcopy(obj), copy.deepcopy(obj)
    unknown = pruning.shape(expected, shape)
    found, named = shaping.compile_shape(shape)(obj)
    assert (found, named) == (expected, unknown)
    # what is shaped is a copy, except for metadata
    assert all(obj[name] == item for name, item in before.items() if name != "metadata")
