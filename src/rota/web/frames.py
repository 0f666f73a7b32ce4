"""WebSocket frames of a server (RFC 6455), without extensions. Pure: bytes in, messages out, and the reverse."""

import base64
import hashlib
import struct
from dataclasses import dataclass
from typing import Final

TEXT: Final = 1
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
_CONTINUATION: Final = 0
_BINARY: Final = 2
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#: The largest message that a page sends.
MAX_MESSAGE_BYTES: Final = 64 * 1024


class ProtocolError(Exception):
    """The client does not speak WebSocket as it should."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code: Final = code


@dataclass(frozen=True, slots=True)
class Message:
    """A complete message, or a control frame."""

    kind: int
    content: bytes


def accept(key: bytes) -> bytes:
    """The proof of a handshake."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())


def encode(kind: int, content: bytes) -> bytes:
    """A message as one frame."""
    size = len(content)
    if size < 126:
        return struct.pack("!BB", 0x80 | kind, size) + content
    if size < 1 << 16:
        return struct.pack("!BBH", 0x80 | kind, 126, size) + content
    return struct.pack("!BBQ", 0x80 | kind, 127, size) + content


def closing(code: int, reason: str) -> bytes:
    """A close frame."""
    return encode(CLOSE, struct.pack("!H", code) + reason.encode()[:120])


class Reader:
    """Splits what a client sends into messages."""

    def __init__(self) -> None:
        self._waiting = b""
        self._parts: list[bytes] = []
        self._kind: int | None = None

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now; ProtocolError if the client breaks the protocol."""
        self._waiting += data
        messages = []
        while (found := self._frame()) is not None:
            final, kind, content = found
            if kind >= CLOSE:
                if not final or len(content) > 125:
                    raise ProtocolError(1002, "a control frame is short and whole")
                messages.append(Message(kind, content))
                continue
            if (kind == _CONTINUATION) != (self._kind is not None) or kind > _BINARY:
                raise ProtocolError(1002, "a frame is out of order")
            self._kind = kind if self._kind is None else self._kind
            self._parts.append(content)
            if sum(map(len, self._parts)) > MAX_MESSAGE_BYTES:
                raise ProtocolError(1009, "the message is too long")
            if final:
                messages.append(Message(self._kind, b"".join(self._parts)))
                self._parts, self._kind = [], None
        return messages

    def _frame(self) -> tuple[bool, int, bytes] | None:
        raw = self._waiting
        if len(raw) < 2:
            return None
        first, second = raw[0], raw[1]
        if first & 0x70:
            raise ProtocolError(1002, "no extension was agreed on")
        if not second & 0x80:
            raise ProtocolError(1002, "a client masks its frames")
        size, at = second & 0x7F, 2
        if size >= 126:
            wide = 2 if size == 126 else 8
            if len(raw) < 2 + wide:
                return None
            size, at = int.from_bytes(raw[2 : 2 + wide], "big"), 2 + wide
        if size > MAX_MESSAGE_BYTES:
            raise ProtocolError(1009, "the message is too long")
        if len(raw) < at + 4 + size:
            return None
        mask, content = raw[at : at + 4], raw[at + 4 : at + 4 + size]
        self._waiting = raw[at + 4 + size :]
        key = (mask * (size // 4 + 1))[:size]
        plain = (int.from_bytes(content, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")
        return bool(first & 0x80), first & 0x0F, plain
