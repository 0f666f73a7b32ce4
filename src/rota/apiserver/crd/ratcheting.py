"""Ratcheting: suppresses validation errors about parts that an update does not change.

When a definition becomes stricter, existing objects may violate it. An update that leaves the invalid part unchanged is
accepted, so that labels and finalizers can still be changed; an update of that part must fix it. An element of a list
counts as unchanged only if the whole list is: elements have no identity here.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rota.api.fields import ErrorType, FieldError

_ABSENT: Final = object()
_INDEX: Final = re.compile(r"\[.*", re.DOTALL)


def fresh(errors: Iterable[FieldError], new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    """The errors about changed parts, and those about no particular field."""
    return [error for error in errors if not _was_there(error, new, old)]


def _was_there(error: FieldError, new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    steps = _INDEX.sub("", error.field).split(".")
    if error.type is ErrorType.REQUIRED:
        # a missing field belongs to the object around it
        steps = steps[:-1]
    value = _value(new, steps)
    return value is not _ABSENT and bool(steps) and same(value, _value(old, steps))


def _value(obj: Any, steps: list[str]) -> Any:
    for step in steps:
        if not isinstance(obj, dict) or step not in obj:
            return _ABSENT
        obj = obj[step]
    return obj


def same(value: Any, other: Any) -> bool:
    """Equality of JSON: true is not 1."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(item, other[name]) for name, item in value.items())
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(same, value, other))
    return value == other and isinstance(value, bool) == isinstance(other, bool)
