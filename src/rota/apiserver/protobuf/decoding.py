"""Decodes a protobuf body to an object, as Go would write it in JSON.

`decode` opens the envelope (four magic bytes, then the kind and the object's bytes) and reads the object by the table
of `schemas`. Unknown fields are skipped. A hostile body costs bounded time and memory and ends in BadRequest: nesting
and the number of fields and structs are limited, far above any real object.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import errors, gotext
from rota.apiserver.protobuf import schemas, wire
from rota.apiserver.protobuf.schemas import Field, Message, Shape
from rota.apiserver.protobuf.wire import Malformed, Payload, WireType

Object: TypeAlias = dict[str, Any]

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
PREFIX: Final = b"k8s\x00"

#: Nested structs; an object has about a dozen levels, a deep schema of a custom kind a few dozen.
MAX_DEPTH: Final = 100
#: Fields on the wire plus structs in the object. An object of 1 MB has some ten thousand.
MAX_PARTS: Final = 250_000

_OTHER_MEDIA_TYPES: Final = ("application/json", "application/yaml")


def decode(body: bytes) -> Object:
    """The object in a request body, with its apiVersion and kind.

    BadRequest if the body is malformed, UnsupportedMediaType if its kind has no protobuf form because it is custom.
    """
    if not body.startswith(PREFIX):
        raise errors.bad_request(
            "the body is no Kubernetes protobuf message: it must begin with the bytes k8s and zero"
        )
    try:
        envelope = _texts(body[len(PREFIX) :], (1, 2))
        names = _texts(envelope[1], (1, 2))
        api_version, kind = wire.text(names[1]), wire.text(names[2])
        found = _Reader().read(_message_of(api_version, kind), envelope[2], depth=0)
    except Malformed as refusal:
        raise errors.bad_request(f"the protobuf body is malformed: {refusal}") from None
    return {"apiVersion": api_version, "kind": kind, **found}


def _texts(data: bytes, numbers: tuple[int, ...]) -> dict[int, bytes]:
    """The last payload of each of these fields, which must be texts or bytes."""
    found = dict.fromkeys(numbers, b"")
    for number, wire_type, payload in wire.scan(data):
        if number in found:
            if not isinstance(payload, bytes):
                raise _wrong_wire_type(wire_type, number)
            found[number] = payload
    return found


def _message_of(api_version: str, kind: str) -> Message:
    if not kind:
        raise Malformed("Object 'Kind' is missing")
    if not api_version:
        raise Malformed("Object 'apiVersion' is missing")
    message = schemas.of_kind(api_version, kind)
    if message is not None:
        return message
    if schemas.knows(api_version):
        raise Malformed(f"no kind {gotext.quote(kind)} is registered for version {gotext.quote(api_version)}")
    raise errors.unsupported_media_type(_OTHER_MEDIA_TYPES)


class _Reader:
    """Reads one object and counts its fields and structs."""

    def __init__(self) -> None:
        self._parts = 0

    def read(self, message: Message, data: bytes, *, depth: int) -> Any:
        """The JSON value of a message; no bytes are its zero value."""
        found = self._collect(message, data, depth=depth)
        result: Object = {}
        for field in message.fields if found else message.always:
            payloads = found.get(field.number)
            if payloads is None and field.omit_empty:
                continue
            value = self._value(field, payloads or [], depth=depth)
            if not field.name:
                result.update(value)
            elif value or not field.omit_empty or field.shape is Shape.POINTER:
                result[field.name] = value
        return message.to_json(result) if message.to_json else result

    def _collect(self, message: Message, data: bytes, *, depth: int) -> Mapping[int, list[Payload]]:
        """The payloads of the known fields, each in order."""
        if depth > MAX_DEPTH:
            raise Malformed(f"structs are nested more than {MAX_DEPTH} deep")
        self._count()
        found: dict[int, list[Payload]] = {}
        for number, wire_type, payload in wire.scan(data):
            self._count()
            field = message.by_number.get(number)
            if field is None:
                continue
            if wire_type == field.wire_type:
                found.setdefault(number, []).append(payload)
            elif field.packable and isinstance(payload, bytes) and wire_type == WireType.BYTES:
                self._count(len(payload))
                found.setdefault(number, []).extend(wire.unpack(payload))
            else:
                raise _wrong_wire_type(wire_type, number)
        return found

    def _value(self, field: Field, payloads: list[Payload], *, depth: int) -> Any:
        match field.shape:
            case Shape.LIST:
                return [self._one(field, payload, depth=depth) for payload in payloads] or None
            case Shape.MAP:
                return dict(self._entry(field, payload, depth=depth) for payload in payloads) or None
            case Shape.POINTER if not payloads:
                return None
        if field.scalar is not None:
            return field.scalar.read(payloads[-1]) if payloads else field.scalar.zero
        # parts of a struct are merged by joining their bytes
        return self._one(field, b"".join(part for part in payloads if isinstance(part, bytes)), depth=depth)

    def _entry(self, field: Field, payload: Payload, *, depth: int) -> tuple[str, Any]:
        assert isinstance(payload, bytes)  # the wire type of a map, which was checked
        found = _texts(payload, (1, 2))
        return wire.text(found[1]), self._one(field, found[2], depth=depth)

    def _one(self, field: Field, payload: Payload, *, depth: int) -> Any:
        if field.scalar is not None:
            return field.scalar.read(payload)
        assert isinstance(payload, bytes)  # the wire type of a message, which was checked
        return self.read(schemas.message(field.message), payload, depth=depth + 1)

    def _count(self, parts: int = 1) -> None:
        self._parts += parts
        if self._parts > MAX_PARTS:
            raise Malformed(f"it has more than {MAX_PARTS} parts; send less at once")


def _wrong_wire_type(wire_type: int, number: int) -> Malformed:
    return Malformed(f"wrong wire type {wire_type} for field {number}")
