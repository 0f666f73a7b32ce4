"""Values of Lua scripts as JSON. Pure.

A table has no kind: an empty one may be a list or a map. So an empty table is what the objects that the script got
have at the same place; where they have nothing, it is left out, as upstream does.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]

#: Stands for an empty table until its place is known.
EMPTY: Final = object()


class NotJson(ValueError):
    """A script returned what no object can hold."""


def without_nulls(value: Any) -> Any:
    """A value for a script: Lua has no null in tables."""
    if isinstance(value, Mapping):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(one) for one in value if one is not None]
    return value


def number(value: float) -> int | float:
    """A Lua number, whole if it is."""
    if math.isnan(value) or math.isinf(value):
        raise NotJson(f"{value} is no number of JSON")
    return int(value) if float(value).is_integer() else value


def table(entries: Sequence[tuple[Any, Any]]) -> Any:
    """A table's entries as a list or a map."""
    if not entries:
        return EMPTY
    keys = [key for key, _ in entries]
    if all(isinstance(key, str) for key in keys):
        return dict(entries)
    ordered = sorted(entries, key=lambda entry: entry[0]) if all(isinstance(key, int) for key in keys) else []
    if [key for key, _ in ordered] != list(range(1, len(keys) + 1)):
        raise NotJson("a table has neither only names nor the numbers from 1 on")
    return [value for _, value in ordered]


def resolved(value: Any, references: Sequence[Any]) -> Any:
    """The value with every empty table as the references have it; a whole that is empty is an empty map."""
    if value is EMPTY:
        return {}
    known: dict[Path, Any] = {}
    for reference in references:
        _empties(reference, (), known)
    return _filled(value, (), known)


def _empties(value: Any, path: Path, found: dict[Path, Any]) -> None:
    if isinstance(value, Mapping):
        if not value:
            found[path] = {}
        for name, one in value.items():
            _empties(one, (*path, name), found)
    elif isinstance(value, list | tuple):
        if not value:
            found.setdefault(path, [])
        for place, one in enumerate(value):
            _empties(one, (*path, place), found)


def _filled(value: Any, path: Path, known: Mapping[Path, Any]) -> Any:
    if isinstance(value, dict):
        return {
            name: _filled(one, (*path, name), known) if one is not EMPTY else known[(*path, name)]
            for name, one in value.items()
            if one is not EMPTY or (*path, name) in known
        }
    if isinstance(value, list):
        return [{} if one is EMPTY else _filled(one, (*path, place), known) for place, one in enumerate(value)]
    return value
