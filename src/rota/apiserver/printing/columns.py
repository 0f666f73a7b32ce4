"""Columns of a table, and a printer: the columns of a kind with the function that fills them.

A printer is a value. It gets an object and the time, and returns one cell for each column. Objects may lack any field,
even their whole spec (a bookmark has only metadata), so `at` tolerates missing keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api.identifiers import GroupResource
from rota.apiserver.printing import durations

Object: TypeAlias = Mapping[str, Any]
Cells: TypeAlias = list[Any]

NONE: Final = "<none>"
UNSET: Final = "<unset>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; those with a priority above zero are shown only by `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def to_wire(self) -> dict[str, Any]:
        """A TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Printer:
    """How the objects of a kind become rows."""

    columns: tuple[Column, ...]
    cells: Callable[[Object, float], Cells]
    #: Conditions of the row, such as that the object is completed.
    conditions: Callable[[Object], list[dict[str, Any]]] | None = None


Printers: TypeAlias = Mapping[GroupResource, Printer]


def columns(text: str) -> tuple[Column, ...]:
    """Columns from lines `name | type | description`; a type may be followed by `name` (the format) and `wide`."""
    return tuple(_column(*(part.strip() for part in line.split("|"))) for line in text.strip().splitlines())


def _column(name: str, kind: str, description: str) -> Column:
    type_, *flags = kind.split()
    return Column(
        name=name,
        type=type_,
        format="name" if "name" in flags else "",
        description=description,
        priority=1 if "wide" in flags else 0,
    )


def at(value: Any, *path: str) -> Any:
    """The value at a path of keys; None if the path ends early."""
    for key in path:
        if not isinstance(value, dict):  # objects are plain dicts, and asking for Mapping is slower
            return None
        value = value.get(key)
    return value


def items(value: Any, *path: str) -> list[Any]:
    """The list at a path; empty if there is none."""
    return at(value, *path) or []


def name(obj: Object) -> str:
    """The object's name."""
    return at(obj, "metadata", "name") or ""


def age(obj: Object, now: float) -> str:
    """How long the object has existed."""
    return durations.since(at(obj, "metadata", "creationTimestamp"), now)


def terminating(obj: Object) -> bool:
    """Whether the object's deletion has begun."""
    return bool(at(obj, "metadata", "deletionTimestamp"))


def condition(obj: Object, type_: str) -> Mapping[str, Any] | None:
    """The first condition of a type in the object's status."""
    return next((one for one in items(obj, "status", "conditions") if one.get("type") == type_), None)


def holds(obj: Object, type_: str) -> bool:
    """Whether the first condition of a type is true."""
    found = condition(obj, type_)
    return found is not None and found.get("status") == "True"
