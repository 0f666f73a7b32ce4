"""Rows of custom kinds, by the printer columns of their definition.

A definition's `additionalPrinterColumns` have a JSONPath and a type each. A missing value, or one that does not have
the column's type, is an empty cell. Without columns the age is shown.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rota.api import gotext, jsonpaths, times
from rota.apiserver.printing import durations
from rota.apiserver.printing.columns import Cells, Column, Object, Printer, name

_NAME: Final = Column(name="Name", format="name", description="The name of the object.")
_AGE: Final[Mapping[str, Any]] = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": "How long the object has existed.",
}
#: Go's JSON escapes characters of HTML and JavaScript.
_ESCAPES: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
#: What Go prints for null.
_NO_VALUE: Final = "<no value>"


def printer(definitions: Sequence[Mapping[str, Any]] | None) -> Printer:
    """The printer of a custom kind, from the `additionalPrinterColumns` of one of its versions."""
    chosen = definitions or [_AGE]
    paths = [str(one.get("jsonPath") or "") for one in chosen]
    described = tuple(_column(one) for one in chosen)

    def cells(obj: Object, now: float) -> Cells:
        values = (_cell(column.type, path, obj, now) for column, path in zip(described, paths, strict=True))
        return [name(obj), *values]

    return Printer(columns=(_NAME, *described), cells=cells)


def _column(definition: Mapping[str, Any]) -> Column:
    return Column(
        name=definition.get("name") or "",
        type=definition.get("type") or "string",
        format=definition.get("format") or "",
        description=definition.get("description") or f"The value at {definition.get('jsonPath')} of the object.",
        priority=definition.get("priority") or 0,
    )


def _cell(type_: str, path: str, obj: Object, now: float) -> Any:
    try:
        found = jsonpaths.find(path, obj)
    except jsonpaths.PathError:
        return None
    if not found:
        return None
    if type_ == "date":
        return _date(found[0], now)
    show = _TYPES.get(type_)
    return show(found[0]) if show else None


def _string(value: Any) -> str:
    if isinstance(value, dict | list):
        encoded = json.dumps(_plain(value), separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        return encoded.translate(_ESCAPES)
    if isinstance(value, bool | int | float):
        return gotext.plain(value)
    return _NO_VALUE if value is None else str(value)


def _plain(value: Any) -> Any:
    """The same with whole numbers as Go writes them, without a point."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else value


def _integer(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if abs(value) < 2**63 else None


def _number(value: Any) -> float | None:
    return _plain(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: float) -> str | None:
    if not isinstance(value, str):
        return None
    if value in {"", "null"}:
        return durations.UNKNOWN
    try:
        return durations.since(value, now)
    except times.TimeError:
        return durations.INVALID


_TYPES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}
