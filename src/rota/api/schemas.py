"""Converts an object of a built-in kind to the shape of its Struct.

`clean` does in one pass what a Go server does by decoding into a type and encoding again: it drops unknown fields
(and says which), drops nulls, refuses values of a wrong type, and writes quantities and times in canonical form.
The object stays a plain dict; the Struct only tells the types. `missing_fields` finds required fields that are
absent, which is validation and not decoding: defaults come in between.

Per Struct the work is compiled once into a table of functions. The functions know no paths; a path is put together
on the way back, and only when there is something to report.
"""

import copy
import functools
import types
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

import msgspec

from rota.api import base64s, fields, models, quantities, times
from rota.api.models import _schema

#: Cleans one value; appends the relative paths of unknown fields to the list.
_Cleaner: TypeAlias = Callable[[Any, list[str]], Any]

#: Only for integers: asking a range for a float walks through all of it.
_INT64: Final = range(-(2**63), 2**63)
_ABSENT: Final = object()
_PLAIN: Final = frozenset({str, int, float})
_NUMBERS: Final = frozenset({"int32", "float64"})
#: What Go reads a null as where there must be something: in lists and maps.
_ZEROS: Final[Mapping[str, Any]] = {"string": "", "resource.Quantity": "0", "int32": 0, "bool": False, "float64": 0}


#: Maps of bytes, which JSON carries as base64.
_BYTES: Final = frozenset({("Secret", "data"), ("ConfigMap", "binaryData")})


class SchemaError(ValueError):
    """A value does not have the type that its field wants; the message is the one of Go's JSON decoder."""


class _Mismatch(Exception):
    """A value of a wrong type, on its way up to the root."""

    def __init__(self, wanted: str, value: object, message: str | None = None) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.value = value
        self.message = message
        self.path: list[str] = []
        self.owner = ""

    def below(self, name: str, owner: str) -> None:
        self.path.append(name)
        self.owner = self.owner or owner

    def __str__(self) -> str:
        if self.message is not None:
            return self.message
        place = f"Go struct field {self.owner}.{'.'.join(reversed(self.path))}" if self.path else "Go value"
        return f"json: cannot unmarshal {_json_type(self.value, self.wanted)} into {place} of type {self.wanted}"


def clean(obj: Mapping[str, Any], model: str) -> tuple[dict[str, Any], list[str]]:
    """The object in the shape of a model, and the paths of the fields that it does not know."""
    unknown: list[str] = []
    try:
        cleaned: dict[str, Any] = _struct(struct_of(model)).clean(obj, unknown)
    except _Mismatch as mismatch:
        raise SchemaError(str(mismatch)) from None
    return cleaned, unknown


def missing_fields(obj: Mapping[str, Any], model: str, path: fields.Path = fields.ROOT) -> list[fields.FieldError]:
    """Required strings, lists and objects that are absent or empty; an absent number or flag is zero, and fine.

    The status is left out: components fill it in step by step.
    """
    found: list[fields.FieldError] = []
    _struct(struct_of(model)).find_missing(obj, path, found)
    return found


@functools.cache
def struct_of(model: str) -> type[msgspec.Struct]:
    """The Struct of a model name such as `core_v1.Pod`."""
    module, _, name = model.partition(".")
    struct: type[msgspec.Struct] = getattr(models.load(module), name)
    return struct


class _StructCleaner:
    """One Struct, compiled: a function for each field by its JSON name."""

    __slots__ = ("_cleaners", "_maps", "_name", "_parts", "_required", "_type_name")

    def __init__(self, struct: type[msgspec.Struct]) -> None:
        self._name = struct.__name__
        self._type_name = f"{struct.__module__.rpartition('_')[2]}.{struct.__name__}"
        self._cleaners: dict[str, _Cleaner] = {}
        self._parts: dict[str, tuple[str, type[msgspec.Struct]]] = {}
        self._required: tuple[str, ...] = ()
        self._maps: set[str] = set()

    def compile(self, struct: type[msgspec.Struct]) -> None:
        """Fill the table; apart from the constructor, because Structs refer to themselves."""
        required = _schema.required_fields(struct)
        demanded = []
        for field in msgspec.structs.fields(struct):
            cleaner, wanted = _compile(field.type)
            if (self._name, field.encode_name) in _BYTES:
                cleaner, wanted = _compile_map_of(_bytes, "[]uint8", "")
            self._cleaners[field.encode_name] = cleaner
            # what may hold anything is a struct without fields of its own, as often as it is a map
            if wanted.startswith("map[string]") and not wanted.endswith("interface {}"):
                self._maps.add(field.encode_name)
            part = _part(field.type)
            if part is not None:
                self._parts[field.encode_name] = part
            if field.name in required and wanted not in {"int32", "bool", "float64"}:
                demanded.append(field.encode_name)
        self._required = tuple(demanded)

    @property
    def type_name(self) -> str:
        """The Go type, as in `v1.PodSpec`."""
        return self._type_name

    def clean(self, value: Any, unknown: list[str]) -> dict[str, Any]:
        """A dict with known fields only."""
        if not isinstance(value, dict):
            raise _Mismatch(self._type_name, value)
        cleaned: dict[str, Any] = {}
        cleaners = self._cleaners
        for name, item in value.items():
            cleaner = cleaners.get(name)
            if cleaner is None:
                unknown.append(name)
            elif item is not None:
                before = len(unknown)
                try:
                    part = cleaner(item, unknown)
                    # Go leaves an empty map out when it writes, while an empty struct is something
                    if part or name not in self._maps:
                        cleaned[name] = part
                except _Mismatch as mismatch:
                    mismatch.below(name, self._name)
                    raise
                if len(unknown) > before:
                    _prefix(unknown, before, name)
        return cleaned

    def find_missing(self, value: Mapping[str, Any], path: fields.Path, found: list[fields.FieldError]) -> None:
        """Collect required fields that are not there, in this Struct and all below it."""
        absent = (name for name in self._required if value.get(name) in (None, "", []))
        found.extend(fields.required(path.child(name)) for name in absent)
        for name, (shape, struct) in self._parts.items():
            item = value.get(name)
            if item is None or (name == "status" and path is fields.ROOT):
                continue
            below, cleaner = path.child(name), _struct(struct)
            if shape == "one":
                cleaner.find_missing(item, below, found)
            elif shape == "list":
                for position, one in enumerate(item):
                    cleaner.find_missing(one, below.index(position), found)
            else:
                for key, one in item.items():
                    cleaner.find_missing(one, below.key(key), found)


@functools.cache
def _new_cleaner(struct: type[msgspec.Struct]) -> _StructCleaner:
    return _StructCleaner(struct)


_COMPILED: Final[dict[type[msgspec.Struct], _StructCleaner]] = {}


def _struct(struct: type[msgspec.Struct]) -> _StructCleaner:
    """The compiled form of a Struct, made when it is first met."""
    compiled = _COMPILED.get(struct)
    if compiled is None:
        compiled = _new_cleaner(struct)
        compiled.compile(struct)
        _COMPILED[struct] = compiled
    return compiled


def _compile(annotation: Any) -> tuple[_Cleaner, str]:
    """The function that cleans values of a type, and the type's name in Go."""
    annotation = _without_none(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        meaning = annotation.__metadata__[0].extra["meaning"].name
        return _MEANINGS[meaning]
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _compile_struct(annotation)
    if origin is list:
        return _compile_list(get_args(annotation)[0])
    if origin is dict and get_args(annotation):
        return _compile_map(get_args(annotation)[1])
    if origin in {Union, types.UnionType}:
        return _int_or_string, "intstr.IntOrString"
    return _SCALARS.get(annotation, (_anything, "interface {}"))


def _compile_struct(struct: type[msgspec.Struct]) -> tuple[_Cleaner, str]:
    holder = _new_cleaner(struct)

    def clean_struct(value: Any, unknown: list[str]) -> Any:
        # resolved at the first call, so that a kind compiles only what its objects hold
        return (_COMPILED.get(struct) or _struct(struct)).clean(value, unknown)

    return clean_struct, holder.type_name


def _compile_list(item_type: Any) -> tuple[_Cleaner, str]:
    clean_item, item_name = _compile(item_type)
    name = f"[]{item_name}"
    zero = _ZEROS.get(item_name, {} if _part(item_type) else None)

    def clean_list(value: Any, unknown: list[str]) -> Any:
        if not isinstance(value, list):
            raise _Mismatch(name, value)
        cleaned = []
        for position, item in enumerate(value):
            before = len(unknown)
            cleaned.append(clean_item(copy.copy(zero) if item is None else item, unknown))
            if len(unknown) > before:
                _prefix(unknown, before, f"[{position}]")
        return cleaned

    return clean_list, name


def _compile_map(item_type: Any) -> tuple[_Cleaner, str]:
    clean_item, item_name = _compile(item_type)
    return _compile_map_of(clean_item, item_name, _ZEROS.get(item_name, {} if _part(item_type) else _ABSENT))


def _compile_map_of(clean_item: _Cleaner, item_name: str, zero: Any) -> tuple[_Cleaner, str]:
    name = f"map[string]{item_name}"

    def clean_map(value: Any, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise _Mismatch(name, value)
        return {
            key: copy.copy(zero) if item is None and zero is not _ABSENT else clean_item(item, unknown)
            for key, item in value.items()
        }

    return clean_map, name


def _string(value: Any, _unknown: list[str]) -> Any:
    if value.__class__ is not str:
        raise _Mismatch("string", value)
    return value


def _bytes(value: Any, _unknown: list[str]) -> Any:
    if value.__class__ is not str:
        raise _Mismatch("[]uint8", value)
    broken = base64s.broken_at(value)
    if broken is not None:
        raise _Mismatch("[]uint8", value, message=f"illegal base64 data at input byte {broken}")
    return value


def _boolean(value: Any, _unknown: list[str]) -> Any:
    if value.__class__ is not bool:
        raise _Mismatch("bool", value)
    return value


def _integer(value: Any, _unknown: list[str]) -> Any:
    if value.__class__ is not int or value not in _INT64:
        raise _Mismatch("int32", value)
    return value


def _number(value: Any, _unknown: list[str]) -> Any:
    if value.__class__ not in {int, float}:
        raise _Mismatch("float64", value)
    return value


def _int_or_string(value: Any, _unknown: list[str]) -> Any:
    if value.__class__ not in {int, str}:
        raise _Mismatch("intstr.IntOrString", value)
    return value


def _any_map(value: Any, _unknown: list[str]) -> Any:
    if not isinstance(value, dict):
        raise _Mismatch("map[string]interface {}", value)
    return value


def _anything(value: Any, _unknown: list[str]) -> Any:
    return value


def _quantity(value: Any, _unknown: list[str]) -> Any:
    try:
        # not by way of the cache where a list cannot be a key, and True would be taken for 1
        return quantities.canonical(value) if value.__class__ in _PLAIN else str(quantities.from_wire(value))
    except quantities.QuantityError as error:
        raise _Mismatch("resource.Quantity", value, message=str(error)) from None


def _time(value: Any, _unknown: list[str]) -> Any:
    return _normalised(value, times.normalise, "Time")


def _micro_time(value: Any, _unknown: list[str]) -> Any:
    return _normalised(value, times.normalise_micro, "MicroTime")


def _normalised(value: Any, normalise: Callable[[str], str], name: str) -> str:
    if not isinstance(value, str):
        raise _Mismatch("string", value)
    try:
        return normalise(value)
    except times.TimeError as error:
        raise _Mismatch(f"v1.{name}", value, message=str(error)) from None


_MEANINGS: Final[Mapping[str, tuple[_Cleaner, str]]] = {
    "quantity": (_quantity, "resource.Quantity"),
    "time": (_time, "v1.Time"),
    "microtime": (_micro_time, "v1.MicroTime"),
}
_SCALARS: Final[Mapping[Any, tuple[_Cleaner, str]]] = {
    str: (_string, "string"),
    bool: (_boolean, "bool"),
    int: (_integer, "int32"),
    float: (_number, "float64"),
    datetime: (_time, "v1.Time"),
    dict: (_any_map, "map[string]interface {}"),
}


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in {Union, types.UnionType}:
        kept = [one for one in get_args(annotation) if one is not type(None)]
        if len(kept) == 1:
            return kept[0]
    return annotation


def _part(annotation: Any) -> tuple[str, type[msgspec.Struct]] | None:
    """How a field holds Structs, if it does: one, a list or a map of them."""
    annotation = _without_none(annotation)
    origin = get_origin(annotation)
    shape = "list" if origin is list else "map" if origin is dict else "one"
    inner = get_args(annotation)[-1] if shape != "one" and get_args(annotation) else annotation
    return (shape, inner) if isinstance(inner, type) and issubclass(inner, msgspec.Struct) else None


def _prefix(unknown: list[str], start: int, name: str) -> None:
    """Put the name of the parent in front of the paths that its part has reported."""
    for position in range(start, len(unknown)):
        path = unknown[position]
        unknown[position] = f"{name}{path}" if path.startswith("[") else f"{name}.{path}"


def _json_type(value: object, wanted: str) -> str:
    """What Go's decoder calls a value; a number that does not fit into a number is shown."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float() if wanted not in _NUMBERS:
            return "number"
        case int():
            return "number" if value in _INT64 else f"number {value}"
        case float():
            return f"number {value!r}"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
