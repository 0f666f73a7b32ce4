"""Lists that are sets or maps: no element, or no key, may occur twice.

A repeated element is reported once, at its first repetition. Pure.
"""

from typing import Any

import msgspec

from rota.api import fields
from rota.api.fields import FieldError, Path
from rota.apiserver.crd import checks
from rota.apiserver.crd.structure import Structure

_encoder = msgspec.json.Encoder(order="sorted")


def duplicates(value: Any, at: Structure | None, path: Path = fields.ROOT) -> list[FieldError]:
    """All repetitions in a value and below it."""
    if at is None or not at.holds_unique_lists:
        return []
    found: list[FieldError] = []
    if isinstance(value, dict):
        for name, item in value.items():
            declared = at.properties.get(name)
            below = path.child(name) if declared is not None else path.key(name)
            found += duplicates(item, declared or at.additional, below)
    elif isinstance(value, list):
        if at.list_type == "set":
            found += _repeated(value, path)
        elif at.list_type == "map":
            found += _repeated_keys(value, at.list_keys, path)
        for position, item in enumerate(value):
            found += duplicates(item, at.items, path.index(position))
    return found


def _repeated(values: list[Any], path: Path) -> list[FieldError]:
    seen: dict[bytes, int] = {}
    found = []
    for position, value in enumerate(values):
        encoded = _encoder.encode(value)
        seen[encoded] = seen.get(encoded, 0) + 1
        if seen[encoded] == 2:
            found.append(fields.duplicate(path.index(position), checks.shown_value(value)))
    return found


def _repeated_keys(values: list[Any], keys: tuple[str, ...], path: Path) -> list[FieldError]:
    for position, value in enumerate(values):
        if value is not None and not isinstance(value, dict):
            why = "must be an object for an array of list-type map"
            return [fields.invalid(path.index(position), checks.shown_value(value), why)]
    picked = [{key: value[key] for key in keys if key in value} for value in (one or {} for one in values)]
    return _repeated(picked, path)
