"""Schemas for patches: the fields of a kind, which lists and maps merge, and by which keys.

`for_kind` knows every built-in kind, from a table distilled out of Kubernetes' own schemas
(`scripts/generate-merge-schema`); `rota.api.patches.structural` builds the same from a custom resource's schema.
`DEDUCED` is for objects without any schema: maps merge, lists are one value. Schemas are shared and never change
once built. Validation of values beyond their JSON type is not done here.

The table's grammar, in one expression for each field:

    s n b u      string, number, boolean, any scalar (dates, quantities, int-or-string)
    ? !          anything, deduced from the value; anything, taken as one opaque value
    @name        a struct of the table
    [x] {x}      a list of x, replaced as a whole; a map from string to x
    {...}        the long form: one of "type", "list", "map", and facts: "by" (the keys of a list whose elements merge;
                 none for a set), "defaults" (of keys), "atomic", "patch" and "key" (strategic merge)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias

import msgspec

from rota.api.patches.json_values import Json

ScalarKind: TypeAlias = Literal["string", "numeric", "boolean", "untyped"]


@dataclass(slots=True, eq=False, kw_only=True)
class TypeSchema:
    """The forms that a value may take; several where the type is loose, as in `DEDUCED`."""

    #: The struct's name, as in Kubernetes' Go code; empty for anonymous types.
    name: str = ""
    scalar: ScalarKind | None = None
    items: ListSchema | None = None
    map: MapSchema | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ListSchema:
    """A list: one value as a whole, a set of scalars, or elements told apart by keys."""

    element: TypeSchema
    relation: Literal["atomic", "set", "map"] = "atomic"
    keys: tuple[str, ...] = ()
    #: What a key counts as where an element leaves it out.
    key_defaults: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Field:
    """A declared field of a struct, with what strategic merge does to it."""

    type: TypeSchema
    #: `merge`, `replace`, `retainKeys`; empty for the default (maps merge, lists are replaced).
    strategies: frozenset[str] = frozenset()
    merge_key: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MapSchema:
    """A struct (declared fields), a map (one element type), or both."""

    fields: Mapping[str, Field] = field(default_factory=dict)
    #: The type of fields that are not declared; None where there must not be any.
    element: TypeSchema | None = None
    atomic: bool = False
    #: Fields that Kubernetes' types always carry, set or not, with the empty value they carry: {} or None.
    present: Mapping[str, Json] = field(default_factory=dict)

    def child(self, name: str) -> TypeSchema:
        """The type of one field; undeclared fields that should not be there are deduced from their value."""
        declared = self.fields.get(name)
        if declared is not None:
            return declared.type
        return self.element or DEDUCED


def _untyped(*, atomic: bool) -> TypeSchema:
    schema = TypeSchema(scalar="untyped")
    schema.items = ListSchema(element=schema if atomic else OPAQUE)
    schema.map = MapSchema(element=schema, atomic=atomic)
    return schema


#: Anything at all, as one value.
OPAQUE = _untyped(atomic=True)
#: Anything at all: maps merge field by field, lists are one value. For objects without a schema.
DEDUCED = _untyped(atomic=False)
STRING = TypeSchema(scalar="string")
NUMERIC = TypeSchema(scalar="numeric")
BOOLEAN = TypeSchema(scalar="boolean")
UNTYPED = TypeSchema(scalar="untyped")

_SIMPLE = {"s": STRING, "n": NUMERIC, "b": BOOLEAN, "u": UNTYPED, "?": DEDUCED, "!": OPAQUE}


def for_kind(api_version: str, kind: str) -> TypeSchema | None:
    """The schema of a built-in kind, such as `for_kind("apps/v1", "Deployment")`; None for any other."""
    table = _builtin()
    name = table.kinds.get(api_version, {}).get(kind)
    return None if name is None else table.named(name)


def for_type(name: str) -> TypeSchema | None:
    """The schema of a struct of the table, such as `for_type("core.v1.PodSpec")`; None if it is not there."""
    table = _builtin()
    return table.named(name) if name in table.types else None


def object_meta() -> TypeSchema:
    """The schema of `metadata`, the same in every kind."""
    return _builtin().named("meta.v1.ObjectMeta")


def with_relation(schema: TypeSchema, *, atomic: bool) -> TypeSchema:
    """The same type where a field's own declaration overrides whether its map is one value."""
    assert schema.map is not None, "only maps can be declared atomic where they are used"
    return TypeSchema(
        name=schema.name, scalar=schema.scalar, items=schema.items, map=replace(schema.map, atomic=atomic)
    )


@cache
def _builtin() -> _Table:
    raw = resources.files("rota.api.patches").joinpath("merge_schema.json").read_bytes()
    return msgspec.json.decode(raw, type=_Table)


class _Table(msgspec.Struct):
    """The packaged table; types are built when first asked for, since one server serves few of them."""

    release: str
    kinds: dict[str, dict[str, str]]
    types: dict[str, dict[str, Any]]
    built: dict[str, TypeSchema] = msgspec.field(default_factory=dict)

    def named(self, name: str) -> TypeSchema:
        schema = self.built.get(name)
        if schema is None:
            schema = self.built[name] = TypeSchema(name=name.rpartition(".")[2])
            # Filled after it is registered: recursive types refer to themselves.
            schema.map = self._struct(self.types[name])
        return schema

    def _struct(self, entry: dict[str, Any]) -> MapSchema:
        return MapSchema(
            fields={name: self._field(expression) for name, expression in entry["fields"].items()},
            atomic=entry.get("atomic", False),
            present=entry.get("present", {}),
        )

    def _field(self, expression: str | dict[str, Any]) -> Field:
        if isinstance(expression, str):
            return Field(type=self._type(expression))
        strategies = expression.get("patch", "")
        return Field(
            type=self._type(expression),
            strategies=frozenset(strategies.split(",")) if strategies else frozenset(),
            merge_key=expression.get("key", ""),
        )

    def _type(self, expression: str | dict[str, Any]) -> TypeSchema:
        if isinstance(expression, str):
            return self._short(expression)
        if "list" in expression:
            return TypeSchema(items=self._list(expression))
        if "map" in expression:
            atomic = expression.get("atomic", False)
            return TypeSchema(map=MapSchema(element=self._type(expression["map"]), atomic=atomic))
        schema = self._short(expression["type"])
        return with_relation(schema, atomic=expression["atomic"]) if "atomic" in expression else schema

    def _short(self, expression: str) -> TypeSchema:
        if expression in _SIMPLE:
            return _SIMPLE[expression]
        if expression.startswith("@"):
            return self.named(expression[1:])
        inner = self._short(expression[1:-1])
        if expression.startswith("["):
            return TypeSchema(items=ListSchema(element=inner))
        return TypeSchema(map=MapSchema(element=inner))

    def _list(self, expression: dict[str, Any]) -> ListSchema:
        element = self._type(expression["list"])
        keys = expression.get("by")
        if keys is None:
            return ListSchema(element=element)
        return ListSchema(
            element=element,
            relation="map" if keys else "set",
            keys=tuple(keys),
            key_defaults=expression.get("defaults", {}),
        )
