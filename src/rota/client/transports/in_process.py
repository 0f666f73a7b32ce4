"""Calls an ASGI application in this process: no socket, no copy of the body, streams in both directions.

The application sees the same as behind an HTTP server: a disconnect when the caller leaves early, back pressure when
the caller reads slowly, and no cancellation in the middle of a write because its caller was cancelled. So both
transports are interchangeable.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote, urlencode

from rota.api import scopes
from rota.api.users import User
from rota.client.transports.transport import Call, Interrupted, TimedOut, Unreachable
from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

#: Chunks that a streaming application may be ahead of its reader.
_AHEAD: Final = 64
#: How long applications may take to notice the disconnect, when the transport is closed.
_FAREWELL_S: Final = 5.0


class InProcessTransport:
    """A `Transport` into an application."""

    def __init__(
        self, app: Application, *, clock: Clock, headers: Mapping[str, str] | None = None, user: User | None = None
    ) -> None:
        """`headers` go with every call, for example credentials; with a `user` none are needed: the application trusts
        us."""
        self._app: Final = app
        self._clock: Final = clock
        self._headers: Final = dict(headers or {})
        self._user: Final = user
        #: Every call of the application that has not ended, also after its caller has left.
        self._running: Final[set[asyncio.Task[None]]] = set()
        self._exchanges: Final[set[_Exchange]] = set()
        self._closed = False

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator["_Exchange"]:
        """See `Transport.open`."""
        if self._closed:
            raise Unreachable(f"{call}: the transport is closed")
        deadline = None if call.timeout_s is None else self._clock.monotonic() + call.timeout_s
        exchange = _Exchange(call, self._clock, deadline)
        task = asyncio.create_task(exchange.run(self._app, self._scope(call)), name=f"in-process {call}")
        self._running.add(task)
        self._exchanges.add(exchange)
        task.add_done_callback(self._running.discard)
        try:
            await exchange.begin()
            yield exchange
        finally:
            exchange.leave()
            self._exchanges.discard(exchange)

    async def close(self) -> None:
        """See `Transport.close`; waits for the calls of the application."""
        self._closed = True
        for exchange in tuple(self._exchanges):
            exchange.cut("the transport was closed")
        if self._running:
            with contextlib.suppress(TimeoutError):
                await self._clock.wait_for(asyncio.wait(set(self._running)), _FAREWELL_S)
        for task in tuple(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(set(self._running))

    def _scope(self, call: Call) -> dict[str, Any]:
        headers = {**self._headers, **call.headers}
        if isinstance(call.body, bytes) and call.body:
            headers["content-length"] = str(len(call.body))
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": call.method,
            "scheme": "http",
            "path": unquote(call.path),
            "raw_path": call.path.encode("latin-1"),
            "root_path": "",
            "query_string": urlencode(call.query, quote_via=quote).encode(),
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
            "client": None,
            "server": None,
            scopes.ACTING_AS: self._user,
        }


class _Exchange:
    """One call and its answer, between the application's task and the caller's."""

    def __init__(self, call: Call, clock: Clock, deadline: float | None) -> None:
        self._call: Final = call
        self._clock: Final = clock
        self._deadline: Final = deadline
        self._upload: Final = None if isinstance(call.body, bytes) else aiter(call.body)
        self._sent = False
        self._gone: Final = asyncio.Event()
        self._begun: Final = asyncio.Event()
        #: None ends the body, an exception aborts it.
        self._chunks: Final[asyncio.Queue[bytes | Interrupted | None]] = asyncio.Queue(_AHEAD)
        self._failure: Interrupted | None = None
        self._ended = False
        self.code = 0
        self.headers: Mapping[str, str] = {}
        self.warnings: tuple[str, ...] = ()

    async def begin(self) -> None:
        """Wait for the status."""
        await self._in_time(self._begun.wait())
        if not self.code:
            raise self._failure or Interrupted(f"{self._call}: the application gave no answer")

    async def chunks(self) -> AsyncIterator[bytes]:
        """See `Answer.chunks`."""
        while not self._ended:
            chunk = await self._in_time(self._chunks.get())
            if chunk is None:
                self._ended = True
            elif isinstance(chunk, Interrupted):
                self._ended = True
                raise chunk
            else:
                yield chunk

    async def read(self) -> bytes:
        """See `Answer.read`."""
        parts = [chunk async for chunk in self.chunks()]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def leave(self) -> None:
        """The caller leaves: the application sees a disconnect, and its output is dropped."""
        self._gone.set()
        while not self._chunks.empty():
            self._chunks.get_nowait()

    def cut(self, why: str) -> None:
        """Abort the exchange for both sides."""
        self._failure = Interrupted(f"{self._call}: {why}")
        self.leave()
        self._chunks.put_nowait(self._failure)
        self._begun.set()

    async def run(self, app: Application, scope: dict[str, Any]) -> None:
        """The application's side."""
        try:
            await app(scope, self._receive, self._send)
            broken = Interrupted(f"{self._call}: the application ended without finishing its answer")
        except Exception as error:
            log.exception("application crashed", error=error, call=str(self._call))
            broken = Interrupted(f"{self._call}: the application crashed")
        except asyncio.CancelledError:
            self._failure = Interrupted(f"{self._call}: the application was stopped")
            self._begun.set()
            raise
        if not self._begun.is_set():
            self._failure = broken
            self._begun.set()
        # A reader that has seen the end ignores this.
        await self._put(broken)

    async def _receive(self) -> Message:
        if not self._sent:
            if self._upload is None:
                self._sent = True
                return {"type": "http.request", "body": self._call.body, "more_body": False}
            chunk = await anext(self._upload, None)
            self._sent = chunk is None
            return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start(message)
            return
        if body := message.get("body"):
            await self._put(bytes(body))
        if not message.get("more_body"):
            await self._put(None)

    def _start(self, message: Message) -> None:
        pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in message["headers"]]
        self.headers = dict(pairs)
        self.warnings = tuple(value for name, value in pairs if name == "warning")
        self.code = message["status"]
        self._begun.set()

    async def _put(self, chunk: bytes | Interrupted | None) -> None:
        if self._gone.is_set():
            # Output is dropped, but other tasks must run: an application that only ever sends would block the event
            # loop.
            await asyncio.sleep(0)
            return
        if not self._chunks.full():
            self._chunks.put_nowait(chunk)
            return
        # Full: wait for the reader, unless it leaves.
        putting = asyncio.ensure_future(self._chunks.put(chunk))
        leaving = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait((putting, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            putting.cancel()
            leaving.cancel()

    async def _in_time(self, awaitable: Awaitable[Any]) -> Any:
        if self._deadline is None:
            return await awaitable
        try:
            return await self._clock.wait_for(awaitable, max(self._deadline - self._clock.monotonic(), 0.0))
        except TimeoutError:
            raise TimedOut(f"{self._call}: no complete answer within {self._call.timeout_s:g} s") from None
