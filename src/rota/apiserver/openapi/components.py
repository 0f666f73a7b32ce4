"""The schemas of built-in types, in the form and under the names of upstream's OpenAPI v3 documents.

Three tables that agree about every field are combined here: the Structs have the fields, their descriptions and which
are required; the protobuf table has exact types (32 or 64 bits, the values of maps); the merge table has how lists and
maps merge. A type is named after its message, `core/v1.Pod`, and refers to others by reference. Rota's own types are in
the first table only and are described by their annotations.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import models
from rota.api.models import _schema
from rota.api.patches import schemas as merging
from rota.apiserver.openapi import annotations, descriptions
from rota.apiserver.protobuf import schemas as messages
from rota.apiserver.protobuf import values

Schema: TypeAlias = dict[str, Any]

REFERENCE: Final = "#/components/schemas/"
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
STATUS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Status"
DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
PATCH: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TIME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_MICRO_TIME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"

#: Where the types of a group are in Kubernetes' sources, if not in the usual place.
_PLACES: Final = {
    "meta": "io.k8s.apimachinery.pkg.apis.meta",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
    "rota": "dev.rota",
}
_GROUPS: Final = {place: group for group, place in _PLACES.items()}
_USUAL_PLACE: Final = "io.k8s.api."

_ANY: Final[Schema] = {"x-kubernetes-preserve-unknown-fields": True}
#: Embedded JSON is an object, except in schemas, whose defaults and examples may be anything.
_EMBEDDED: Final[Schema] = {"type": "object", **_ANY}
_SCHEMAS: Final = "apiextensions/v1.JSONSchemaProps"
_SCALARS: Final[Mapping[values.Scalar, Schema]] = {
    values.SCALARS["string"]: {"type": "string"},
    values.SCALARS["bytes"]: {"type": "string", "format": "byte"},
    values.SCALARS["bool"]: {"type": "boolean"},
    values.SCALARS["int32"]: {"type": "integer", "format": "int32"},
    values.SCALARS["int64"]: {"type": "integer", "format": "int64"},
    values.SCALARS["float64"]: {"type": "number", "format": "double"},
}
_SPECIAL: Final[Mapping[str, Schema]] = {
    "time": {"$ref": REFERENCE + _TIME},
    "microtime": {"$ref": REFERENCE + _MICRO_TIME},
    "quantity": {"$ref": REFERENCE + QUANTITY},
    "intorstring": {"$ref": REFERENCE + INT_OR_STRING},
    "strings": {"type": "array", "items": {"type": "string"}},
    # a schema or a simpler value; a reference would be recursive
    "schemaorbool": _ANY,
    "schemaorarray": _ANY,
    "schemaorstrings": _ANY,
}
#: Types that are not objects of their members.
_SIMPLE: Final[Mapping[str, Schema]] = {
    _TIME: {
        "type": "string",
        "format": "date-time",
        "description": "A moment in UTC, to the second, in the form of RFC 3339.",
    },
    _MICRO_TIME: {
        "type": "string",
        "format": "date-time",
        "description": "A moment in UTC, to the microsecond, in the form of RFC 3339.",
    },
    QUANTITY: {
        "oneOf": [{"type": "string"}, {"type": "number"}],
        "description": "An amount with an optional suffix: decimal (m, k, M, G, T, P, E), binary (Ki, Mi, Gi, Ti, Pi, "
        "Ei) or an exponent (e3). Half a processor is 0.5 or 500m; 1Gi is 1073741824.",
    },
    INT_OR_STRING: {
        "oneOf": [{"type": "integer"}, {"type": "string"}],
        "format": "int-or-string",
        "description": "A number, or a text such as a percentage or the name of a port.",
    },
    PATCH: {
        "type": "object",
        "description": "A change of an object, in the form that the content type of the request names.",
    },
}


def name_of_model(model: str) -> str:
    """The name of the component of a model: `core_v1.Pod` is `io.k8s.api.core.v1.Pod`."""
    module, _, struct = model.partition(".")
    group, _, version = module.rpartition("_")
    return _name(f"{group}/{version}.{struct}")


def reference(name: str) -> Schema:
    """A reference to another schema."""
    return {"$ref": REFERENCE + name}


def closure(names: Iterable[str]) -> dict[str, Schema]:
    """The components of these names and all that they refer to, in order of names."""
    found: dict[str, Schema] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = component(name)
            waiting.extend(references(found[name]))
    return dict(sorted(found.items()))


def references(schema: object) -> Iterator[str]:
    """The names of all components that a schema refers to."""
    match schema:
        case {"$ref": str(target)}:
            yield target.removeprefix(REFERENCE)
        case dict():
            for part in schema.values():
                yield from references(part)
        case list():
            for part in schema:
                yield from references(part)


@functools.cache
def component(name: str) -> Schema:
    """The schema of a built-in type; shared, so it must not be changed."""
    simple = _SIMPLE.get(name)
    return simple if simple is not None else _struct(_message(name))


def _struct(message: str) -> Schema:
    package, _, name = message.rpartition(".")
    struct = getattr(models.load(package.replace("/", "_")), name, None)
    if not (isinstance(struct, type) and issubclass(struct, msgspec.Struct)):
        # the models have no Struct where there is nothing to tell
        return {"type": "object"}
    described, required = descriptions.of(struct), _schema.required_fields(struct)
    wire_types = _wire_types(message)
    merge = merging.for_type(message.replace("/", "."))
    merge_fields = merge.map.fields if merge and merge.map else {}
    properties: dict[str, Schema] = {}
    demanded: list[str] = []
    for field in sorted(msgspec.structs.fields(struct), key=lambda one: one.encode_name):
        wire = wire_types.get(field.encode_name)
        # apiVersion and kind of complete objects are not part of their message
        schema = _type(wire, message) if wire else _annotated(field.type)
        if field.encode_name in merge_fields:
            schema = {**schema, **_merge_facts(merge_fields[field.encode_name], schema)}
        properties[field.encode_name] = _described(schema, described.fields.get(field.name, ""))
        if field.name in required:
            demanded.append(field.encode_name)
    return {
        **_text(described.text),
        "type": "object",
        **({"properties": properties} if properties else {}),
        **({"required": demanded} if demanded else {}),
        **({"x-kubernetes-map-type": "atomic"} if merge and merge.map and merge.map.atomic else {}),
    }


def _wire_types(message: str) -> dict[str, messages.Field]:
    """The fields of a message by name; none for types without a message."""
    try:
        found = messages.message(message)
    except KeyError:
        return {}
    return {field.name: field for field in _fields(found)}


def _annotated(annotation: Any) -> Schema:
    def refer(struct: type[msgspec.Struct]) -> Schema:
        return reference(name_of_model(f"{struct.__module__.rpartition('.')[2]}.{struct.__name__}"))

    return annotations.schema_of(annotation, struct=refer, special=_SPECIAL)


def _fields(message: messages.Message) -> Iterator[messages.Field]:
    """The fields as in JSON: those of embedded structs beside the others."""
    for field in message.fields:
        if field.name:
            yield field
        else:
            yield from _fields(messages.message(field.message))


def _type(field: messages.Field, owner: str) -> Schema:
    if field.scalar is not None:
        single = _SCALARS[field.scalar]
    elif field.message == "raw":
        single = _ANY if owner == _SCHEMAS else _EMBEDDED
    else:
        single = _SPECIAL.get(field.message) or reference(_name(field.message))
    match field.shape:
        case messages.Shape.LIST:
            return {"type": "array", "items": single}
        case messages.Shape.MAP:
            return {"type": "object", "additionalProperties": single}
    return single


def _merge_facts(field: merging.Field, schema: Schema) -> Schema:
    """How server-side apply and strategic merge treat the values of a field."""
    facts: Schema = {}
    items = field.type.items
    if schema.get("type") == "array" and items is not None:
        # unknown lists are atomic for server-side apply; strategic merge may differ
        if items.relation != "atomic" or not field.strategies:
            facts["x-kubernetes-list-type"] = items.relation
        if items.keys:
            facts["x-kubernetes-list-map-keys"] = list(items.keys)
    elif field.type.map is not None and field.type.map.atomic and "additionalProperties" in schema:
        facts["x-kubernetes-map-type"] = "atomic"
    if field.strategies:
        facts["x-kubernetes-patch-strategy"] = ",".join(sorted(field.strategies))
    if field.merge_key:
        facts["x-kubernetes-patch-merge-key"] = field.merge_key
    return facts


def _described(schema: Schema, text: str) -> Schema:
    """A schema with its field's own description; a reference allows nothing else beside it."""
    if "$ref" in schema:
        others = {name: fact for name, fact in schema.items() if name != "$ref"}
        schema = {**others, "allOf": [{"$ref": schema["$ref"]}]}
    return {**_text(text), **schema}


def _text(description: str) -> Schema:
    return {"description": description} if description else {}


def _name(message: str) -> str:
    package, _, name = message.rpartition(".")
    group, _, version = package.partition("/")
    return f"{_PLACES.get(group, _USUAL_PLACE + group)}.{version}.{name}"


def _message(component_name: str) -> str:
    place, version, name = component_name.rsplit(".", 2)
    return f"{_GROUPS.get(place, place.removeprefix(_USUAL_PLACE))}/{version}.{name}"
