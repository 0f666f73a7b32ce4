"""Decodes answers: pages of lists and events of watches, with each object as its bytes.

Objects stay bytes until their fields are needed, so the caller decides about the memory of 150,000 of them. Servers
omit `apiVersion` and `kind` in the items of a list; they are added, so that an object looks the same from a list and
from a watch.
"""

import enum
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from rota.api import errors

#: An event has one object; a longer line is an error.
_LONGEST_LINE: Final = 64 * 1024 * 1024


class _ListMeta(msgspec.Struct, frozen=True):
    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str = msgspec.field(name="continue", default="")
    remaining: int | None = msgspec.field(name="remainingItemCount", default=None)


class _List(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class _Named(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_list_decoder: Final = msgspec.json.Decoder(_List)
_kind_decoder: Final = msgspec.json.Decoder(_Named)
_event_decoder: Final = msgspec.json.Decoder(_Event)


class EventType(enum.Enum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    #: No change up to the object's resourceVersion.
    BOOKMARK = "BOOKMARK"


_TYPES: Final = {one.value: one for one in EventType}


class WatchEvent(NamedTuple):
    """A change, and the object after it (for DELETED: its last state)."""

    type: EventType
    raw: bytes

    @property
    def object(self) -> dict[str, Any]:
        """The object, decoded on every call."""
        return decode_object(self.raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list, or all of it."""

    items: list[bytes]
    resource_version: str
    continue_: str = ""
    remaining: int | None = None


def decode_object(body: bytes) -> dict[str, Any]:
    """An answer as plain JSON values; `ApiError` if it is something else."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise unexpected(body)
    return found


def decode_page(body: bytes) -> Page:
    """A list; its items are copies of their bytes, so that none keeps the whole body in memory."""
    try:
        found = _list_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise unexpected(body) from None
    return Page(
        items=_completed(found),
        resource_version=found.metadata.resource_version,
        continue_=found.metadata.continue_,
        remaining=found.metadata.remaining,
    )


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[WatchEvent]:
    """The events of a watch's body; an ERROR event is raised."""
    async for batch in batches(chunks):
        for event in batch:
            yield event
        if batch.problem is not None:
            raise batch.problem


class Batch(list[WatchEvent]):
    """Events that arrived together, and the error after them, if any."""

    problem: errors.ApiError | None = None


async def batches(chunks: AsyncIterator[bytes]) -> AsyncIterator[Batch]:
    """The same events in batches, for many events; the last batch may have a `problem`."""
    async for lines in _lines(chunks):
        batch = Batch()
        for line in lines:
            event = _event(line)
            if isinstance(event, errors.ApiError):
                batch.problem = event
                break
            batch.append(event)
        yield batch
        if batch.problem is not None:
            return


def _event(line: bytes) -> WatchEvent | errors.ApiError:
    try:
        found = _event_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return unexpected(line)
    kind = _TYPES.get(found.type)
    if kind is None:
        return errors.from_wire(bytes(found.object)) if found.type == "ERROR" else unexpected(line)
    return WatchEvent(kind, bytes(found.object))


def unexpected(body: bytes) -> errors.ApiError:
    """The error for an answer that no API server gives: a proxy's, or a truncated one."""
    return errors.from_wire(body[:2048] or b"-")


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Complete lines; an incomplete last one is dropped, because the resumed watch sends it again."""
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > _LONGEST_LINE:
            raise unexpected(rest[0])
        if others:
            whole = [b"".join(rest), *others[:-1]]
            rest, size = [others[-1]], len(others[-1])
            yield [line for line in whole if line.strip()]


def _prefix(found: _List) -> bytes:
    kind = found.kind.removesuffix("List")
    return b'{"apiVersion":%b,"kind":%b' % (msgspec.json.encode(found.api_version), msgspec.json.encode(kind))


def _completed(found: _List) -> list[bytes]:
    """The items, with apiVersion and kind added if the server omits them: for all of them, or for none."""
    items = [bytes(item) for item in found.items or ()]
    if not items or _kind_decoder.decode(items[0]).kind:
        return items
    prefix = _prefix(found)
    bare = [item.lstrip()[1:] for item in items]
    return [prefix + (b"," if rest.strip() != b"}" else b"") + rest for rest in bare]
