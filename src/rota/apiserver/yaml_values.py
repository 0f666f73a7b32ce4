"""The JSON subset of YAML, parsed within a budget.

libyaml turns the bytes into events; values are built from them here, so that nodes, depth, and what aliases and merge
keys repeat are counted while the document is read, and not after it has filled the memory. Scalars have the meaning of
go-yaml v2, with which Kubernetes reads YAML: dates and base-60 numbers are strings, `yes` and `on` are booleans.
"""

import io
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import yaml

from rota.api import gotext

#: How many values a document may have with its aliases expanded.
MAX_NODES: Final = 500_000
MAX_DEPTH: Final = 256
#: libyaml compares each directive with all before it.
_MAX_DIRECTIVES: Final = 16
_DIRECTIVE: Final = re.compile(rb"^%", re.MULTILINE)
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = "<<"
#: Whether a scalar needs no tag when it is plain, and when it is quoted.
_IMPLICIT_WAYS: Final = ((True, False), (False, True))
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INTEGER: Final = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|0b[01]+|0o?[0-7]+|[1-9][0-9]*|0)")
#: Longer ones do not fit into 64 bits in any base.
_MAX_INTEGER_LENGTH: Final = 70
_INTEGERS: Final = range(-(1 << 63), 1 << 64)

_NULL: Final = ("", "~", "null", "Null", "NULL")
_TRUE: Final = ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON")
_FALSE: Final = ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF")
_WORDS: Final = dict[str, bool | None](
    [*dict.fromkeys(_NULL).items(), *dict.fromkeys(_TRUE, True).items(), *dict.fromkeys(_FALSE, False).items()]
)
_NOT_FINITE: Final = frozenset(
    sign + word for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN")
)

_Container: TypeAlias = dict[str, Any] | list[Any]
_Event: TypeAlias = Any


class YamlError(ValueError):
    """A document that is not YAML, that JSON cannot express, or that exceeds the budget."""


class NotText(YamlError):
    """The bytes are not text."""


def load(text: bytes) -> tuple[Any, list[str]]:
    """The value of the single document in a text, and the keys that occur more than once in a mapping."""
    if len(_DIRECTIVE.findall(text)) > _MAX_DIRECTIVES:
        raise YamlError("document contains too many directives")
    builder = _Builder()
    try:
        parser = yaml.CSafeLoader(text)
        try:
            while parser.check_event():
                builder.take(parser.get_event())
        finally:
            parser.dispose()
    except yaml.reader.ReaderError as error:
        raise NotText("control characters are not allowed") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise YamlError(" ".join(str(error).split())) from None
    return builder.value, builder.duplicates


def dump(value: Any) -> bytes:
    """A value as a document, with sorted keys.

    libyaml would serialize it in one call, during which no other thread runs; here it gets one event at a time.
    """
    stream = io.BytesIO()
    dumper = yaml.CSafeDumper(stream, encoding="utf-8", allow_unicode=True, sort_keys=True)
    try:
        dumper.open()
        dumper.emit(yaml.DocumentStartEvent(explicit=False))
        for event in _events(dumper, dumper.represent_data(value)):
            dumper.emit(event)
        dumper.emit(yaml.DocumentEndEvent(explicit=False))
        dumper.close()
    finally:
        dumper.dispose()
    return stream.getvalue()


def _events(dumper: Any, node: Any) -> Iterator[_Event]:
    if isinstance(node, yaml.ScalarNode):
        implicit = tuple(dumper.resolve(yaml.ScalarNode, node.value, way) == node.tag for way in _IMPLICIT_WAYS)
        yield yaml.ScalarEvent(None, node.tag, implicit, node.value, style=node.style)
    elif isinstance(node, yaml.SequenceNode):
        yield yaml.SequenceStartEvent(None, node.tag, implicit=True, flow_style=node.flow_style)
        for item in node.value:
            yield from _events(dumper, item)
        yield yaml.SequenceEndEvent()
    else:
        yield yaml.MappingStartEvent(None, node.tag, implicit=True, flow_style=node.flow_style)
        for key, item in node.value:
            yield from _events(dumper, key)
            yield from _events(dumper, item)
        yield yaml.MappingEndEvent()


class _Level:
    """A mapping or a list under construction."""

    __slots__ = ("anchor", "before", "height", "key", "merged", "merging", "value")

    def __init__(self, value: _Container, anchor: str | None, before: int) -> None:
        self.value: Final = value
        self.anchor: Final = anchor
        #: The number of nodes before this one.
        self.before: Final = before
        #: The key whose value comes next in a mapping.
        self.key: str | None = None
        #: Whether that key is a merge key, and the mappings to merge, the first of which has precedence.
        self.merging = False
        self.merged: list[dict[str, Any]] = []
        #: The depth of the values in this one.
        self.height = 0


class _Builder:
    """Builds values from events."""

    def __init__(self) -> None:
        self.value: Any = None
        self.duplicates: list[str] = []
        self._documents = 0
        self._nodes = 0
        self._levels: list[_Level] = []
        #: The value of an anchor, its number of nodes and its depth; None while it is under construction.
        self._anchors: dict[str, tuple[Any, int, int] | None] = {}

    def take(self, event: _Event) -> None:
        """Process the next event."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    def _scalar(self, event: _Event) -> None:
        self._count(1)
        implicit = event.implicit[0] and not event.style
        level = self._awaits_key()
        if level is not None and implicit and event.value == _MERGE:
            level.key, level.merging = _MERGE, True
            return
        value = _scalar(event, implicit=implicit)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1, 0)
        if level is not None:
            self._open_key(level, value)
        else:
            self._place(value, height=0)

    def _alias(self, event: _Event) -> None:
        if event.anchor not in self._anchors:
            raise YamlError(f"unknown anchor '{event.anchor}' referenced")
        known = self._anchors[event.anchor]
        if known is None:
            raise YamlError("document contains excessive aliasing: an anchor contains itself")
        value, size, height = known
        self._count(size)
        if len(self._levels) + height > MAX_DEPTH:
            raise YamlError("exceeded max depth")
        level = self._awaits_key()
        if level is not None:
            self._open_key(level, value)
        else:
            # a copy: objects are changed in place later
            self._place(_copy(value), height=height)

    def _begin(self, event: _Event) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag is not None and event.tag not in {"!", _TAG + ("map" if mapping else "seq")}:
            raise YamlError(f"cannot express {event.tag} in JSON")
        if len(self._levels) >= MAX_DEPTH:
            raise YamlError("exceeded max depth")
        if self._awaits_key() is not None:
            raise YamlError("a key must be a string")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._levels.append(_Level({} if mapping else [], event.anchor, self._nodes))
        self._count(1)

    def _end(self, _: _Event) -> None:
        level = self._levels.pop()
        size = self._nodes - level.before
        if isinstance(level.value, dict) and level.merged:
            own = dict(level.value)
            level.value.clear()
            for other in reversed(level.merged):
                level.value.update(other)
            level.value.update(own)
            size = _size(level.value)  # keys that are merged several times are there once
        height = level.height + 1
        if level.anchor is not None:
            self._anchors[level.anchor] = (level.value, size, height)
        self._place(level.value, height=height)

    def _document(self, _: _Event) -> None:
        self._documents += 1
        if self._documents > 1:
            raise YamlError("expected a single document in the stream")

    def _awaits_key(self) -> _Level | None:
        """The mapping whose next key comes now; None if a value comes."""
        if not self._levels:
            return None
        level = self._levels[-1]
        return level if level.key is None and isinstance(level.value, dict) else None

    def _open_key(self, level: _Level, value: Any) -> None:
        assert isinstance(level.value, dict)
        level.key = key = _key(value)
        if key in level.value:
            self.duplicates.append(key)

    def _place(self, value: Any, *, height: int) -> None:
        """Put a complete value in its place."""
        if not self._levels:
            self.value = value
            return
        level = self._levels[-1]
        if level.merging:  # the content of the mappings, not the mappings themselves
            height -= 2 if isinstance(value, list) else 1
        level.height = max(level.height, height)
        if isinstance(level.value, list):
            level.value.append(value)
            return
        assert level.key is not None, "a key is opened before its value"
        if level.merging:
            level.merged += _mappings(value)
        else:
            level.value[level.key] = value
        level.key, level.merging = None, False

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise YamlError(f"document contains excessive aliasing or more than {MAX_NODES} values")


_HANDLERS: Final[dict[type, Callable[[_Builder, _Event], None]]] = {
    yaml.ScalarEvent: _Builder._scalar,
    yaml.AliasEvent: _Builder._alias,
    yaml.MappingStartEvent: _Builder._begin,
    yaml.SequenceStartEvent: _Builder._begin,
    yaml.MappingEndEvent: _Builder._end,
    yaml.SequenceEndEvent: _Builder._end,
    yaml.DocumentStartEvent: _Builder._document,
}


def _mappings(value: Any) -> list[dict[str, Any]]:
    """The value of a merge key: a mapping, or a list of mappings."""
    found = value if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in found):
        raise YamlError("map merge requires map or sequence of maps as the value")
    return found


def _scalar(event: _Event, *, implicit: bool) -> Any:
    """The value of a scalar by its form or its tag."""
    text: str = event.value
    if implicit:
        return _plain(text)
    tag: str | None = event.tag
    if tag in {None, "!", _TAG + "str"}:
        return text
    value = _plain(text)
    wanted = {_TAG + "int": int, _TAG + "bool": bool, _TAG + "null": type(None), _TAG + "float": float}.get(tag or "")
    if wanted is float and type(value) is int:
        return float(value)
    if wanted is None or type(value) is not wanted:
        raise YamlError(f"cannot express {tag} in JSON")
    return value


def _plain(text: str) -> Any:
    """A scalar without quotes and tag."""
    first = text[:1]
    if first not in "+-.0123456789":
        return _WORDS.get(text, text) if len(text) < 6 else text
    if not text:
        return None
    digits = text.replace("_", "")
    if len(digits) <= _MAX_INTEGER_LENGTH and _INTEGER.fullmatch(digits):
        value = _integer(digits)
        if value in _INTEGERS:
            return value
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        if math.isinf(number):
            return text
        return number
    if text in _NOT_FINITE:
        raise YamlError(f"cannot express {text} in JSON")
    return text


def _integer(digits: str) -> int:
    sign, magnitude = (-1, digits[1:]) if digits[0] == "-" else (1, digits.removeprefix("+"))
    if len(magnitude) > 1 and magnitude[0] == "0" and magnitude[1] not in "xbo":
        return sign * int(magnitude, 8)
    return sign * int(magnitude, 0)


def _key(value: Any) -> str:
    """A key, which is text in JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return gotext.plain(value)
    raise YamlError("a key must be a string")


def _copy(value: Any) -> Any:
    """A copy of a value that was built here, within the depth limit."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def _size(value: Any) -> int:
    """How many nodes a value has."""
    if isinstance(value, dict):
        return 1 + sum(1 + _size(item) for item in value.values())
    return 1 + sum(map(_size, value)) if isinstance(value, list) else 1
