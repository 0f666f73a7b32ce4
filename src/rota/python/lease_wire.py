"""The protocol between a client and a leased worker: frames over a socket. It needs only the standard library.

A frame is a header, the lengths of its buffers, a small part (`meta`) and the buffers themselves, which are the
out-of-band buffers of pickle protocol 5. Large buffers are received into memory of their own and are not copied again.

    kind u8, flags u8, number of buffers u16, length of meta u32, call u64, length u64 of each buffer, meta, buffers

The same frames go over TLS between client and worker, and over a socket pair between the two processes of a worker.
Whatever a peer sends, a frame has at most `most_bytes` and `MOST_BUFFERS`.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    Part: TypeAlias = bytes | bytearray | memoryview

#: The version of this protocol; client and worker compare it first.
PROTOCOL = 1
# From the client.
FUNCTION, FORGET, CALL, CANCEL, RECALL, OUTPUT, FETCH, DROP, GIVE_BACK, PUT = range(1, 11)
# From the worker. STARTED is sent for calls that take a while; LEAVING says that the worker has to stop soon.
HELLO, STARTED, RESULT, RECALLED, DIED, PRINTED, LEAVING = range(32, 39)
# Flags of a result: JSON could express it; the function raised; it could not be called or its value not be sent; it
# stays with the worker until it is fetched or dropped.
PLAIN, RAISED, PROBLEM, HELD = 1, 2, 4, 8

HEADER = struct.Struct("!BBHIQ")
#: The head of a call's meta: digest of the function, seconds it may take (0 for any), number of referenced results;
#: the numbers of these follow, and then the pickled arguments.
CALL_HEAD = struct.Struct("!32sdH")
#: The head of a result's meta: seconds that it took, length of the printed text, bytes of the whole result.
RESULT_HEAD = struct.Struct("!dIQ")
NUMBER = struct.Struct("!Q")
MOST_BUFFERS = 4096
#: No peer may send a larger frame.
MOST_BYTES = 8 << 30
_CHUNK = 256 * 1024
_JOINED = 64 * 1024
_PIECE = 1 << 20
#: Reads in a row before other sockets get their turn.
_READS = 64


class Closed(Exception):
    """The peer has closed the connection, or it broke."""


class BadFrame(Exception):
    """The peer sent what is no frame, or too large a one."""


class Frame:
    """One message."""

    __slots__ = ("buffers", "call", "flags", "kind", "meta")

    def __init__(self, kind: int, call: int = 0, flags: int = 0, meta: Part = b"") -> None:
        self.kind = kind
        self.flags = flags
        self.call = call
        self.meta = meta
        self.buffers: list[Part] = []

    @property
    def size(self) -> int:
        """Bytes of its content."""
        return len(self.meta) + sum(len(one) for one in self.buffers)


def call_meta(digest: bytes, timeout: float, refs: Sequence[int], arguments: bytes) -> bytes:
    """The meta of a call."""
    head = CALL_HEAD.pack(digest, timeout, len(refs))
    return b"".join((head, *(NUMBER.pack(one) for one in refs), arguments))


def read_call(meta: Part) -> tuple[bytes, float, list[int], memoryview]:
    """Digest, timeout, references and pickled arguments of a call; `BadFrame` if they are not there."""
    try:
        digest, timeout, count = CALL_HEAD.unpack_from(meta)
        at = CALL_HEAD.size
        refs = [NUMBER.unpack_from(meta, at + NUMBER.size * number)[0] for number in range(count)]
    except struct.error as problem:
        raise BadFrame(str(problem)) from None
    return digest, timeout, refs, memoryview(meta)[at + NUMBER.size * count :]


def result_meta(took: float, printed: bytes, size: int, value: bytes) -> bytes:
    """The meta of a result."""
    return b"".join((RESULT_HEAD.pack(took, len(printed), size), printed, value))


def read_result(meta: Part) -> tuple[float, bytes, int, memoryview]:
    """Seconds, printed text, size and pickled value of a result; `BadFrame` if they are not there."""
    try:
        took, length, size = RESULT_HEAD.unpack_from(meta)
    except struct.error as problem:
        raise BadFrame(str(problem)) from None
    at = RESULT_HEAD.size
    return took, bytes(meta[at : at + length]), size, memoryview(meta)[at + length :]


class _Partial:
    """A frame that is being received."""

    __slots__ = ("at", "frame", "targets")

    def __init__(self, frame: Frame, lengths: Iterable[int], meta: int) -> None:
        memory = [bytearray(one) for one in (meta, *lengths)]
        frame.meta, frame.buffers = memory[0], [*memory[1:]]
        self.frame = frame
        self.targets = deque(memoryview(one) for one in memory if len(one))
        self.at = 0

    def take(self, data: memoryview) -> int:
        """Copy what belongs to it; returns how much that was."""
        taken = 0
        while self.targets and taken < len(data):
            target = self.targets[0]
            count = min(len(target) - self.at, len(data) - taken)
            target[self.at : self.at + count] = data[taken : taken + count]
            taken += count
            self.filled(count)
        return taken

    def filled(self, count: int) -> None:
        """Note that so many bytes of the first target have arrived."""
        self.at += count
        if self.at == len(self.targets[0]):
            self.targets.popleft()
            self.at = 0

    def rest(self) -> memoryview:
        """The memory that the next bytes belong to."""
        return self.targets[0][self.at :]


class Channel:
    """Sends and receives frames over a socket, blocking or not."""

    def __init__(self, connection: socket.socket, *, blocking: bool = False, most_bytes: int = MOST_BYTES) -> None:
        self.socket = connection
        self.unsent = 0
        self._blocking = blocking
        self._most_bytes = most_bytes
        self._out: deque[Part] = deque()
        self._scratch = bytearray(_CHUNK)
        self._view = memoryview(self._scratch)
        self._rest = bytearray()
        self._partial: _Partial | None = None

    def fileno(self) -> int:
        """The socket's number."""
        return self.socket.fileno()

    # --- sending ------------------------------------------------------------------------------------------------------

    def send(
        self,
        kind: int,
        call: int = 0,
        *,
        flags: int = 0,
        meta: Part = b"",
        buffers: Sequence[Part] = (),
    ) -> None:
        """Queue a frame; `flush` sends it."""
        head = HEADER.pack(kind, flags, len(buffers), len(meta), call)
        if buffers:
            head += b"".join(NUMBER.pack(len(one)) for one in buffers)
        self._out.append(head)
        if len(meta):
            self._out.append(meta)
        self._out.extend(one for one in buffers if len(one))
        self.unsent += len(head) + len(meta) + sum(len(one) for one in buffers)

    def forward(self, frame: Frame) -> None:
        """Queue a frame that was received."""
        self.send(frame.kind, frame.call, flags=frame.flags, meta=frame.meta, buffers=frame.buffers)

    def flush(self) -> bool:
        """Send what the socket takes; whether nothing is left. `Closed` if the connection is broken."""
        out = self._out
        while out:
            head = self._head()
            try:
                sent = self.socket.send(head[:_PIECE] if len(head) > _PIECE else head)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError, BlockingIOError, InterruptedError):
                return False
            except OSError as problem:
                raise Closed(str(problem)) from None
            self.unsent -= sent
            if sent == len(head):
                out.popleft()
            else:
                out[0] = head[sent:]
        return True

    def _head(self) -> memoryview:
        """The next bytes to send, small pieces joined into one."""
        out = self._out
        first = out[0]
        if isinstance(first, memoryview):
            return first
        if len(first) < _JOINED and len(out) > 1:
            size, parts = 0, []
            while out and size + len(out[0]) <= _JOINED:
                size += len(out[0])
                parts.append(out.popleft())
            first = b"".join(parts) if parts else out.popleft()
            out.appendleft(first)
        # A memoryview is never joined again: TLS wants an interrupted write to be repeated as it was.
        out[0] = view = memoryview(first)
        return view

    # --- receiving ----------------------------------------------------------------------------------------------------

    def receive(self) -> list[Frame]:
        """The frames that have arrived; `Closed` at the end, `BadFrame` for what is none."""
        frames: list[Frame] = []
        for _ in range(1 if self._blocking else _READS):
            partial = self._partial
            direct = partial is not None and len(partial.rest()) >= _CHUNK
            try:
                count = self.socket.recv_into(partial.rest() if direct and partial is not None else self._view)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError, InterruptedError):
                break
            except OSError as problem:
                if frames:
                    break
                raise Closed(str(problem)) from None
            if not count:
                if frames:
                    break
                raise Closed("the peer closed the connection")
            if direct and partial is not None:
                partial.filled(count)
                self._complete(frames)
            else:
                self._parse(self._view[:count], frames)
        return frames

    def _parse(self, data: memoryview, frames: list[Frame]) -> None:
        if self._partial is not None:
            data = data[self._partial.take(data) :]
            self._complete(frames)
            if not len(data):
                return
        rest = self._rest
        if rest:
            rest += data
            data = memoryview(bytes(rest))
            rest.clear()
        at = 0
        while len(data) - at >= HEADER.size:
            kind, flags, count, length, call = HEADER.unpack_from(data, at)
            body = at + HEADER.size + NUMBER.size * count
            if count > MOST_BUFFERS:
                raise BadFrame(f"a frame has {count} buffers, and at most {MOST_BUFFERS} are allowed")
            if len(data) < body:
                break
            lengths = [NUMBER.unpack_from(data, at + HEADER.size + NUMBER.size * one)[0] for one in range(count)]
            if length + sum(lengths) > self._most_bytes:
                raise BadFrame(f"a frame has {length + sum(lengths)} bytes, and at most {self._most_bytes} are allowed")
            partial = _Partial(Frame(kind, call, flags), lengths, length)
            at = body + partial.take(data[body:])
            self._partial = partial
            self._complete(frames)
        rest += data[at:]

    def _complete(self, frames: list[Frame]) -> None:
        if self._partial is not None and not self._partial.targets:
            frames.append(self._partial.frame)
            self._partial = None

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()
