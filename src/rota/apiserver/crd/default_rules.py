"""Checks that the defaults in a structural schema are valid by the schema itself."""

import copy
import dataclasses
from collections.abc import Iterator

from rota.api import fields
from rota.api.fields import FieldError, Path
from rota.apiserver.crd import checks, pruning, structure, uniqueness
from rota.apiserver.crd.structure import JsonSchema


def default_errors(schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    """The errors of the defaults of a schema and of its nested schemas."""
    default = schema.get("default")
    if default is not None:
        yield from _errors(default, schema, path.child("default"))
    for name, part in (schema.get("properties") or {}).items():
        yield from default_errors(part, path.child("properties").key(name))
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from default_errors(schema[name], path.child(name))


def _errors(default: object, schema: JsonSchema, path: Path) -> Iterator[FieldError]:
    at, value = structure.read(schema), copy.deepcopy(default)
    if pruning.prune_value(value, at):
        yield fields.invalid(path, checks.shown_value(default), "must not have unknown fields")
    pruning.fill_defaults(value, at)
    for error in [*checks.compile_value(schema)(value), *uniqueness.duplicates(value, at)]:
        yield dataclasses.replace(error, field=_joined(path, error.field))


def _joined(path: Path, field: str) -> str:
    """A path within the default, relative to the root of the definition."""
    if field in {"", str(fields.ROOT)}:
        return str(path)
    return f"{path}{field}" if field.startswith("[") else f"{path}.{field}"
