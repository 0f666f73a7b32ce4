"""JSON values as Kubernetes understands them.

Plain Python values (dict, list, str, int, float, bool, None) with the few operations where Python and Go differ:
equality (`True` is not `1`), an order over all scalars, and the way Go prints values inside error messages, which
users know and search for. `ABSENT` tells a field that is not there from one that is null.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias

Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]


class Missing(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Missing.ABSENT

#: A hashable stand-in for a JSON value; tokens of equal values are equal and tokens order as Kubernetes orders
#: values: numbers, strings, booleans, lists, maps, null.
Token: TypeAlias = tuple[Any, ...]


def token(value: Json) -> Token:
    """The token of `value`; `untoken` is its inverse."""
    match value:
        case None:
            return (5,)
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case list():
            return (3, tuple(token(item) for item in value))
        case _:
            return (4, tuple(sorted((key, token(item)) for key, item in value.items())))


def untoken(tok: Token) -> Json:
    """The JSON value that `tok` stands for."""
    match tok:
        case (5,):
            return None
        case (3, items):
            return [untoken(item) for item in items]
        case (4, items):
            return {key: untoken(item) for key, item in items}
        case _:
            return tok[1]


def same(left: Json, right: Json) -> bool:
    """Whether two values are equal as JSON: 1 equals 1.0, but True does not equal 1."""
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(same(item, right[key]) for key, item in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


_CONTAINERS: Final[frozenset[type]] = frozenset({dict, list})


def copy(value: Json) -> Json:
    """A deep copy, much faster than copy.deepcopy because JSON has no cycles and no other types."""
    # most values are scalars, which cost no call here
    if isinstance(value, dict):
        return {key: copy(item) if item.__class__ in _CONTAINERS else item for key, item in value.items()}
    if isinstance(value, list):
        return [copy(item) if item.__class__ in _CONTAINERS else item for item in value]
    return value


def number_text(value: float, *, wire: bool) -> str:
    """A number as Go writes it: on the wire (JSON) or for people (`%v`); they differ in small exponents."""
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    shortest = Decimal(repr(value)).normalize()
    power = shortest.adjusted()
    if (-6 if wire else -4) <= power < 21:
        return format(shortest, "f")
    first, *rest = shortest.as_tuple().digits
    mantissa = f"{'-' if value < 0 else ''}{first}{'.' if rest else ''}{''.join(map(str, rest))}"
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):0{1 if wire and power < 0 else 2}d}"


#: Kubernetes escapes these inside strings so that JSON can be pasted into HTML and JavaScript.
_ESCAPED = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})


def json_text(value: Json) -> str:
    """JSON exactly as Kubernetes writes it, compact and with keys in order; managedFields compares such texts."""
    match value:
        case dict():
            return "{" + ",".join(f"{json_text(key)}:{json_text(value[key])}" for key in sorted(value)) + "}"
        case list():
            return "[" + ",".join(json_text(item) for item in value) + "]"
        case float():
            return number_text(value, wire=True)
        case _:
            return json.dumps(value, ensure_ascii=False).translate(_ESCAPED)


_QUOTED = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quoted(text: str) -> str:
    """A string in double quotes as Go's `%q` writes it."""
    return '"' + "".join(_quoted_character(char) for char in text) + '"'


def _quoted_character(char: str) -> str:
    if char in _QUOTED:
        return _QUOTED[char]
    if char == " " or char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown(value: Json) -> str:
    """A value as Go's `%v` writes it, for messages."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | float():
            return number_text(value, wire=False)
        case list():
            return "[" + " ".join(shown(item) for item in value) + "]"
        case _:
            return "map[" + " ".join(f"{key}:{shown(value[key])}" for key in sorted(value)) + "]"


def type_name(value: Json) -> str:
    """The Go type that a decoded JSON value has, for messages."""
    match value:
        case None:
            return "%!s(<nil>)"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"
