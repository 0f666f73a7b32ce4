"""Pruning and defaulting: removes undeclared fields and disallowed nulls, and sets defaults.

All functions change the object in place. The order is upstream's: prune, drop nulls, default; a null where a default
exists becomes that default. `apiVersion`, `kind` and `metadata` of the object itself are not touched.
"""

import copy
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.apiserver.crd.structure import META_FIELDS, NO_DEFAULT, Structure

#: How many bytes defaults may add to one object: the limit of a decoded body.
MAX_DEFAULTS_BYTES: Final = 3 * 1024 * 1024


def shape(obj: dict[str, Any], structure: Structure) -> list[str]:
    """Do all three; returns the sorted paths of the undeclared fields."""
    unknown = prune(obj, structure)
    drop_nulls(obj, structure)
    fill_defaults(obj, structure)
    return unknown


def prune(obj: dict[str, Any], structure: Structure) -> list[str]:
    """Remove undeclared fields from a complete object; returns their sorted paths."""
    unknown: list[str] = []
    for name in list(obj):
        if name not in META_FIELDS:
            _prune_field(obj, name, structure, "", unknown)
    return sorted(unknown)


def prune_value(value: Any, at: Structure) -> list[str]:
    """Remove undeclared fields from a value inside an object; returns their sorted paths."""
    unknown: list[str] = []
    _prune(value, at, "", unknown)
    return sorted(unknown)


def _prune_field(obj: dict[str, Any], name: str, at: Structure, path: str, unknown: list[str]) -> None:
    below = f"{path}.{name}" if path else name
    if name in at.properties:
        _prune(obj[name], at.properties[name], below, unknown)
    elif at.allows_additional:
        _prune(obj[name], at.additional, below, unknown)
    elif not at.preserves_unknown_fields:
        unknown.append(below)
        del obj[name]


#: Fields that are allowed without a declaration have no structure, so nothing is kept in their values.
_UNDECLARED = Structure()


def _prune(value: Any, at: Structure | None, path: str, unknown: list[str]) -> None:
    at = at or _UNDECLARED
    if isinstance(value, dict):
        for name in list(value):
            if not (at.embeds_resource and name in META_FIELDS):
                _prune_field(value, name, at, path, unknown)
    elif isinstance(value, list):
        # values preserved in a list without a structure are preserved completely
        if at.items is None and at.preserves_unknown_fields:
            return
        inherited = at.items
        for position, item in enumerate(value):
            _prune(item, inherited, f"{path}[{position}]", unknown)


def drop_nulls(value: Any, at: Structure | None) -> None:
    """Remove nulls from fields that are not nullable and have no default."""
    if at is None:
        return
    if isinstance(value, dict):
        for name, item in list(value.items()):
            below = at.of_field(name)
            if item is None and below is not None and not below.nullable and below.default is NO_DEFAULT:
                del value[name]
            else:
                drop_nulls(item, below)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, at.items)


def fill_defaults(value: Any, at: Structure | None) -> None:
    """Set absent fields, and nulls that are not allowed, to their default; RequestEntityTooLarge above the limit.

    A small default in a long list is a large object, so defaults are counted before they are copied.
    """
    _Defaults().fill(value, at)


class _Defaults:
    """The defaults added to one object."""

    def __init__(self) -> None:
        self._left_bytes = MAX_DEFAULTS_BYTES
        self._sizes: dict[int, int] = {}

    def fill(self, value: Any, at: Structure | None) -> None:
        """See `fill_defaults`."""
        if at is None or not at.holds_defaults:
            return
        if isinstance(value, dict):
            for name, below in at.properties.items():
                if below.default is not NO_DEFAULT and (name not in value or _is_wrong_null(value[name], below)):
                    value[name] = self._copy(below, name)
            for name in list(value):
                declared = at.properties.get(name)
                if declared is None and at.additional is not None and _is_wrong_null(value[name], at.additional):
                    value[name] = self._copy(at.additional, "")
                self.fill(value[name], declared or at.additional)
        elif isinstance(value, list) and at.items is not None:
            for position, item in enumerate(value):
                if _is_wrong_null(item, at.items):
                    value[position] = self._copy(at.items, "")
                self.fill(value[position], at.items)

    def _copy(self, at: Structure, name: str) -> Any:
        size = self._sizes.get(id(at))
        if size is None:
            size = self._sizes[id(at)] = len(msgspec.json.encode(at.default)) + len(name)
        self._left_bytes -= size
        if self._left_bytes < 0:
            why = f"the defaults of its kind would add more than {MAX_DEFAULTS_BYTES} bytes"
            raise errors.request_entity_too_large(why)
        return copy.deepcopy(at.default)


def _is_wrong_null(value: Any, at: Structure) -> bool:
    return value is None and not at.nullable
