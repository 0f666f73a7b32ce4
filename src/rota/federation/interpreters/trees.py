"""Reading and changing nested members of wire objects."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from rota.api.patches import json_values

Object: TypeAlias = Mapping[str, Any]


def get(obj: Object, *path: str) -> Any:
    """The member at a path, or None."""
    value: Any = obj
    for step in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def changed(obj: Object) -> dict[str, Any]:
    """A copy that may be changed at every depth."""
    return {name: json_values.copy(value) for name, value in obj.items()}


def put(obj: dict[str, Any], value: Any, *path: str) -> None:
    """Set the member at a path, with the maps above it."""
    for step in path[:-1]:
        below = obj.get(step)
        if not isinstance(below, dict):
            below = obj[step] = {}
        obj = below
    obj[path[-1]] = value


def drop(obj: dict[str, Any], *path: str) -> None:
    """Remove the member at a path, if it is there."""
    for step in path[:-1]:
        below = obj.get(step)
        if not isinstance(below, dict):
            return
        obj = below
    obj.pop(path[-1], None)


def covers(present: Any, wanted: Any) -> bool:
    """Whether an object has all that is wanted of it; it may have more."""
    if isinstance(wanted, Mapping):
        return isinstance(present, Mapping) and all(
            covers(present.get(name), value) for name, value in wanted.items() if value not in (None, {}, [])
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(present, list | tuple)
            and len(present) == len(wanted)
            and all(covers(mine, theirs) for mine, theirs in zip(present, wanted, strict=True))
        )
    return bool(present == wanted)
