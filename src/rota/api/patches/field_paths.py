"""Paths to fields, as managedFields writes them and as people read them.

A path is a tuple of elements: a field of a map, an element of a keyed list, an element of a set, or a position. On the
wire an element is `f:name`, `k:{"name":"web"}`, `v:"x"` or `i:0`; in messages a path reads
`.spec.containers[name="web"].image`. Elements order as Kubernetes orders them, so they can simply be sorted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from rota.api.patches.errors import MalformedPatch
from rota.api.patches.json_values import Json, json_text, quoted, shown, token, untoken

FIELD, KEY, VALUE, INDEX = range(4)


class PathElement(NamedTuple):
    """One step of a path; a tuple, so that comparing, hashing and sorting run in C."""

    kind: int
    #: FIELD: the name. KEY: pairs of name and value token, by name. VALUE: a value token. INDEX: the position.
    content: Any

    def text(self) -> str:
        """The element as people read it."""
        if self.kind == FIELD:
            return f".{self.content}"
        if self.kind == KEY:
            return "[" + ",".join(f"{name}={_scalar_text(untoken(tok))}" for name, tok in self.content) + "]"
        if self.kind == VALUE:
            return f"[={_scalar_text(untoken(self.content))}]"
        return f"[{self.content}]"


Path: TypeAlias = tuple[PathElement, ...]


def field(name: str) -> PathElement:
    """A field of a map."""
    return PathElement(FIELD, name)


def key(fields: Mapping[str, Json]) -> PathElement:
    """The element of a list that has these values in its key fields."""
    return PathElement(KEY, tuple(sorted((name, token(value)) for name, value in fields.items())))


def value(item: Json) -> PathElement:
    """The element of a set."""
    return PathElement(VALUE, token(item))


def index(position: int) -> PathElement:
    """The element at a position."""
    return PathElement(INDEX, position)


def path(*steps: str | PathElement) -> Path:
    """A path; plain strings are field names."""
    return tuple(field(step) if isinstance(step, str) else step for step in steps)


def text(steps: Iterable[PathElement]) -> str:
    """A path as people read it."""
    return "".join(step.text() for step in steps)


# The same few hundred elements come and go with every write; reading and writing them is most of the bookkeeping.
_REMEMBERED = 8192


@lru_cache(_REMEMBERED)
def wire(element: PathElement) -> str:
    """The element as a key of FieldsV1."""
    if element.kind == FIELD:
        return f"f:{element.content}"
    if element.kind == KEY:
        pairs = (f"{json_text(name)}:{json_text(untoken(tok))}" for name, tok in element.content)
        return "k:{" + ",".join(pairs) + "}"
    if element.kind == VALUE:
        return f"v:{json_text(untoken(element.content))}"
    return f"i:{element.content}"


@lru_cache(_REMEMBERED)
def parse(text: str) -> PathElement | None:
    """The element that a key of FieldsV1 stands for; None for kinds of elements that a later version may add."""
    kind, separator, rest = text[:1], text[1:2], text[2:]
    if not kind or separator != ":":
        raise MalformedPatch(f"managedFields: {quoted(text)} is not a field path element")
    try:
        match kind:
            case "f":
                return field(rest)
            case "k":
                return key(_object(rest))
            case "v":
                return value(json.loads(rest))
            case "i":
                return index(int(rest))
    except ValueError as error:
        raise MalformedPatch(f"managedFields: {quoted(text)} is not a field path element: {error}") from error
    return None


def _object(text: str) -> dict[str, Json]:
    decoded = json.loads(text)
    if not isinstance(decoded, dict):
        raise ValueError("expected an object after k:")
    return decoded


def _scalar_text(item: Json) -> str:
    if isinstance(item, str):
        return quoted(item)
    return "null" if item is None else shown(item)
