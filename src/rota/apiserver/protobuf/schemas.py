"""The messages of the built-in kinds: the number and type of each field. Read from `fields.json`.

`scripts/generate-protobuf-fields` writes the table. A message is a line of fields `name:number:type`, in the order of
JSON. The type may begin with `*` (may be absent), `+` (list) or `%` (map from strings), and end with `?` (omitted from
JSON when empty) or `!` (when zero, even if a struct). A name with a dot is another message, in the same package if it
begins with the dot; other types are in `values`. A field without a name is an embedded struct whose fields are in JSON
beside those of its parent.
"""

import enum
import functools
import importlib.resources
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rota.apiserver.protobuf import values
from rota.apiserver.protobuf.wire import WireType


class Shape(enum.Enum):
    """How many values a field holds."""

    PLAIN = ""
    POINTER = "*"
    LIST = "+"
    MAP = "%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a message."""

    #: Its name in JSON; empty for an embedded struct.
    name: str
    number: int
    shape: Shape
    #: The name of its message; empty for a scalar.
    message: str
    #: The type of a scalar.
    scalar: values.Scalar | None
    #: Whether JSON omits it when it is empty. A struct is never empty.
    omit_empty: bool
    #: The wire type of its payload, or of one entry of it.
    wire_type: WireType
    #: Whether several numbers may be packed in one payload.
    packable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The fields of one message, in the order of JSON."""

    name: str
    fields: tuple[Field, ...]
    #: Fields that JSON shows even if the message is empty; a subset, so that empty messages are fast to build.
    always: tuple[Field, ...]
    by_number: Mapping[int, Field]
    #: Builds the JSON value from the fields, if it is not an object of them.
    to_json: Callable[[values.Members], Any] | None


class _Table(msgspec.Struct, frozen=True):
    release: str
    anywhere: str
    kinds: dict[str, str]
    messages: dict[str, str]


def of_kind(api_version: str, kind: str) -> Message | None:
    """The message of a kind; None if it has none."""
    table = _table()
    for entry in (table.anywhere, table.kinds.get(api_version, "")):
        package, *kinds = entry.split() or [""]
        if kind in kinds:
            return message(f"{package}.{kind}")
    return None


def knows(api_version: str) -> bool:
    """Whether kinds of this version may be sent in protobuf; custom ones may not."""
    return api_version in _table().kinds


def kinds() -> dict[str, tuple[str, ...]]:
    """The kinds of each version that have a message."""
    return {version: tuple(entry.split()[1:]) for version, entry in _table().kinds.items()}


@functools.cache
def message(name: str) -> Message:
    """The message of a name that the table or `values` uses."""
    special = values.SPECIAL.get(name)
    line = special.members if special else _table().messages[name]
    fields = tuple(_field(text, package=name.rpartition(".")[0]) for text in line.split())
    return Message(
        name=name,
        fields=fields,
        always=tuple(field for field in fields if not field.omit_empty),
        by_number={field.number: field for field in fields},
        to_json=special.to_json if special else None,
    )


@functools.cache
def _table() -> _Table:
    data = importlib.resources.files(__package__).joinpath("fields.json").read_bytes()
    return msgspec.json.decode(data, type=_Table)


_SHAPES: Final = {shape.value: shape for shape in Shape if shape.value}


def _field(text: str, *, package: str) -> Field:
    name, number, type_ = text.split(":")
    shape = _SHAPES.get(type_[0], Shape.PLAIN)
    bare = type_.lstrip("*+%").rstrip("?!")
    scalar = values.SCALARS.get(bare)
    # Go's omitempty has no effect on a struct value, only on values that can be empty
    struct = shape is Shape.PLAIN and scalar is None
    wire_type = WireType.BYTES if scalar is None or shape is Shape.MAP else scalar.wire_type
    return Field(
        name=name,
        number=int(number),
        shape=shape,
        message="" if scalar else package + bare if bare.startswith(".") else bare,
        scalar=scalar,
        omit_empty=type_.endswith("!") or (type_.endswith("?") and not struct),
        wire_type=wire_type,
        packable=shape is Shape.LIST and wire_type is WireType.VARINT,
    )
