"""SPDY/3.1 as far as port forwarding needs it: decodes and encodes frames. Pure.

kubectl and `rota.client.port_forward` use SPDY inside WebSocket for this; workers and kubelets answer. The client opens
streams. Flow control is not implemented, as in Kubernetes. Sizes are checked before anything is stored or
decompressed. A protocol error is a `SpdyError`, after which the connection is unusable.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_CONTROL: Final = 0x8003
_FIN: Final = 0x01
_HEAD: Final = struct.Struct("!II")
_LENGTH: Final = struct.Struct("!I")
#: Before the headers of SYN_STREAM: stream id, associated stream id, and priority.
_OPENING: Final = 10
_MOST_BYTES: Final = 1024 * 1024
_MOST_HEADER_BYTES: Final = 64 * 1024
_MOST_HEADERS: Final = 64

_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TEXT: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
#: The header compression dictionary of the protocol.
DICTIONARY: Final = (
    b"".join(_LENGTH.pack(len(word)) + word.replace("_", " ").encode() for word in _WORDS.split()) + _TEXT.encode()
)


class SpdyError(Exception):
    """The peer violates SPDY/3.1."""


@dataclass(frozen=True, slots=True)
class Opened:
    """SYN_STREAM: the client opens a stream."""

    stream: int
    headers: Mapping[str, str]
    #: Whether the client sends nothing on it.
    last: bool


@dataclass(frozen=True, slots=True)
class Sent:
    """A data frame."""

    stream: int
    data: bytes
    last: bool


@dataclass(frozen=True, slots=True)
class Broken:
    """RST_STREAM: the client aborts a stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Asked:
    """PING of the client."""

    number: int


@dataclass(frozen=True, slots=True)
class Leaving:
    """GOAWAY: the client opens no more streams."""


Frame: TypeAlias = Opened | Sent | Broken | Asked | Leaving


class Reader:
    """Decodes frames from pieces of any size."""

    def __init__(self) -> None:
        self._buffer: Final = bytearray()
        self._headers: Final = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The complete frames so far; SpdyError if the data is invalid."""
        self._buffer.extend(data)
        while len(self._buffer) >= _HEAD.size:
            first, second = _HEAD.unpack_from(self._buffer)
            flags, length = second >> 24, second & 0xFFFFFF
            if length > _MOST_BYTES:
                raise SpdyError(f"a frame of {length} bytes")
            if len(self._buffer) < _HEAD.size + length:
                return
            content = bytes(self._buffer[_HEAD.size : _HEAD.size + length])
            del self._buffer[: _HEAD.size + length]
            frame = self._frame(first, flags, content)
            if frame is not None:
                yield frame

    def _frame(self, first: int, flags: int, content: bytes) -> Frame | None:
        if not first >> 31:
            return Sent(first, content, bool(flags & _FIN))
        if first >> 16 != _CONTROL:
            raise SpdyError("another version than 3")
        kind = first & 0xFFFF
        if kind == _SYN_STREAM:
            number, headers = _number(content), self._unpacked(content[_OPENING:])
            return Opened(number, headers, bool(flags & _FIN))
        if kind == _RST_STREAM:
            return Broken(_number(content))
        if kind == _PING:
            return Asked(_number(content))
        return Leaving() if kind == _GOAWAY else None  # replies, settings and windows are ignored

    def _unpacked(self, packed: bytes) -> dict[str, str]:
        try:
            block = self._headers.decompress(packed, _MOST_HEADER_BYTES)
        except zlib.error as problem:
            raise SpdyError(f"headers cannot be unpacked: {problem}") from None
        if self._headers.unconsumed_tail:
            raise SpdyError("headers without end")
        texts, left = [], memoryview(block)
        count, left = _taken(left)
        if count > _MOST_HEADERS:
            raise SpdyError("headers without end")
        for _ in range(2 * count):
            size, left = _taken(left)
            if size > len(left):
                raise SpdyError("headers that break off")
            texts.append(bytes(left[:size]).decode("utf-8", "replace"))
            left = left[size:]
        return dict(zip(texts[::2], texts[1::2], strict=True))


class Writer:
    """Encodes frames; header compression has state, so each connection needs one."""

    def __init__(self) -> None:
        self._headers: Final = zlib.compressobj(zdict=DICTIONARY)

    def open(self, stream: int, headers: Mapping[str, str], *, last: bool = False) -> bytes:
        """SYN_STREAM: open a stream, without data of this side if it is the last frame."""
        texts = [part.encode() for pair in headers.items() for part in pair]
        block = _LENGTH.pack(len(headers)) + b"".join(_LENGTH.pack(len(one)) + one for one in texts)
        return _control(_SYN_STREAM, _HEAD.pack(stream, 0) + b"\0\0" + self.packed(block), _FIN if last else 0)

    def accept(self, stream: int) -> bytes:
        """SYN_REPLY: accept a stream."""
        return _control(_SYN_REPLY, _LENGTH.pack(stream) + self.packed(_LENGTH.pack(0)))

    def packed(self, block: bytes) -> bytes:
        """A block of headers, compressed; it depends on those before."""
        return self._headers.compress(block) + self._headers.flush(zlib.Z_SYNC_FLUSH)


def data(stream: int, content: bytes, *, last: bool = False) -> bytes:
    """A data frame."""
    return _HEAD.pack(stream, (_FIN << 24 if last else 0) | len(content)) + content


def refuse(stream: int) -> bytes:
    """RST_STREAM: refuse a stream."""
    return _control(_RST_STREAM, _HEAD.pack(stream, 3))


def pong(number: int) -> bytes:
    """The reply to a PING."""
    return _control(_PING, _LENGTH.pack(number))


def _control(kind: int, content: bytes, flags: int = 0) -> bytes:
    return _HEAD.pack(_CONTROL << 16 | kind, flags << 24 | len(content)) + content


def _number(content: bytes) -> int:
    if len(content) < _LENGTH.size:
        raise SpdyError("a frame that breaks off")
    found: int = _LENGTH.unpack_from(content)[0]
    return found & 0x7FFFFFFF


def _taken(left: memoryview) -> tuple[int, memoryview]:
    if len(left) < _LENGTH.size:
        raise SpdyError("headers that break off")
    return _LENGTH.unpack_from(left)[0], left[_LENGTH.size :]
