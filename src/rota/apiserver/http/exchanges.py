"""One request and its response on a connection, as ASGI's `receive` and `send`.

It does the same as uvicorn's own class with less work: a response of known length is sent in one piece, a request that
arrived in one piece does not wait, and nothing is logged here. An application that sends more than the announced
length, or no response, has a bug, which closes the connection and does not affect others.
"""

import asyncio
import http
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol

from rota.api import scopes
from rota.kit import logs, sockets

log = logs.get(__name__)

_STATUS: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus}
_BODILESS: Final = frozenset({204, 304})
#: A larger body is read from the client as the application consumes it.
_READ_AHEAD: Final = 64 * 1024
#: A smaller response is sent in one piece with its head; a larger one is not copied for that.
_TOGETHER: Final = 64 * 1024
_DISCONNECT: Final = {"type": "http.disconnect"}
_FAILED: Final = (
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 21\r\n"
    b"connection: close\r\n\r\nInternal Server Error"
)

Application = Callable[[Any, Any, Any], Awaitable[None]]


class Flow(Protocol):
    """Flow control of a connection."""

    @property
    def write_paused(self) -> bool:
        """Whether more was written than the client has read."""
        ...

    async def drain(self) -> None:
        """Wait until it has read enough."""
        ...

    def pause_reading(self) -> None:
        """Stop reading from it."""
        ...

    def resume_reading(self) -> None:
        """Resume reading."""
        ...


class Exchange:
    """One running request. `run` it in a task; the connection feeds it and is notified when it is over."""

    __slots__ = (
        "_bodiless",
        "_continue",
        "_defaults",
        "_ended",
        "_flow",
        "_head",
        "_left",
        "_parts",
        "_raw",
        "_read_ahead",
        "_scope",
        "_started",
        "_transport",
        "_waiting",
        "disconnected",
        "keep_alive",
        "response_complete",
    )

    def __init__(
        self,
        scope: dict[str, Any],
        transport: asyncio.Transport,
        flow: Flow,
        *,
        defaults: list[tuple[bytes, bytes]],
        keep_alive: bool,
        expects_continue: bool,
    ) -> None:
        self._scope: Final = scope
        scope[scopes.ANSWER] = self.answer
        self._transport: Final = transport
        self._flow: Final = flow
        #: Headers of every response.
        self._defaults: Final = defaults
        #: Whether another request may follow on the connection.
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False
        self._continue = expects_continue
        self._parts: list[bytes] = []
        self._read_ahead = 0
        #: Whether the body is complete; None once the application has been told.
        self._ended: bool | None = False
        self._waiting: asyncio.Future[None] | None = None
        self._started = False
        #: The head of a response that is sent together with its body.
        self._head = b""
        #: The remaining length of the body; None if it is unknown and sent in chunks.
        self._left: int | None = 0
        self._bodiless = scope["method"] == "HEAD"
        #: Whether the connection was handed over to another protocol.
        self._raw = False

    async def run(self, application: Application, over: Callable[["Exchange"], None]) -> None:
        """Answer the request; `over` is called at the end in any case."""
        try:
            await application(self._scope, self.receive, self.send)
        except Exception as error:  # the application handles all known errors; this is a bug, or the end of the loop
            log.exception("request failed without a response", error=error, path=self._scope["path"])
            self._break_off()
        except asyncio.CancelledError:
            self._break_off()
            raise
        else:
            if not self.response_complete and not self.disconnected:
                self._break_off()
        finally:
            over(self)

    @property
    def begun(self) -> bool:
        """Whether part of the response has been sent."""
        return self._started and not self._head

    # Callbacks of the connection

    def feed(self, part: bytes) -> None:
        """Part of the body, or data of another protocol."""
        self._parts.append(part)
        self._read_ahead += len(part)
        if self._read_ahead > _READ_AHEAD:
            self._flow.pause_reading()
        self.wake()

    def finish(self) -> None:
        """The body is complete."""
        self._ended = True
        self.wake()

    def drop(self) -> None:
        """The client is gone."""
        self.disconnected = True
        self.wake()

    def wake(self) -> None:
        """Wake the application to receive again."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # ASGI

    async def receive(self) -> dict[str, Any]:
        """The next part of the body, or the end of the connection."""
        if self._continue and not self._transport.is_closing():
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._continue = False
        while not (self.disconnected or self.response_complete):
            if self._parts or self._ended:
                body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts.clear()
                self._read_ahead = 0
                more = not self._ended
                self._ended = None if self._ended else False
                return {"type": "http.request", "body": body, "more_body": more}
            self._flow.resume_reading()
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        return _DISCONNECT

    async def send(self, message: dict[str, Any]) -> None:
        """Start the response, or send part of it."""
        if self._flow.write_paused and not self.disconnected:
            await self._flow.drain()
        if self.disconnected:
            return
        if not self._started:
            self._begin(message["status"], message["headers"])
        else:
            self._write(message["body"], more=message.get("more_body", False))

    async def answer(self, code: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a complete response; see `scopes.ANSWER`."""
        if self._flow.write_paused and not self.disconnected:
            await self._flow.drain()
        if not self.disconnected:
            self._begin(code, headers)
            self._write(body, more=False)

    def offer_upgrade(self) -> None:
        """The client asks for WebSocket; the application may take over the connection."""
        self._scope[scopes.UPGRADE] = self._upgrade
        self.keep_alive = False  # what follows is not a request, whatever the response

    def _upgrade(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Hand the connection over; see `scopes.UPGRADE`."""
        lines = [b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"]
        lines += [b"%b: %b\r\n" % (name, value) for name, value in headers]
        self._raw = self._started = True
        self._ended = False
        sockets.notice_loss(self._transport)
        if not self.disconnected:
            self._transport.write(b"".join(lines) + b"\r\n")

    def _begin(self, code: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._continue = False
        lines = [_STATUS.get(code) or b"HTTP/1.1 %d \r\n" % code]  # another server's answer may have any code
        length: int | None = None
        for name, value in (*self._defaults, *headers):
            lines.append(b"%b: %b\r\n" % (name, value))
            if name == b"content-length":
                length = int(value)
        if self._bodiless or code in _BODILESS:
            self._bodiless = True
        elif length is None:
            lines.append(b"transfer-encoding: chunked\r\n")
            self._left = None
        else:
            self._left = length
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or b"\0" in head:
            raise ValueError("a header breaks its line")
        self._started = True
        if self._left is None:
            self._transport.write(head + b"\r\n")
        else:
            self._head = head + b"\r\n"

    def _write(self, body: bytes, *, more: bool) -> None:
        if self._bodiless:
            body = b""
        if self._raw:
            self._transport.write(body)
        elif self._left is None:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                chunk += b"0\r\n\r\n"
            self._transport.write(chunk)
        else:
            self._left -= len(body)
            if not self._bodiless and (self._left < 0 or (self._left and not more)):
                raise ValueError("the answer is not as long as it said")
            if self._head and len(body) < _TOGETHER:
                body = self._head + body
            elif self._head:
                self._transport.write(self._head)
            self._head = b""
            self._transport.write(body)
        if not more:
            self.response_complete = True
            self.wake()

    def _break_off(self) -> None:
        if not self.disconnected:
            if not self._started or self._head:
                self._transport.write(_FAILED)
            self._transport.close()
        self.disconnected = True
