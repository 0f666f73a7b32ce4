"""Validation of a configuration by the schema of its kind, with Kubernetes' messages.

Server-side apply refuses what it could not own: undeclared fields, scalars of the wrong type, list elements without
keys, and duplicates. Limits on values (ranges, patterns, required fields) are the API server's business.
"""

from __future__ import annotations

from rota.api.patches import field_paths
from rota.api.patches.errors import MalformedPatch
from rota.api.patches.field_paths import Path
from rota.api.patches.json_values import Json, JsonObject, quoted, shown, type_name
from rota.api.patches.schemas import ListSchema, MapSchema, ScalarKind, TypeSchema
from rota.api.patches.typed import forms_of, list_element


def problems(value: Json, schema: TypeSchema, path: Path = ()) -> list[str]:
    """What is wrong with `value`, one text for each problem; empty if nothing is."""
    forms = forms_of(schema, value)
    if value is None:
        return []
    if forms.map is not None:
        if not isinstance(value, dict):
            return [_at(path, f"expected map, got &{{{shown(value)}}}")]
        return _map_problems(value, forms.map, path)
    if forms.scalar is not None:
        text = _scalar_problem(value, forms.scalar)
        return [_at(path, text)] if text else []
    assert forms.items is not None, "a type has at least one form"
    if not isinstance(value, list):
        return [_at(path, f"expected list, got &{{{shown(value)}}}")]
    return _list_problems(value, forms.items, path)


def _at(path: Path, text: str) -> str:
    return f"{field_paths.text(path)}: {text}" if path else text


def _map_problems(value: JsonObject, schema: MapSchema, path: Path) -> list[str]:
    found: list[str] = []
    for name, item in value.items():
        here = (*path, field_paths.field(name))
        if name not in schema.fields and schema.element is None:
            found.append(_at(here, "field not declared in schema"))
        else:
            found += problems(item, schema.child(name), here)
    return found


def _list_problems(value: list[Json], schema: ListSchema, path: Path) -> list[str]:
    found: list[str] = []
    seen = set()
    for position, item in enumerate(value):
        if schema.relation == "atomic":
            step = field_paths.index(position)
        else:
            try:
                step = list_element(schema, item)
            except MalformedPatch as error:
                # Without its keys nothing deeper in the list can be named.
                return [*found, _at(path, f"element {position}: {error.message}")]
            if step in seen:
                found.append(_at(path, f"duplicate entries for key {step.text()}"))
            seen.add(step)
        found += problems(item, schema.element, (*path, step))
    return found


def _scalar_problem(value: Json, kind: ScalarKind) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "numeric" if not is_number:
            return f"expected numeric (int or float), got {type_name(value)}"
        case "string" if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_literal(value)}}}"
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{shown(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{shown(value)}}}"
    return ""


def _literal(value: Json) -> str:
    """A value as Go's `%#v` writes it."""
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, dict):
        items = ", ".join(f"{quoted(key)}:{_literal(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{items}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(_literal(item) for item in value) + "}"
    return "interface {}(nil)" if value is None else shown(value)


def summary(found: list[str]) -> str:
    """The problems as one message."""
    if len(found) == 1:
        return found[0]
    return "\n".join(["errors:", *(f"  {text}" for text in found)])
