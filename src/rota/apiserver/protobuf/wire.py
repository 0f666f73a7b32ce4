"""The protobuf wire format: tags, varints, lengths. It knows nothing of kinds.

`scan` splits a message into its fields without decoding them. Invalid bytes raise `Malformed` and nothing else. Reading
is strict where Go's generated code is strict: wire types, lengths, varints of at most ten bytes, complete groups.
"""

import enum
import struct
from collections.abc import Iterator
from typing import Final, TypeAlias

Payload: TypeAlias = int | bytes

_MASK_64: Final = (1 << 64) - 1
_MAX_VARINT_BYTES: Final = 10
_MAX_GROUPS: Final = 100


class Malformed(ValueError):
    """The bytes are not a valid message."""


class WireType(enum.IntEnum):
    """How the payload of a field is written."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    GROUP_START = 3
    GROUP_END = 4
    FIXED32 = 5


# plain numbers: looking up a member of an enum costs more than the rest of the loop
_VARINT, _FIXED64, _BYTES, _GROUP_START, _GROUP_END, _FIXED32 = map(int, WireType)


def scan(data: bytes) -> Iterator[tuple[int, int, Payload]]:
    """Number, wire type and payload of each field; fields in groups, which Kubernetes does not use, are left out.

    The payload is an int for a varint and the bytes themselves for all others.
    """
    position, end, groups = 0, len(data), 0
    while position < end:
        tag, position = read_varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        payload: Payload
        if wire_type == _BYTES:
            length, position = read_varint(data, position)
            payload, position = _take(data, position, length)
        elif wire_type == _VARINT:
            payload, position = read_varint(data, position)
        elif wire_type == _FIXED64:
            payload, position = _take(data, position, 8)
        elif wire_type == _FIXED32:
            payload, position = _take(data, position, 4)
        elif wire_type == _GROUP_START and groups < _MAX_GROUPS:
            groups += 1
            continue
        elif wire_type == _GROUP_END and groups:
            groups -= 1
            continue
        else:
            raise Malformed(f"illegal wire type {wire_type}")
        if not 0 < number < 1 << 29:
            raise Malformed(f"illegal field number {number}")
        if not groups:
            yield number, wire_type, payload
    if groups:
        raise Malformed("unexpected end of a group")


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The unsigned 64-bit number at a position, and the position after it."""
    try:
        byte = data[position]
        if byte < 0x80:
            return byte, position + 1
        value = byte & 0x7F
        for place in range(1, _MAX_VARINT_BYTES):
            byte = data[position + place]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return value & _MASK_64, position + place + 1
    except IndexError:
        raise Malformed("unexpected end of data") from None
    raise Malformed("a number is longer than 64 bits")


def unpack(data: bytes) -> Iterator[int]:
    """The numbers of a packed list."""
    position = 0
    while position < len(data):
        value, position = read_varint(data, position)
        yield value


def signed(value: int, bits: int) -> int:
    """The two's complement number in the lowest bits, as Go's conversion gives it."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def double(data: bytes) -> float:
    """The number of a field of 64 bits."""
    value: float = struct.unpack("<d", data)[0]
    return value


def text(data: bytes) -> str:
    """A string, which must be UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Malformed("a string is not valid UTF-8") from None


def _take(data: bytes, start: int, length: int) -> tuple[bytes, int]:
    stop = start + length
    if stop > len(data):
        raise Malformed("unexpected end of data")
    return data[start:stop], stop
