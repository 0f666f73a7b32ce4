"""Validation of a definition's version besides its schema: deprecation, scale, printer columns, selectable fields."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rota.api import fields
from rota.api.fields import FieldError, Path
from rota.apiserver.crd.structure import JsonSchema

MAX_SELECTABLE_FIELDS: Final = 8
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_SELECTABLE_TYPES: Final = frozenset({"string", "boolean", "integer"})
_MAX_WARNING: Final = 256


def deprecation_errors(version: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    """The deprecation warning."""
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield fields.invalid(path, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > _MAX_WARNING:
        yield fields.invalid(path, warning, f"must be <= {_MAX_WARNING} characters long")
    if not warning:
        yield fields.invalid(path, warning, "must not be an empty string")
    unprintable = next((at for at, character in enumerate(warning) if not character.isprintable()), None)
    if unprintable is not None:
        why = "must only contain printable UTF-8 characters; non-printable character found at index"
        yield fields.invalid(path, warning, f"{why} {unprintable}")


def scale_errors(scale: Mapping[str, Any] | None, path: Path) -> Iterator[FieldError]:
    """The paths of the replicas and their selector."""
    if scale is None:
        return
    for name, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value, at = scale.get(name) or "", path.child(f"scale.{name}")
        if not value:
            yield fields.required(at)
        elif not value.startswith("."):
            yield fields.invalid(at, value, "must be a simple json path starting with .")
        elif not value.startswith(root):
            yield fields.invalid(at, value, f"should be a json path under {root[:-1]}")
    selector, at = scale.get("labelSelectorPath") or "", path.child("scale.labelSelectorPath")
    if selector and not selector.startswith("."):
        yield fields.invalid(at, selector, "must be a simple json path starting with .")
    elif selector and not selector.startswith((".spec.", ".status.")):
        yield fields.invalid(at, selector, "should be a json path under either .spec or .status")


def column_errors(columns: Sequence[Mapping[str, Any]], path: Path) -> Iterator[FieldError]:
    """The printer columns."""
    for position, column in enumerate(columns):
        at = path.index(position)
        type_, format_, json_path = (column.get(name) or "" for name in ("type", "format", "jsonPath"))
        if not column.get("name"):
            yield fields.required(at.child("name"))
        if type_ not in _COLUMN_TYPES:
            why = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield fields.invalid(at.child("type"), type_, why) if type_ else fields.required(at.child("type"), why)
        if format_ and format_ not in _COLUMN_FORMATS:
            yield fields.invalid(at.child("format"), format_, f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not json_path:
            yield fields.required(at.child("JSONPath"))
        elif not json_path.startswith("."):
            yield fields.invalid(at.child("JSONPath"), json_path, "must be a simple json path starting with .")


def selectable_errors(selectable: Sequence[Mapping[str, Any]], schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    """The fields that field selectors may use."""
    seen: set[str] = set()
    for position, one in enumerate(selectable):
        json_path, at = one.get("jsonPath") or "", path.index(position).child("jsonPath")
        if not json_path:
            yield fields.required(at)
            continue
        found = declared(schema, json_path)
        if found is None:
            yield fields.invalid(at, json_path, "is an invalid path: does not refer to a valid field")
            continue
        if steps(json_path)[0] == "metadata":
            yield fields.invalid(at, json_path, "must not point to fields in metadata")
        if found.get("type") not in _SELECTABLE_TYPES:
            why = "must point to a field of type string, boolean or integer."
            yield fields.invalid(at, json_path, f"{why} Enum string fields and strings with formats are allowed.")
        if json_path in seen:
            yield fields.duplicate(at, json_path)
        seen.add(json_path)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield fields.too_many(path, len(seen), MAX_SELECTABLE_FIELDS)


def steps(json_path: str) -> tuple[str, ...]:
    """The keys of a simple path: `.spec.replicas`."""
    return tuple(json_path.removeprefix(".").split("."))


def declared(schema: JsonSchema, json_path: str) -> JsonSchema | None:
    """The schema of the field at a simple path; None if it is not declared."""
    if not json_path.startswith("."):
        return None
    found: JsonSchema | None = schema
    for step in steps(json_path):
        found = (found.get("properties") or {}).get(step) if found is not None else None
    return found
