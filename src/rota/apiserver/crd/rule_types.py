"""Schemas as CEL sees them: types, sizes for cost estimates, and the conversion of objects to values.

Properties whose names are no identifiers are escaped as the stock server does it; those that cannot be escaped, and
parts without a type, are invisible to rules.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rota.api.cel import times, types
from rota.api.cel.estimation import Range
from rota.api.cel.types import Type
from rota.api.cel.values import Duration, EvaluationError, MapList, ObjectValue, SetList
from rota.apiserver.crd.structure import JsonSchema

#: The largest request; sizes without a limit are estimated by it.
REQUEST_BYTES: Final = 3 * 1024 * 1024
#: The name of the type of `self`; the types below are named after their paths.
SELF_TYPE: Final = "selfType0"
_RESERVED: Final = frozenset(
    {
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
        "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
    }
)  # fmt: skip
_ESCAPED: Final = re.compile(r"__|[-./]")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_STRING: Final[JsonSchema] = {"type": "string"}
_METADATA: Final[JsonSchema] = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}


def escape(name: str) -> str | None:
    """A property's name as expressions write it; None if they cannot."""
    if name in _RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return None
    return _ESCAPED.sub(lambda one: _ESCAPES[one.group()], name)


@dataclass(slots=True, eq=False, kw_only=True)
class Declared:
    """The declared type of a part of an object."""

    #: list, map, object, or the kind of a scalar.
    kind: str
    scalar: Type = types.DYN
    #: By escaped name: the property's name and its type.
    fields: dict[str, tuple[str, "Declared"]] = field(default_factory=dict)
    #: By the property's name, whether it can be escaped or not.
    properties: dict[str, "Declared"] = field(default_factory=dict)
    element: "Declared | None" = None
    #: The most elements or code points.
    most: int = 0
    #: The fewest bytes as JSON.
    least_bytes: int = 2
    format: str = ""
    list_type: str = ""
    list_keys: tuple[str, ...] = ()


def with_metadata(schema: JsonSchema) -> JsonSchema:
    """The schema of a whole object: rules see its kind and name."""
    properties = {**(schema.get("properties") or {}), "kind": _STRING, "apiVersion": _STRING, "metadata": _METADATA}
    return {**schema, "properties": properties}


def declare(schema: JsonSchema, *, is_object: bool = False) -> Declared | None:
    """The type of a schema; None if it has none."""
    if schema.get("x-kubernetes-int-or-string") is True:
        limit = schema.get("maxLength")
        most = max(limit, 0) * 4 if limit is not None else REQUEST_BYTES - 2
        return Declared(kind="dyn", most=most, least_bytes=1)
    if is_object:
        schema = with_metadata(schema)
    match schema.get("type"):
        case "array":
            return _array(schema)
        case "object":
            return _map(schema) if isinstance(schema.get("additionalProperties"), dict) else _object(schema)
        case "string":
            return _string(schema)
        case "boolean":
            return Declared(kind="bool", scalar=types.BOOL, least_bytes=4)
        case "number":
            return Declared(kind="double", scalar=types.DOUBLE, least_bytes=1)
        case "integer":
            return Declared(kind="int", scalar=types.INT, least_bytes=1)
    return None


def _embeds(schema: JsonSchema) -> bool:
    return schema.get("x-kubernetes-embedded-resource") is True


def _array(schema: JsonSchema) -> Declared | None:
    items = schema.get("items")
    element = declare(items, is_object=_embeds(items)) if isinstance(items, dict) else None
    if element is None:
        return None
    limit = schema.get("maxItems")
    most = max(limit, 0) if limit is not None else (REQUEST_BYTES - 2) // (element.least_bytes + 1)
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
    return Declared(
        kind="list", element=element, most=most, list_type=schema.get("x-kubernetes-list-type") or "", list_keys=keys
    )


def _map(schema: JsonSchema) -> Declared | None:
    additional = schema["additionalProperties"]
    element = declare(additional, is_object=_embeds(additional))
    if element is None:
        return None
    limit = schema.get("maxProperties")
    most = max(limit, 0) if limit is not None else (REQUEST_BYTES - 2) // (element.least_bytes + 6)
    return Declared(kind="map", element=element, most=most)


def _object(schema: JsonSchema) -> Declared:
    found = Declared(kind="object")
    required = schema.get("required") or ()
    for name, part in (schema.get("properties") or {}).items():
        declared = declare(part, is_object=_embeds(part))
        if declared is None:
            continue
        found.properties[name] = declared
        escaped = escape(name)
        if escaped is not None:
            found.fields[escaped] = (name, declared)
        if name in required and part.get("default") is None:
            found.least_bytes += len(name.encode()) + declared.least_bytes + 4
    return found


_FORMATS: Final = {
    "duration": (types.DURATION, 32, 3),
    "date": (types.TIMESTAMP, 12, 12),
    "date-time": (types.TIMESTAMP, 32, 21),
}


def _string(schema: JsonSchema) -> Declared:
    name, limit = schema.get("format") or "", schema.get("maxLength")
    if name in _FORMATS:
        scalar, most, least = _FORMATS[name]
        return Declared(kind="string", scalar=scalar, most=most, least_bytes=least, format=name)
    if name == "byte":
        most = max(limit, 0) if limit is not None else REQUEST_BYTES - 2
        return Declared(kind="string", scalar=types.BYTES, most=most, format=name)
    if limit is not None:
        most = max(limit, 0) * 4
    elif schema.get("enum"):
        most = max((len(one.encode()) for one in schema["enum"] if isinstance(one, str)), default=0)
    else:
        most = REQUEST_BYTES - 2
    return Declared(kind="string", scalar=types.STRING, most=most)


def typed(declared: Declared, name: str, objects: dict[str, Mapping[str, Type]]) -> Type:
    """The static type; the fields of its objects are added to `objects`."""
    if declared.kind == "object":
        objects[name] = {
            escaped: typed(part, f"{name}.{escaped}", objects) for escaped, (_, part) in declared.fields.items()
        }
        return types.object_of(name)
    if declared.element is not None:
        if declared.kind == "list":
            return types.list_of(typed(declared.element, f"{name}.@idx", objects))
        return types.map_of(types.STRING, typed(declared.element, f"{name}.@elem", objects))
    return declared.scalar


def size_at(declared: Declared, path: Sequence[str]) -> Range | None:
    """The size of what is reached on a path from `self`."""
    for name in path[1:]:
        if name in ("@items", "@values"):
            if declared.element is None:
                return None
            declared = declared.element
        elif name == "@keys":
            if declared.kind != "map":
                return None
            declared = _KEY
        elif name in declared.fields:
            declared = declared.fields[name][1]
        else:
            return None
    return Range(0, declared.most)


#: Keys of maps have no declared size; the stock server counts none.
_KEY: Final = Declared(kind="string", scalar=types.STRING, most=0)


def value_of(value: Any, declared: Declared, name: str = SELF_TYPE) -> Any:
    """A part of an object as a value; what does not match its schema stays as it is."""
    if value is None:
        return None
    match declared.kind:
        case "object" if isinstance(value, dict):
            found = ObjectValue(name)
            for escaped, (own, part) in declared.fields.items():
                if own in value:
                    found[escaped] = value_of(value[own], part, f"{name}.{escaped}")
            return found
        case "map" if isinstance(value, dict) and declared.element is not None:
            return {key: value_of(one, declared.element, f"{name}.@elem") for key, one in value.items()}
        case "list" if isinstance(value, list) and declared.element is not None:
            items = [value_of(one, declared.element, f"{name}.@idx") for one in value]
            return _listed(items, declared)
        case "double" if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        case "int" if isinstance(value, float) and value.is_integer():
            return int(value)
        case "string" if isinstance(value, str) and declared.format:
            return _formatted(value, declared.format)
    return value


def _listed(items: list[Any], declared: Declared) -> list[Any]:
    if declared.list_type == "set":
        return SetList(items)
    if declared.list_type == "map":
        keyed = MapList(tuple(escape(one) or one for one in declared.list_keys))
        keyed.extend(items)
        return keyed
    return items


def _formatted(text: str, name: str) -> Any:
    try:
        match name:
            case "byte":
                return base64.b64decode(text, validate=True)
            case "date":
                return times.parse_timestamp(f"{text}T00:00:00Z")
            case "date-time":
                return times.parse_timestamp(text)
        nanos = times.duration_nanos(text)
        return Duration(nanos) if nanos is not None else text
    except (EvaluationError, binascii.Error, ValueError):
        return text
