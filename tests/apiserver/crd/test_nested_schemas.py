from typing import Any

import pytest

from rota.api import errors
from rota.apiserver.crd import definitions, nested_schemas

Definition = dict[str, Any]


def _with_schema(definition: Definition, schema: Any) -> Definition:
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    return definition


@pytest.mark.parametrize(
    "broken",
    [
        "string",
        {"type": 5},
        {"type": "object", "properties": {"a": "string"}},
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": "5"}}},
        {"type": "array", "items": 5},
        {"type": "array", "items": [5]},
        {"type": "object", "additionalProperties": "yes"},
        {"type": "object", "properties": {"a": {"anyOf": [{"properties": {"b": 1}}]}}},
        {"type": "object", "not": {"properties": {"b": 1}}},
    ],
)
def test_a_schema_of_a_wrong_shape_is_refused_before_anything_walks_it(definition: Definition, broken: Any) -> None:
    with pytest.raises(errors.BadRequest, match="cannot be handled as a CustomResourceDefinition: json: cannot"):
        nested_schemas.clean_schemas(_with_schema(definition, broken))


def test_what_no_schema_has_is_dropped_at_every_depth(definition: Definition) -> None:
    schema = {
        "type": "object",
        "x-mine": 1,
        "properties": {
            "a": {"type": "array", "items": {"type": "object", "x-mine": 1, "additionalProperties": {"x-mine": 1}}},
            "b": None,
        },
        "allOf": [{"properties": {"a": {"x-mine": 1, "maxItems": 1}}}],
    }
    nested_schemas.clean_schemas(_with_schema(definition, schema))
    assert definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "object", "additionalProperties": {}}}, "b": {}},
        "allOf": [{"properties": {"a": {"maxItems": 1}}}],
    }


def test_a_schema_that_is_fine_stays_as_it_is(definition: Definition) -> None:
    before = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    nested_schemas.clean_schemas(definition)
    assert definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == before


def test_a_schema_without_a_bottom_is_refused(definition: Definition) -> None:
    schema: Definition = {"type": "string"}
    for _ in range(5000):
        schema = {"type": "object", "properties": {"x": schema}}
    with pytest.raises(errors.BadRequest, match="exceeded max depth"):
        nested_schemas.clean_schemas(_with_schema(definition, schema))


def test_an_empty_definition_is_judged_and_not_stumbled_over() -> None:
    empty: Definition = {"metadata": {"name": "x"}}
    definitions.set_defaults(empty)
    nested_schemas.clean_schemas(empty)
    told = {error.field for error in definitions.validate(empty)}
    assert {"spec.group", "spec.scope", "spec.names.plural", "spec.names.kind", "spec.versions"} <= told
