"""Changes that the values of mutation expressions describe: apply configurations and JSON patches. Pure.

An apply configuration is merged by the schema of the changed kind, without owners of fields. Lists and maps that the
schema treats as one value may not be in it: setting one field of them would remove the others. Messages are those of
`k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch` (1.36).
"""

import base64
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from rota.api import gotext
from rota.api.cel.values import Duration, ObjectValue, Timestamp, type_of
from rota.api.patches import json_patch, typed, validation
from rota.api.patches.errors import PatchError, PatchTestFailed
from rota.api.patches.schemas import TypeSchema
from rota.apiserver.interfaces import Object

#: JSON numbers are doubles to most readers: larger integers are written as strings, as protobuf does.
_MOST_EXACT: Final = 2**53 - 1
_SECOND: Final = 10**9


class MutationError(Exception):
    """The value of an expression does not describe a change of this object."""


def apply_configuration(value: Any, obj: Object, schema: TypeSchema) -> Object:
    """The object with the fields that a configuration sets."""
    _check_names(value)
    patch = {**_plain(value), "apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    wrong = validation.problems(patch, schema)
    if wrong:
        why = f"failed to convert patch object to typed object: {validation.summary(wrong)}"
        raise MutationError(f"error applying patch: {why}")
    atomic = _atomics(patch, schema, "")
    if atomic:
        shown = ", ".join(atomic)
        why = f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {shown}"
        raise MutationError(f"error applying patch: {why}")
    try:
        merged = typed.merge(obj, patch, schema)
    except PatchError as error:
        raise MutationError(f"error applying patch: failed to merge patch: {error}") from None
    assert isinstance(merged, dict), "an object stays an object: it has a kind"
    return merged


def json_patched(value: Any, obj: Object) -> Object | None:
    """The object after the operations; None if a test among them fails."""
    if not isinstance(value, list):
        raise MutationError("type mismatch: JSONPatchType.expression should evaluate to array")
    try:
        patched: Object = json_patch.apply(obj, [_operation(one) for one in value])
    except PatchTestFailed:
        return None
    except PatchError as error:
        raise MutationError(f"JSON Patch: {error}") from None
    return patched


def _operation(value: Mapping[str, Any]) -> dict[str, Any]:
    found = {"op": value.get("op", ""), "path": value.get("path", "")}
    if value.get("from"):
        found["from"] = value["from"]
    if "value" in value:
        if isinstance(value["value"], ObjectValue):
            _check_names(value["value"])
        found["value"] = _json(value["value"])
    return found


def _check_names(value: ObjectValue) -> None:
    """The name of each type must be the path to it: `Object.spec{}` is the value of the field `spec`."""
    wrong = list(_misnamed(value, value.type))
    if wrong:
        raise MutationError("type mismatch: " + "\n".join(wrong))


def _misnamed(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, ObjectValue):
        if value.type != path:
            said = f"unexpected type name {gotext.quote(value.type)}, expected {gotext.quote(path)}"
            yield f"{said}, which matches field name path from root Object type"
        for name, item in value.items():
            yield from _misnamed(item, f"{path}.{name}")
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _misnamed(item, path)


def _plain(value: Any) -> Any:
    """A value of an apply configuration as JSON."""
    if isinstance(value, dict):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float and math.isfinite(value):
        return value
    raise MutationError(f"error applying patch: a value of type {type_of(value)} has no form in JSON")


def _json(value: Any) -> Any:
    """A value of a JSON patch as JSON, by the rules of protobuf."""
    if isinstance(value, dict):
        return {_key(key): _json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json(item) for item in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return str(value)
    if isinstance(value, Duration):
        # All digits of the seconds, as Go writes them, and no exponent.
        return f"{format(Decimal(repr(value / _SECOND)), 'f').removesuffix('.0')}s"
    if isinstance(value, int):
        return int(value) if abs(value) <= _MOST_EXACT else str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() else value
    why = f"a value of type {type_of(value)} has no form in JSON"
    raise MutationError(f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise MutationError(f"map key {gotext.quote(str(key))} is not a string")
    return key


def _atomics(value: Any, schema: TypeSchema, path: str) -> list[str]:
    """The paths of maps and lists in a configuration that the schema treats as one value."""
    found: list[str] = []
    if isinstance(value, dict) and schema.map is not None:
        if schema.map.atomic:
            found.append(path)
        for name, item in value.items():
            declared = schema.map.fields.get(name)
            if declared is not None:
                found += _atomics(item, declared.type, f"{path}.{name}")
    if isinstance(value, list) and schema.items is not None:
        if schema.items.relation == "atomic":
            found.append(path)
        for number, item in enumerate(value):
            found += _atomics(item, schema.items.element, f"{path}[{number}]")
    return found
