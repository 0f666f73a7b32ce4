"""Validation of a custom kind's schema: the supported part of OpenAPI, and structural.

Structural means that the shape of objects (types, fields, items, preserved fields, defaults) can be read off the schema
without solving it: `allOf`, `anyOf`, `oneOf` and `not` may only restrict values of fields that are declared outside of
them. Rules and messages are upstream's. `default_rules` checks defaults.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rota.api import fields, re2_matcher
from rota.api.fields import FieldError, Path
from rota.apiserver.crd.structure import JsonSchema

_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS: Final = ("anyOf", "allOf", "oneOf")


class _Level(enum.Enum):
    """The level of a schema; the value is the message if its type is missing."""

    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


#: Fields that shape an object and so must not be under a junctor, with the value they must have there.
_SHAPING: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}


def structural_errors(schema: JsonSchema, path: Path) -> list[FieldError]:
    """Why a schema is not structural, in the order of the messages."""
    found = [*_invariants(schema, _Level.ROOT, path), *_incomplete(schema, schema, path, path)]
    return sorted(found, key=str)


def _invariants(schema: JsonSchema, level: _Level, path: Path) -> Iterator[FieldError]:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    properties = _properties(schema)
    if schema.get("type") == "array" and items is None:
        yield fields.required(path.child("items"), "must be specified")
    if isinstance(items, dict):
        yield from _invariants(items, _Level.ITEM, path.child("items"))
    for name, part in properties.items():
        yield from _invariants(part, _Level.FIELD, path.child("properties").key(name))
    if additional is not None and level is _Level.ROOT:
        yield fields.forbidden(path.child("additionalProperties"), "must not be used at the root")
    if isinstance(additional, dict):
        yield from _invariants(additional, _Level.FIELD, path.child("additionalProperties"))
    yield from _extensions(schema, path)
    yield from _narrowing(schema, path, skip_any_of=schema.get("anyOf") == _INT_OR_STRING, outermost=True)
    yield from _type_rules(schema, level, path)
    if level is _Level.ROOT or schema.get("x-kubernetes-embedded-resource"):
        yield from _meta_rules(properties, level, path.child("properties"))


def _extensions(schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    if schema.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(name):
                yield fields.invalid(path.child(name), True, "must be false if x-kubernetes-int-or-string is true")


def _type_rules(schema: JsonSchema, level: _Level, path: Path) -> Iterator[FieldError]:
    type_, embeds = schema.get("type") or "", schema.get("x-kubernetes-embedded-resource")
    keeps = schema.get("x-kubernetes-preserve-unknown-fields")
    if embeds and type_ != "object":
        yield _wrong_type(type_, path.child("type"), "must be object if x-kubernetes-embedded-resource is true")
    elif not type_ and not schema.get("x-kubernetes-int-or-string") and not keeps:
        yield fields.required(path.child("type"), level.value)
    if embeds and schema.get("additionalProperties") is not None:
        why = "must not be used if x-kubernetes-embedded-resource is set"
        yield fields.forbidden(path.child("additionalProperties"), why)
    if level is _Level.ROOT and type_ not in {"", "object"}:
        yield fields.invalid(path.child("type"), type_, "must be object at the root")
    if embeds and not keeps and not _properties(schema):
        why = "if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield fields.required(path.child("properties"), f"must not be empty {why}")


def _meta_rules(properties: Mapping[str, JsonSchema], level: _Level, path: Path) -> Iterator[FieldError]:
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield fields.invalid(path.key(name).child("type"), properties[name].get("type") or "", "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    if metadata.get("type") != "object":
        yield fields.invalid(path.key("metadata").child("type"), metadata.get("type") or "", "must be object")
    narrowing = {name: part for name, part in metadata.items() if name not in {"type", "default"} and part}
    if _properties(narrowing).keys() <= {"name", "generateName"}:
        narrowing.pop("properties", None)
    if level is _Level.ROOT and narrowing:
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield fields.forbidden(path.key("metadata"), why)


def _narrowing(
    schema: JsonSchema, path: Path, *, skip_any_of: bool = False, outermost: bool = False
) -> Iterator[FieldError]:
    """The schemas under the junctors of a schema."""
    for junctor in _JUNCTORS:
        if junctor == "anyOf" and skip_any_of:
            continue
        for position, part in enumerate(schema.get(junctor) or ()):
            # int-or-string may also be declared within the first element of allOf
            first = outermost and junctor == "allOf" and position == 0
            exempt = first and part.get("anyOf") == _INT_OR_STRING
            yield from _narrowed(part, path.child(junctor).index(position), skip_any_of=exempt)
    if schema.get("not") is not None:
        yield from _narrowed(schema["not"], path.child("not"))
    if schema.get("pattern"):
        yield from _bad_pattern(schema["pattern"], path.child("pattern"))


def _narrowed(schema: JsonSchema, path: Path, *, skip_any_of: bool = False) -> Iterator[FieldError]:
    yield from _narrowing(schema, path, skip_any_of=skip_any_of)
    if isinstance(schema.get("items"), dict):
        yield from _narrowed(schema["items"], path.child("items"))
    for name, part in _properties(schema).items():
        yield from _narrowed(part, path.child("properties").key(name))
    for name, why in _SHAPING.items():
        if schema.get(name) not in (None, "", False, [], {}) or (name == "default" and schema.get(name) is not None):
            yield fields.forbidden(path.child(name), why)
    if "metadata" in _properties(schema):
        yield fields.forbidden(path.child("properties").key("metadata"), "must not be specified in a nested context")


def _bad_pattern(pattern: str, path: Path) -> Iterator[FieldError]:
    try:
        re2_matcher.compile_pattern(pattern)
    except re2_matcher.PatternError as error:
        yield fields.invalid(path, pattern, f"must be a valid regular expression, but isn't: {error}")


def _incomplete(narrowing: JsonSchema, shape: JsonSchema, shape_path: Path, path: Path) -> Iterator[FieldError]:
    """Fields that are used under junctors without being declared outside of them."""
    parts = [(path.child("not"), narrowing["not"])] if narrowing.get("not") is not None else []
    for junctor in _JUNCTORS:
        parts += [(path.child(junctor).index(at), part) for at, part in enumerate(narrowing.get(junctor) or ())]
    for below, part in parts:
        yield from _undeclared(part, shape, shape_path, below)


def _undeclared(narrowing: JsonSchema, shape: JsonSchema, shape_path: Path, path: Path) -> Iterator[FieldError]:
    yield from _incomplete(narrowing, shape, shape_path, path)
    inner: list[tuple[JsonSchema, Any, Path, Path]] = []
    if isinstance(narrowing.get("items"), dict):
        inner.append((narrowing["items"], shape.get("items"), shape_path.child("items"), path.child("items")))
    declared, place = _properties(shape), shape_path.child("properties")
    for name, part in _properties(narrowing).items():
        inner.append((part, declared.get(name), place.key(name), path.child("properties").key(name)))
    for part, counterpart, counterpart_path, below in inner:
        if isinstance(counterpart, dict):
            yield from _undeclared(part, counterpart, counterpart_path, below)
        else:
            yield fields.required(counterpart_path, f"because it is defined in {below}")


def _wrong_type(type_: str, path: Path, why: str) -> FieldError:
    return fields.invalid(path, type_, why) if type_ else fields.required(path, why)


def _properties(schema: JsonSchema) -> Mapping[str, JsonSchema]:
    return schema.get("properties") or {}
