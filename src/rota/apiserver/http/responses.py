"""HTTP responses: a complete body, or chunks.

`send` writes either to an ASGI connection and never leaves a stream open: when the client disconnects or sending fails,
the chunks' iterator is closed. Large bodies are compressed for clients that accept it, as upstream does.
"""

import asyncio
import gzip
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from rota.api import errors, scopes
from rota.apiserver.http.requests import Request, Send
from rota.apiserver.interfaces import Duplex
from rota.kit.clock import Clock

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]

JSON: Final = "application/json"
#: Below this size compression costs more than it saves.
_COMPRESS_FROM: Final = 128 * 1024
#: The fastest level: lists are so repetitive that more effort gains little.
_COMPRESS_LEVEL: Final = 1
#: The maximum size of all warnings in the headers.
_WARNING_BYTES: Final = 4096
#: A stream whose client reads nothing for this long is closed.
_STALLED_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Response:
    """A complete response."""

    code: int
    body: bytes
    content_type: str = JSON
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Streamed:
    """A streamed response; each chunk is sent at once."""

    #: If it can be closed (`aclose`), it is when the response ends, for any reason.
    chunks: AsyncIterable[bytes]
    content_type: str = JSON
    headers: Headers = ()
    code: int = 200


@dataclass(frozen=True, slots=True)
class Tunnelled:
    """No response: another server takes over the connection."""

    peer: Duplex
    headers: Headers = ()
    code: ClassVar[int] = 101


@dataclass(frozen=True, slots=True)
class Deferred:
    """A complete response that takes long to build: the server does that off its event loop."""

    make: Callable[[], Response]


Whole: TypeAlias = Response | Deferred
Answer: TypeAlias = Response | Streamed | Tunnelled


def from_error(error: errors.ApiError) -> Response:
    """An error as a Status."""
    retry = error.retry_after_seconds
    headers = ((b"retry-after", str(retry).encode()),) if retry else ()
    return Response(error.code, error.encode() + b"\n", headers=headers)


def text(code: int, body: str) -> Response:
    """Plain text."""
    headers = ((b"x-content-type-options", b"nosniff"),)
    return Response(code, body.encode(), "text/plain; charset=utf-8", headers)


def value(code: int, body: object) -> Response:
    """Plain JSON values."""
    return Response(code, msgspec.json.encode(body))


def warning_headers(warnings: Sequence[str]) -> Headers:
    """Warnings for the client's user; those that exceed the size limit are left out."""
    headers = []
    budget = _WARNING_BYTES
    for warning in warnings:
        plain = "".join(character if character.isprintable() else " " for character in warning)
        escaped = plain.replace("\\", "\\\\").replace('"', '\\"').encode()
        budget -= len(escaped)
        if budget < 0:
            break
        headers.append((b"warning", b'299 - "' + escaped + b'"'))
    return tuple(headers)


async def send(answer: Answer, request: Request, transmit: Send, *, clock: Clock, ending: asyncio.Event) -> None:
    """Send a response; `ending` ends streams when the server shuts down."""
    if isinstance(answer, Streamed):
        await _send_stream(answer, request, transmit, clock, ending)
        return
    if isinstance(answer, Tunnelled):
        await _tunnel(answer, request, transmit, ending)
        return
    body, headers = answer.body, [(b"content-type", answer.content_type.encode()), *answer.headers]
    if len(body) >= _COMPRESS_FROM and b"gzip" in request.headers.get(b"accept-encoding", b""):
        # a list of ten thousand objects takes tens of milliseconds, for which other requests should not wait
        body = await asyncio.to_thread(gzip.compress, body, _COMPRESS_LEVEL, mtime=0)
        headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    headers.append((b"content-length", b"%d" % len(body)))
    at_once = request.scope.get(scopes.ANSWER)
    if at_once is not None:
        await at_once(answer.code, headers, body)
        return
    await transmit({"type": "http.response.start", "status": answer.code, "headers": headers})
    await transmit({"type": "http.response.body", "body": b"" if request.method == "HEAD" else body})


async def _send_stream(answer: Streamed, request: Request, transmit: Send, clock: Clock, ending: asyncio.Event) -> None:
    headers = [(b"content-type", answer.content_type.encode()), *answer.headers]
    pump = _Pump(answer.chunks, transmit)
    try:
        await transmit({"type": "http.response.start", "status": answer.code, "headers": headers})
        running = asyncio.create_task(pump.run())
        ends = [
            asyncio.create_task(request.disconnected()),
            asyncio.create_task(ending.wait()),
            asyncio.create_task(pump.stalled(clock)),
        ]
        try:
            await asyncio.wait((running, *ends), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _finish(running, *ends)
        if ending.is_set():
            await transmit({"type": "http.response.body", "body": b""})
    finally:
        closing = getattr(answer.chunks, "aclose", None)
        if closing is not None:
            await closing()


async def _tunnel(answer: Tunnelled, request: Request, transmit: Send, ending: asyncio.Event) -> None:
    """Forward bytes in both directions until either side, or the server, has ended."""
    peer = answer.peer

    async def upwards() -> None:
        async for piece in request.pieces():
            await peer.write(piece)

    async def downwards() -> None:
        while piece := await peer.read():
            await transmit({"type": "http.response.body", "body": piece, "more_body": True})

    try:
        request.scope[scopes.UPGRADE](answer.headers)
        tasks = [asyncio.create_task(work) for work in (upwards(), downwards(), ending.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _finish(*tasks)
    finally:
        peer.close()
    await transmit({"type": "http.response.body", "body": b""})


class _Pump:
    """Moves chunks from their source to the client."""

    def __init__(self, chunks: AsyncIterable[bytes], transmit: Send) -> None:
        self._chunks = chunks
        self._transmit = transmit
        self._sent = 0
        self._sending = False

    async def run(self) -> None:
        """Run until the source ends."""
        async for chunk in self._chunks:
            self._sending = True
            await self._transmit({"type": "http.response.body", "body": chunk, "more_body": True})
            self._sending = False
            self._sent += 1
        await self._transmit({"type": "http.response.body", "body": b""})

    async def stalled(self, clock: Clock) -> None:
        """Return once the client has read nothing of a chunk for a long time; a slow client is waited for.

        Checked periodically, because a timeout for each chunk would cost more than sending it.
        """
        stuck = -1
        while not (self._sending and self._sent == stuck):
            stuck = self._sent if self._sending else -1
            await clock.sleep(_STALLED_S)


async def _finish(*tasks: asyncio.Task[Any]) -> None:
    """Cancel and await; errors of the client's connection are ignored."""
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(
            outcome, asyncio.CancelledError | TimeoutError | OSError
        ):
            raise outcome
