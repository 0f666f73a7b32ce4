"""Single values: from the wire to the JSON that Go would write for them.

`SCALARS` are written directly. `SPECIAL` are messages whose JSON form is not an object of their fields: times,
quantities, int-or-string, embedded JSON, a schema or a simpler value. Each has a line of fields in the grammar of
`schemas` and a function that builds the JSON value; both use the names of `fields.json`. Invalid values raise
`wire.Malformed`.
"""

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

import msgspec

from rota.api import quantities
from rota.apiserver.protobuf import wire
from rota.apiserver.protobuf.wire import Malformed, WireType

Members: TypeAlias = Mapping[str, Any]

#: The first second of year 1, which is Go's zero time, and the last one of year 9999.
_ZERO_TIME: Final = -62_135_596_800
_LAST_TIME: Final = 253_402_300_799
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - only its digits are used, and those are of UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """A type without a message."""

    wire_type: WireType
    read: Callable[[Any], Any]
    zero: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Special:
    """A message with its own JSON form."""

    members: str
    to_json: Callable[[Members], Any]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _double(data: bytes) -> float:
    value = wire.double(data)
    if not math.isfinite(value):
        raise Malformed("a number is not finite")
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


SCALARS: Final[Mapping[str, Scalar]] = {
    "string": Scalar(wire_type=WireType.BYTES, read=wire.text, zero=""),
    "bytes": Scalar(wire_type=WireType.BYTES, read=_base64, zero=None),
    "octets": Scalar(wire_type=WireType.BYTES, read=bytes, zero=b""),
    "bool": Scalar(wire_type=WireType.VARINT, read=bool, zero=False),
    "int32": Scalar(wire_type=WireType.VARINT, read=lambda value: wire.signed(value, 32), zero=0),
    "int64": Scalar(wire_type=WireType.VARINT, read=lambda value: wire.signed(value, 64), zero=0),
    "float64": Scalar(wire_type=WireType.FIXED64, read=_double, zero=0),
}


def _time(members: Members) -> str | None:
    seconds, _ = _timestamp(members)
    return None if seconds == _ZERO_TIME else f"{_date_and_time(seconds)}Z"


def _micro_time(members: Members) -> str | None:
    seconds, nanos = _timestamp(members)
    # truncated towards zero, as in Go, and kept apart from the seconds: a float of both would not be exact
    micros = int(nanos / 1000)
    seconds, micros = seconds + micros // 1_000_000, micros % 1_000_000
    return None if (seconds, micros) == (_ZERO_TIME, 0) else f"{_date_and_time(seconds)}.{micros:06}Z"


def _timestamp(members: Members) -> tuple[int, int]:
    seconds, nanos = members["seconds"], members["nanos"]
    return (_ZERO_TIME, 0) if seconds is None and nanos is None else (seconds or 0, nanos or 0)


def _date_and_time(seconds: int) -> str:
    if not _ZERO_TIME <= seconds <= _LAST_TIME:
        raise Malformed("a time is not within the years 1 to 9999")
    return (_EPOCH + timedelta(seconds=seconds)).isoformat(timespec="seconds")


def _quantity(members: Members) -> str:
    text = members["string"].strip()
    try:
        return str(quantities.parse(text)) if text else "0"
    except quantities.QuantityError as refusal:
        raise Malformed(str(refusal)) from None


def _int_or_string(members: Members) -> int | str:
    value: int | str
    match members["type"]:
        case 0:
            value = members["intVal"]
        case 1:
            value = members["strVal"]
        case other:
            raise Malformed(f"an IntOrString is of the unknown type {other}")
    return value


def _raw(members: Members) -> Any:
    encoded = members["raw"]
    try:
        return msgspec.json.decode(encoded) if encoded else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as refusal:
        raise Malformed(f"embedded JSON is malformed: {refusal}") from None


_SCHEMA: Final = "apiextensions/v1.JSONSchemaProps"

SPECIAL: Final[Mapping[str, Special]] = {
    "time": Special(members="seconds:1:*int64 nanos:2:*int32", to_json=_time),
    "microtime": Special(members="seconds:1:*int64 nanos:2:*int32", to_json=_micro_time),
    "quantity": Special(members="string:1:string", to_json=_quantity),
    "intorstring": Special(members="type:1:int64 intVal:2:int32 strVal:3:string", to_json=_int_or_string),
    "raw": Special(members="raw:1:octets", to_json=_raw),
    "strings": Special(members="items:1:+string", to_json=lambda members: members["items"] or []),
    "schemaorbool": Special(
        members=f"allows:1:bool schema:2:*{_SCHEMA}",
        to_json=lambda members: members["allows"] if members["schema"] is None else members["schema"],
    ),
    "schemaorarray": Special(
        members=f"schema:1:*{_SCHEMA} schemas:2:+{_SCHEMA}",
        to_json=lambda members: members["schemas"] or members["schema"],
    ),
    "schemaorstrings": Special(
        members=f"schema:1:*{_SCHEMA} strings:2:+string",
        to_json=lambda members: members["strings"] or members["schema"],
    ),
}
