from typing import Any

import pytest

from rota.apiserver.crd import checks, ratcheting

_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "size": {"type": "integer", "maximum": 5},
                "flag": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 2}},
                "inner": {"type": "object", "anyOf": [{"required": ["x"]}], "properties": {"x": {"type": "string"}}},
            },
        }
    },
}


def _complaints(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    errors = checks.compile_value(_SCHEMA)({"spec": new})
    return [error.field for error in ratcheting.fresh(errors, {"spec": new}, {"spec": old})]


@pytest.mark.parametrize(
    ("old", "new", "complaints"),
    [
        ({"name": "a", "size": 9}, {"name": "b", "size": 9}, []),
        ({"name": "a", "size": 9}, {"name": "a", "size": 8}, ["spec.size"]),
        ({"name": "a"}, {"name": "a", "size": 9}, ["spec.size"]),
        ({"size": 1}, {"size": 1}, []),
        ({"size": 1}, {"size": 2}, ["spec.name"]),
        ({"name": "a"}, {}, ["spec.name"]),
        ({"name": "a", "flag": True}, {"name": "b", "flag": True}, []),
        ({"name": "a", "flag": 1}, {"name": "b", "flag": True}, ["spec.flag"]),
        ({"name": "a", "tags": ["long", "b"]}, {"name": "b", "tags": ["long", "b"]}, []),
        ({"name": "a", "tags": ["long", "b"]}, {"name": "a", "tags": ["long"]}, ["spec.tags[0]"]),
        ({"name": "a", "inner": {}}, {"name": "b", "inner": {}}, ["<nil>"]),
    ],
)
def test_only_what_an_update_touches_is_held_against_it(
    old: dict[str, Any], new: dict[str, Any], complaints: list[str]
) -> None:
    assert _complaints(old, new) == complaints
