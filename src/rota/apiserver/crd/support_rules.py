"""Which parts of OpenAPI a custom kind's schema may use, and which extensions for lists and maps can be combined.

Rules and messages are upstream's. `schema_rules` checks whether a schema is structural, if `unsupported` finds nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rota.api import fields
from rota.api.fields import FieldError, Path
from rota.apiserver.crd import rule_errors
from rota.apiserver.crd.structure import META_FIELDS, JsonSchema

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
#: Parts of JSON Schema that are refused anywhere.
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What applies to a schema because of its position."""

    is_root: bool = False
    #: Why a default is not allowed; None if it is.
    no_defaults: str | None = None
    inside_meta: bool = False


def unsupported(schema: JsonSchema) -> bool:
    """Whether a schema uses, anywhere, a keyword that cannot be part of a structure."""
    return any(schema.get(name) for name in _UNSUPPORTED) or any(unsupported(part) for _, part in parts(schema))


def support_errors(schema: JsonSchema, path: Path) -> list[FieldError]:
    """All uses of unsupported keywords, and conflicting extensions."""
    return list(_errors(schema, path, _Place(is_root=True)))


def _errors(schema: JsonSchema, path: Path, place: _Place) -> Iterator[FieldError]:
    yield from _own_errors(schema, path, place)
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield fields.forbidden(path.child("uniqueItems"), why)
    additional = schema.get("additionalProperties")
    if schema.get("properties") and additional is not None and additional is not True:
        why = "additionalProperties and properties are mutual exclusive"
        yield fields.forbidden(path.child("additionalProperties"), why)
    for below, part in parts(schema):
        yield from _errors(part, _below(path, below), _place_of(below, schema, place))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield fields.invalid(path.child("x-kubernetes-preserve-unknown-fields"), False, "must be true or undefined")
    yield from _map_type_errors(schema, path)
    yield from _list_type_errors(schema, path)
    if schema.get("x-kubernetes-list-type") == "map":
        yield from _list_map_errors(schema, path)
    yield from _list_key_errors(schema, path)
    yield from rule_errors.form_errors(schema, path)


def _own_errors(schema: JsonSchema, path: Path, place: _Place) -> Iterator[FieldError]:
    type_ = schema.get("type")
    if type_ and type_ not in _TYPES:
        yield fields.not_supported(path.child("type"), type_, _TYPES)
    if schema.get("default") is not None and place.no_defaults is not None:
        yield fields.forbidden(path.child("default"), f"must not be set {place.no_defaults}".rstrip())
    for name in _UNSUPPORTED:
        if schema.get(name):
            yield fields.forbidden(path.child(name), f"{name} is not supported")
    if type_ == "null":
        why = "type cannot be set to null, use nullable as an alternative"
        yield fields.forbidden(path.child("type"), why)
    if isinstance(schema.get("items"), list):
        yield fields.forbidden(path.child("items"), "items must be a schema object and not an array")
    if place.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        why = "must not be used inside of resource meta"
        yield fields.forbidden(path.child("x-kubernetes-embedded-resource"), why)


def parts(schema: JsonSchema) -> Iterator[tuple[tuple[str, str | int | None], JsonSchema]]:
    """The nested schemas of a schema, each with its keyword and its key or index."""
    if isinstance(schema.get("additionalProperties"), dict):
        yield ("additionalProperties", None), schema["additionalProperties"]
    for name, part in (schema.get("properties") or {}).items():
        yield ("properties", name), part
    if isinstance(schema.get("not"), dict):
        yield ("not", None), schema["not"]
    for junctor in ("allOf", "oneOf", "anyOf"):
        for position, part in enumerate(schema.get(junctor) or ()):
            yield (junctor, position), part
    if isinstance(schema.get("items"), dict):
        yield ("items", None), schema["items"]


def _below(path: Path, step: tuple[str, str | int | None]) -> Path:
    keyword, key = step
    at = path.child(keyword)
    match key:
        case str():
            return at.key(key)
        case int():
            return at.index(key)
    return at


def _place_of(step: tuple[str, str | int | None], schema: JsonSchema, place: _Place) -> _Place:
    keyword, key = step
    below = replace(place, is_root=False)
    if keyword == "additionalProperties" and place.inside_meta:
        return replace(below, no_defaults="inside additionalProperties applying to object metadata")
    embeds = schema.get("x-kubernetes-embedded-resource")
    if keyword == "properties" and key in META_FIELDS and (place.is_root or embeds):
        no_defaults = f"in top-level {key}" if place.is_root else place.no_defaults
        return replace(below, inside_meta=True, no_defaults=no_defaults)
    return below


def _map_type_errors(schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    declared = schema.get("x-kubernetes-map-type")
    if declared is None:
        return
    if schema.get("type") != "object":
        yield _wrong_type(schema, path, "must be object if x-kubernetes-map-type is specified")
    if declared not in _MAP_TYPES:
        yield fields.not_supported(path.child("x-kubernetes-map-type"), declared, _MAP_TYPES)


def _list_type_errors(schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    declared, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if declared is not None and schema.get("type") != "array":
        yield _wrong_type(schema, path, "must be array if x-kubernetes-list-type is specified")
    elif declared == "set":
        yield from _set_errors(_items(schema), path.child("items"))
    if declared is not None and declared not in _LIST_TYPES:
        yield fields.not_supported(path.child("x-kubernetes-list-type"), declared, _LIST_TYPES)
    if keys and declared != "map":
        why, at = "must be map if x-kubernetes-list-map-keys is non-empty", path.child("x-kubernetes-list-type")
        yield fields.required(at, why) if declared is None else fields.invalid(at, declared, why)


def _set_errors(items: JsonSchema, path: Path) -> Iterator[FieldError]:
    """Elements of a set are compared as a whole."""
    why = "must be atomic as item of a list with x-kubernetes-list-type=set"
    inner = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and inner not in {None, "atomic"}:
        yield fields.invalid(path.child("x-kubernetes-list-type"), inner, why)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield fields.invalid(path.child("x-kubernetes-map-type"), fields.Literal("null"), why)


def _list_map_errors(schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    items = schema.get("items")
    if not keys:
        why = "must not be empty if x-kubernetes-list-type is map"
        yield fields.required(path.child("x-kubernetes-list-map-keys"), why)
    if items is None:
        yield fields.required(path.child("items"), "must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, dict):
        return
    if items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield fields.invalid(path.child("items", "type"), items.get("type") or "", why)
        return
    properties: Mapping[str, Any] = items.get("properties") or {}
    for position, key in enumerate(keys):
        if key not in properties:
            why = "entries must all be names of item properties"
            yield fields.invalid(path.child("x-kubernetes-list-map-keys"), keys, why)
        elif properties[key].get("type") in {"array", "object"}:
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield fields.invalid(path.child("items", "properties").key(key).child("type"), "object", why)
        if key in keys[:position]:
            yield fields.invalid(path.child("x-kubernetes-list-map-keys"), keys, "must not contain duplicate entries")


def _list_key_errors(schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    """The keys of list elements must be declared, and required or defaulted."""
    declared, items = schema.get("x-kubernetes-list-type"), _items(schema)
    if declared not in {"set", "map"}:
        return
    if items.get("nullable"):
        why = f"cannot be nullable when x-kubernetes-list-type is {declared}"
        yield fields.forbidden(path.child("items", "nullable"), why)
    if declared == "set":
        return
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        part = (items.get("properties") or {}).get(key)
        if part is None:
            continue
        at = path.child("items", "properties").key(key)
        if key not in (items.get("required") or ()) and part.get("default") is None:
            why = "so it must have a default or be a required property"
            yield fields.required(at.child("default"), f"this property is in x-kubernetes-list-map-keys, {why}")
        if part.get("nullable"):
            why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield fields.forbidden(at.child("nullable"), why)


def _items(schema: JsonSchema) -> JsonSchema:
    items = schema.get("items")
    return items if isinstance(items, dict) else {}


def _wrong_type(schema: JsonSchema, path: Path, why: str) -> FieldError:
    type_, at = schema.get("type"), path.child("type")
    return fields.invalid(at, type_, why) if type_ else fields.required(at, why)
