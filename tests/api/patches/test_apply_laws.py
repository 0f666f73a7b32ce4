"""What must hold for server-side apply whatever is applied, updated and forced."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.api.patches import apply, errors, field_paths, fieldsets, json_values, managed, structural, typed
from rota.api.patches.versions import Versions

V1 = "example.com/v1"
PORT = {"type": "object", "properties": {"port": {"type": "integer"}, "proto": {"type": "string", "default": "TCP"}}}
ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "image": {"type": "string"},
        "args": {"type": "array", "items": {"type": "string"}},
        "ports": {
            "type": "array",
            "items": PORT,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "proto"],
        },
    },
}
SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "whole": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "x-kubernetes-map-type": "atomic",
        },
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "items": {
            "type": "array",
            "items": ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "deep": {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}},
    },
}
SCHEMA = structural.from_openapi({"type": "object", "properties": {"spec": SPEC}})
VERSIONS = Versions(schemas={V1: SCHEMA})

words = st.sampled_from(["a", "b", "c"])
numbers = st.integers(0, 3)
Objects = st.SearchStrategy[dict[str, Any]]
port: Objects = st.fixed_dictionaries({"port": numbers}, optional={"proto": st.sampled_from(["TCP", "UDP"])})


def _mergeable(alphabet: st.SearchStrategy[str]) -> dict[str, st.SearchStrategy[Any]]:
    """The fields that many managers can share, each owning entries of its own."""
    item: Objects = st.fixed_dictionaries(
        {"name": alphabet},
        optional={
            "image": alphabet,
            "args": st.lists(alphabet, min_size=1, max_size=2),
            "ports": st.lists(
                port, min_size=1, max_size=3, unique_by=lambda found: (found["port"], found.get("proto", "TCP"))
            ),
        },
    )
    return {
        "labels": st.dictionaries(alphabet, alphabet, min_size=1, max_size=3),
        "tags": st.lists(alphabet, min_size=1, max_size=3, unique=True),
        "items": st.lists(item, min_size=1, max_size=3, unique_by=lambda found: str(found["name"])),
    }


specs: Objects = st.fixed_dictionaries(
    {},
    optional={
        **_mergeable(words),
        "size": numbers,
        "whole": st.dictionaries(words, words, min_size=1, max_size=3),
        "deep": st.fixed_dictionaries({"a": st.fixed_dictionaries({"b": numbers})}),
    },
)


def _config(spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


configs: Objects = specs.filter(bool).map(_config)
#: Configurations that have no field in common with any of `configs`.
foreign: Objects = st.fixed_dictionaries({}, optional=_mergeable(st.sampled_from("xyz"))).map(_config)


def _at(step: int) -> str:
    return f"2024-01-01T00:00:{step:02}Z"


def _apply(
    live: dict[str, Any] | None, config: dict[str, Any], manager: str, *, force: bool = True, step: int = 0
) -> dict[str, Any]:
    return apply.apply(live, config, manager=manager, versions=VERSIONS, now=_at(step), force=force)


def _history(steps: list[tuple[str, str, dict[str, Any]]]) -> dict[str, Any]:
    """An object after some applies and updates."""
    live: dict[str, Any] | None = None
    for number, (operation, manager, config) in enumerate(steps):
        if operation == "apply" or live is None:
            live = _apply(live, config, manager, step=number)
        else:
            new = {**live, "spec": config["spec"]}
            live = apply.update(live, new, manager=manager, versions=VERSIONS, now=_at(number))
        live["metadata"]["uid"] = "1"
    assert live is not None
    return live


histories = st.lists(
    st.tuples(st.sampled_from(["apply", "apply", "update"]), st.sampled_from(["ann", "bea"]), configs),
    min_size=1,
    max_size=4,
).map(_history)


def _without_managed(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}


def _fields(obj: dict[str, Any], manager: str) -> fieldsets.FieldSet:
    owners = managed.decode(obj["metadata"].get("managedFields"))
    found = [own.fields for known, own in owners.items() if known.name == manager]
    return fieldsets.EMPTY.union(*found)


@pytest.mark.slow
@given(histories, configs)
def test_applying_the_same_configuration_twice_is_a_no_op(live: dict[str, Any], config: dict[str, Any]) -> None:
    once = _apply(live, config, "cat", step=30)
    assert _apply(once, config, "cat", force=False, step=40) == once


@pytest.mark.slow
@given(histories, configs)
def test_after_an_apply_the_object_has_what_was_applied(live: dict[str, Any], config: dict[str, Any]) -> None:
    result = _apply(live, config, "cat")
    merged = typed.merge(result, config, SCHEMA)
    assert json_values.same(_sorted_lists(merged), _sorted_lists(result))


@pytest.mark.slow
@given(histories, configs)
def test_an_applier_owns_exactly_the_fields_of_its_configuration(live: dict[str, Any], config: dict[str, Any]) -> None:
    result = _apply(live, config, "cat")
    assert _fields(result, "cat") == typed.fields_of(config, SCHEMA) - apply.SYSTEM_FIELDS


@pytest.mark.slow
@given(histories, foreign)
def test_managers_with_disjoint_fields_never_conflict(live: dict[str, Any], config: dict[str, Any]) -> None:
    result = _apply(live, config, "cat", force=False)
    for other in ("ann", "bea"):
        assert _fields(result, other) == _fields(live, other)


@pytest.mark.slow
@given(histories, foreign)
def test_coming_and_going_leaves_no_trace(live: dict[str, Any], config: dict[str, Any]) -> None:
    came = _apply(live, config, "cat", force=False)
    went = _apply(came, {key: value for key, value in config.items() if key != "spec"}, "cat")
    assert json_values.same(_sorted_lists(went), _sorted_lists(live))


@pytest.mark.slow
@given(configs, configs)
def test_a_conflict_names_exactly_the_fields_that_both_set_to_different_values(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    live = _apply(None, first, "ann")
    shared = typed.fields_of(first, SCHEMA) & typed.fields_of(second, SCHEMA)
    contested = shared & typed.compare(first, typed.merge(first, second, SCHEMA), SCHEMA).modified
    if not contested:
        _apply(live, second, "bea", force=False)
        return
    with pytest.raises(errors.ApplyConflict) as raised:
        _apply(live, second, "bea", force=False)
    assert [one.field for one in raised.value.conflicts] == [
        field_paths.text(path) for path in fieldsets.in_order(contested)
    ]


@pytest.mark.slow
@given(configs, configs)
def test_what_the_only_owner_lets_go_is_gone(first: dict[str, Any], second: dict[str, Any]) -> None:
    live = _apply(None, first, "ann")
    result = _apply(live, second, "ann", step=1)
    assert json_values.same(_sorted_lists(result["spec"]), _sorted_lists(second["spec"]))


@pytest.mark.slow
@given(histories, specs)
def test_an_update_gives_every_changed_field_to_the_updater_alone(live: dict[str, Any], spec: dict[str, Any]) -> None:
    new = {**live, "spec": spec}
    result = apply.update(live, new, manager="cat", versions=VERSIONS, now=_at(50))
    difference = typed.compare(_without_managed(live), _without_managed(new), SCHEMA)
    assert _fields(result, "cat") == (difference.modified | difference.added) - apply.SYSTEM_FIELDS
    for other in ("ann", "bea"):
        assert not _fields(result, other) & (difference.modified | difference.added | difference.removed)


@pytest.mark.slow
@given(histories, configs, st.booleans())
def test_arguments_are_never_changed_and_results_share_nothing_with_them(
    live: dict[str, Any], config: dict[str, Any], applied: bool
) -> None:
    before = copy.deepcopy((live, config))
    if applied:
        result = _apply(live, config, "cat")
    else:
        new = {**live, "spec": config["spec"]}
        result = apply.update(live, new, manager="cat", versions=VERSIONS, now=_at(50))
    _destroy(result)
    assert (live, config) == before


#: What holds other fields that managers own one by one.
CONTAINERS = {("spec", "labels"), ("spec", "tags"), ("spec", "items"), ("spec", "deep"), ("spec", "deep", "a")}


@pytest.mark.slow
@given(histories)
def test_absent_values_have_no_owner(live: dict[str, Any]) -> None:
    there = fieldsets.with_named_parents(typed.fields_of(live, SCHEMA), SCHEMA)
    for manager in ("ann", "bea"):
        for path in _fields(live, manager) - there:
            # Whoever filled a map or list owns it, also when an applier has taken the last thing out of it.
            assert tuple(one.content for one in path) in CONTAINERS or path[-1].content == "ports"


def test_an_emptied_map_stays_with_the_manager_that_filled_it() -> None:
    live = _history(
        [
            ("apply", "ann", _config({"size": 0})),
            ("update", "ann", _config({"labels": {"a": "a"}})),
            ("apply", "ann", _config({"labels": {"a": "b"}, "size": 1})),
            ("apply", "ann", _config({"size": 1})),
        ]
    )
    assert live["spec"] == {"size": 1}
    by_operation = {one["operation"]: one["fieldsV1"] for one in live["metadata"]["managedFields"]}
    assert by_operation["Update"] == {"f:spec": {"f:labels": {}}}


@pytest.mark.slow
@given(histories)
def test_the_record_round_trips(live: dict[str, Any]) -> None:
    entries = live["metadata"]["managedFields"]
    assert managed.encode(managed.decode(entries)) == entries


def _sorted_lists(value: Any) -> Any:
    """Values with their lists in one order: what counts here is what is in them."""
    if isinstance(value, dict):
        return {key: _sorted_lists(found) for key, found in value.items()}
    if isinstance(value, list):
        return sorted((_sorted_lists(found) for found in value), key=json_values.token)
    return value


def _destroy(value: Any) -> None:
    if isinstance(value, dict):
        for found in value.values():
            _destroy(found)
        value.clear()
    elif isinstance(value, list):
        for found in value:
            _destroy(found)
        value.clear()
