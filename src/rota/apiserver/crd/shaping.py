"""The shape of a version, compiled once: one function for each node of its structure copies a value and prunes it.

`compile_shape` has the results of `pruning.shape`, which defines them, on a copy, in one walk instead of four: what is
undeclared is not copied, and neither are disallowed nulls. Values that are preserved as a whole are copied without
looking at any structure. Only defaults are set in a second walk, and only where the structure has some.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from rota.api.patches import json_values
from rota.apiserver.crd import pruning
from rota.apiserver.crd.structure import META_FIELDS, NO_DEFAULT, Structure

#: Copies the part of a value that its structure declares; the paths of other fields are added to the list.
_Copy: TypeAlias = Callable[[Any, str, list[str]], Any]
#: How a field is copied, and whether it is left out if it is null.
_Field: TypeAlias = tuple[_Copy, bool]
_CONTAINERS: Final[frozenset[type]] = frozenset({dict, list})


def compile_shape(structure: Structure) -> Callable[[dict[str, Any]], tuple[dict[str, Any], list[str]]]:
    """A function that returns the shaped copy of an object, and the sorted paths of its undeclared fields.

    `metadata` is the object's own, not a copy.
    """
    copy = _compile(structure, is_object=True)
    has_defaults = structure.holds_defaults

    def shape(obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        unknown: list[str] = []
        shaped: dict[str, Any] = copy(obj, "", unknown)
        pruning.drop_nulls(shaped.get("metadata"), structure.of_field("metadata"))
        if has_defaults:
            pruning.fill_defaults(shaped, structure)
        unknown.sort()
        return shaped, unknown

    return shape


def _compile(at: Structure | None, *, is_object: bool = False) -> _Copy:
    """`is_object` is for whole objects, whose `apiVersion`, `kind` and `metadata` are not pruned."""
    if at is None:
        return _prune_all
    if at.is_opaque and not is_object:
        return _preserve
    fields, other = _fields(at, is_object=is_object), _undeclared(at)
    items = _compile(at.items)
    preserves_items = at.items is None and at.preserves_unknown_fields

    def copy(value: Any, path: str, unknown: list[str]) -> Any:
        if isinstance(value, dict):
            copied = {}
            for name, item in value.items():
                known = fields.get(name, other)
                if known is None:
                    unknown.append(f"{path}.{name}" if path else name)
                elif item.__class__ in _CONTAINERS:
                    copied[name] = known[0](item, f"{path}.{name}" if path else name, unknown)
                elif item is not None or not known[1]:
                    copied[name] = item
            return copied
        if isinstance(value, list):
            if preserves_items:
                return json_values.copy(value)
            return [
                items(item, f"{path}[{position}]", unknown) if item.__class__ in _CONTAINERS else item
                for position, item in enumerate(value)
            ]
        return value

    return copy


def _fields(at: Structure, *, is_object: bool) -> dict[str, _Field]:
    """How fields are copied that are declared, or that every object has."""
    fields = {name: (_compile(below), _drops_null(below)) for name, below in at.properties.items()}
    if is_object or at.embeds_resource:
        for name in META_FIELDS:
            declared = at.of_field(name)
            fields[name] = (_preserve, False) if declared is None else (_without_nulls(declared), _drops_null(declared))
    if is_object:
        fields["metadata"] = _share, fields["metadata"][1]
    return fields


def _undeclared(at: Structure) -> _Field | None:
    """How other fields are copied; None if they are not."""
    if at.allows_additional:
        return _compile(at.additional), at.additional is not None and _drops_null(at.additional)
    return (_preserve, False) if at.preserves_unknown_fields else None


def _without_nulls(at: Structure) -> _Copy:
    """A copy that is not pruned, but loses disallowed nulls."""

    def copy(value: Any, _path: str, _unknown: list[str]) -> Any:
        copied = json_values.copy(value)
        pruning.drop_nulls(copied, at)
        return copied

    return copy


def _preserve(value: Any, _path: str, _unknown: list[str]) -> Any:
    return json_values.copy(value)


def _prune_all(value: Any, path: str, unknown: list[str]) -> Any:
    """A value without any structure: nothing is kept in it."""
    if isinstance(value, dict):
        unknown += [f"{path}.{name}" if path else name for name in value]
        return {}
    if isinstance(value, list):
        return [_prune_all(item, f"{path}[{position}]", unknown) for position, item in enumerate(value)]
    return value


def _share(value: Any, _path: str, _unknown: list[str]) -> Any:
    return value


def _drops_null(at: Structure) -> bool:
    return not at.nullable and at.default is NO_DEFAULT
