"""The schema of a custom kind, from its structural OpenAPI schema (CustomResourceDefinition).

Reads the `x-kubernetes-*` extensions that say how lists and maps merge: list-type, list-map-keys, map-type,
preserve-unknown-fields, embedded-resource. Lists are one value unless they say otherwise, maps merge unless they say
otherwise. The result is what `rota.api.patches.apply` needs; strategic merge patch does not exist for custom kinds.
"""

from __future__ import annotations

from collections.abc import Mapping

from rota.api.patches import schemas
from rota.api.patches.errors import MalformedPatch
from rota.api.patches.json_values import Json, JsonObject
from rota.api.patches.schemas import DEDUCED, OPAQUE, Field, ListSchema, MapSchema, TypeSchema


def from_openapi(schema: JsonObject, *, preserve_unknown_fields: bool = False) -> TypeSchema:
    """The schema of a whole object: `schema` plus the apiVersion, kind and metadata that every object has."""
    return _embedded(_type(schema, keep=preserve_unknown_fields))


def _embedded(schema: TypeSchema) -> TypeSchema:
    """A type whose values are whole objects."""
    shape = schema.map or MapSchema(element=DEDUCED)
    fields = {
        **shape.fields,
        "apiVersion": Field(type=schemas.STRING),
        "kind": Field(type=schemas.STRING),
        "metadata": Field(type=schemas.object_meta()),
    }
    return TypeSchema(map=MapSchema(fields=fields, element=shape.element, atomic=shape.atomic))


def _type(schema: JsonObject, *, keep: bool) -> TypeSchema:
    keep = keep or schema.get("x-kubernetes-preserve-unknown-fields") is True
    match schema.get("type"):
        case "object":
            built = TypeSchema(map=_map(schema, keep=keep))
            return _embedded(built) if schema.get("x-kubernetes-embedded-resource") is True else built
        case "array":
            return TypeSchema(items=_list(schema, keep=keep))
        case "integer" | "number":
            return schemas.NUMERIC
        case "boolean":
            return schemas.BOOLEAN
        case "string":
            return schemas.STRING if schema.get("format") in {None, "", "byte"} else schemas.UNTYPED
        case _:
            # No type: any value, such as int-or-string.
            return TypeSchema(scalar="untyped", items=_list(schema, keep=keep), map=_map(schema, keep=keep))


def _map(schema: JsonObject, *, keep: bool) -> MapSchema:
    properties: Mapping[str, JsonObject] = schema.get("properties") or {}
    return MapSchema(
        fields={name: Field(type=_type(member, keep=keep)) for name, member in properties.items()},
        element=_undeclared(schema, keep=keep),
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
    )


def _undeclared(schema: JsonObject, *, keep: bool) -> TypeSchema | None:
    """The type of fields that are not declared; None if there must not be any."""
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return _type(additional, keep=keep)
    if additional is None:
        return DEDUCED if keep or not schema.get("properties") else None
    return DEDUCED if additional else None


def _list(schema: JsonObject, *, keep: bool) -> ListSchema:
    items = schema.get("items")
    element = _type(items, keep=keep) if isinstance(items, dict) else OPAQUE
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return ListSchema(element=element, relation="set")
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            if not keys:
                raise MalformedPatch("a list of x-kubernetes-list-type map needs x-kubernetes-list-map-keys")
            return ListSchema(element=element, relation="map", keys=keys, key_defaults=_defaults(items, keys))
        case _:
            return ListSchema(element=element)


def _defaults(items: Json, keys: tuple[str, ...]) -> JsonObject:
    properties = (items or {}).get("properties") or {}
    defaults = {key: properties.get(key, {}).get("default") for key in keys}
    return {key: default for key, default in defaults.items() if default is not None}
