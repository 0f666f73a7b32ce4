"""The schema of a field by the annotation of its Struct, for types without a protobuf message: those of `rota.dev`."""

import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

import msgspec

Schema: TypeAlias = dict[str, Any]

_SCALARS: Final[Mapping[Any, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    dict: {"type": "object"},
}


def schema_of(
    annotation: Any, *, struct: Callable[[type[msgspec.Struct]], Schema], special: Mapping[str, Schema]
) -> Schema:
    """The schema; `struct` refers to another Struct, `special` are scalars with a meaning, by its name."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return special[annotation.__metadata__[0].extra["meaning"].name]
    if origin in {Union, types.UnionType}:
        kept = [one for one in arguments if one is not type(None)]
        return schema_of(kept[0], struct=struct, special=special) if len(kept) == 1 else special["intorstring"]
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0], struct=struct, special=special)}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1], struct=struct, special=special)}
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return struct(annotation)
    return _SCALARS.get(annotation, {"x-kubernetes-preserve-unknown-fields": True})
