"""One client connection: HTTP/1.1 by httptools, with limits.

A request's head is limited in size and time, its body in time, and a client that does not read its responses is
disconnected, so that no client can fill the memory or hold connections without using them; between requests a
connection may be idle for a while. Pipelined requests wait for the response to the previous one. When a connection is
lost, every request on it is notified, not only the last: a client that sends another request behind a watch would
otherwise leave that watch running. The client certificate is passed with each request.

It replaces uvicorn's own protocol, which does the same for twice the processor time.
"""

import asyncio
import resource
import ssl
import urllib.parse
from collections import deque
from typing import Any, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.server import ServerState

from rota.api import scopes
from rota.apiserver.http.exchanges import Exchange

#: Go's limit, and so upstream's.
MAX_HEAD_BYTES: Final = 1024 * 1024
_HEAD_S: Final = 32.0
#: Memory of a header besides its text.
_HEADER_BYTES: Final = 32
#: A little longer than the time limit of requests, so that a slow client gets the reason.
_BODY_S: Final = 65.0
#: The minimum rate at which a client must read buffered data.
_LOOK_EVERY_S: Final = 30.0
_SLOWEST_BYTES: Final = 32 * 1024
#: Open files reserved for the store and the process; connections beyond the rest are refused.
_RESERVED_FILES: Final = 128
#: How many requests a client may pipeline. Reading goes on while fewer wait: only a reader notices the end of the
#: connection.
_MOST_AHEAD: Final = 8
_BAD: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 30\r\n"
    b"connection: close\r\n\r\nInvalid HTTP request received."
)
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class HeadTooLarge(Exception):
    """Stops the parser."""


class Connection(asyncio.Protocol):
    """Implements asyncio's protocol, the parser's callbacks, and the methods that uvicorn's server calls."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._application: Final = config.loaded_app
        self._keep_alive_s: Final[float] = config.timeout_keep_alive
        self._state: Final = server_state
        self._loop: Final = _loop or asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        # without this, data after a request with "Connection: close" is an error
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._transport: asyncio.Transport | None = None
        self._flow: FlowControl | None = None
        #: The common part of the ASGI scopes of the connection.
        self._common: dict[str, Any] = {}
        #: When the connection is closed unless something happens; None while a request is answered and no other
        #: arrives.
        self._due: float | None = None
        self._look: asyncio.TimerHandle | None = None
        self._in_body = False
        self._body_due: asyncio.TimerHandle | None = None
        self._drain_due: asyncio.TimerHandle | None = None
        #: Requests without a complete response, the oldest first; only the first is being answered.
        self._under_way: Final[deque[Exchange]] = deque()
        #: The request that is being received.
        self._incoming: Exchange | None = None
        self._head_bytes = 0
        #: Bytes read since the parser last made progress: it reports a header only when it is complete.
        self._held_bytes = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects_continue = False
        self._wants_upgrade = False
        #: The request for a protocol upgrade: what follows it is not for the parser.
        self._handed_over: Exchange | None = None

    # Callbacks of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # streams have no other
        """Wait for a request."""
        self._transport = transport
        self._flow = FlowControl(transport)
        self._state.connections.add(self)  # type: ignore[arg-type]  # a protocol of our own
        if len(self._state.connections) > resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _RESERVED_FILES:
            transport.abort()
            return
        secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        self._common = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "server": get_local_addr(transport),
            "client": get_remote_addr(transport),
            "scheme": "http" if secured is None else "https",
            "root_path": "",
        }
        certificate = secured.getpeercert(binary_form=True) if secured is not None else None
        if certificate is not None:
            self._common[scopes.PEER_CERTIFICATE] = certificate
        self._due = self._loop.time() + _HEAD_S
        self._look = self._loop.call_at(self._due, self._see)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify all running requests."""
        self._state.connections.discard(self)
        if self._look is not None:
            self._look.cancel()
        self._body_is_there()
        self._is_drained()
        for exchange in self._under_way:
            exchange.drop()
        self._under_way.clear()
        if self._flow is not None:
            self._flow.resume_writing()
        self._parser = None

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        assert self._transport is not None
        if self._transport.is_closing():
            return  # under TLS data may still arrive while the rest is sent
        if self._handed_over is not None:
            self._handed_over.feed(data)
            return
        self._held_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as behind:
            # After an offer of an unsupported protocol, requests continue.
            if self._handed_over is not None:
                self._handed_over.feed(data[behind.args[0] :])
        except httptools.HttpParserError:
            self._refuse(_TOO_LARGE if self._head_bytes > MAX_HEAD_BYTES else _BAD)
        else:
            if self._held_bytes > MAX_HEAD_BYTES:
                self._refuse(_TOO_LARGE)
        # a body that did not arrive at once has a time limit
        if self._in_body and self._body_due is None:
            self._body_due = self._loop.call_later(_BODY_S, self._transport.close)

    def eof_received(self) -> None:
        """A client that closes its side is gone."""

    def pause_writing(self) -> None:
        """Too much data is buffered for the client."""
        assert self._flow is not None
        self._flow.pause_writing()
        if self._drain_due is None:
            self._look_again()

    def resume_writing(self) -> None:
        """The client has caught up."""
        assert self._flow is not None
        self._is_drained()
        self._flow.resume_writing()

    # Callbacks of the server

    def shutdown(self) -> None:
        """Close as soon as no request is being answered."""
        assert self._transport is not None
        if self._under_way:
            for exchange in self._under_way:
                exchange.keep_alive = False
        else:
            self._transport.close()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """A request's head begins."""
        self._url, self._headers, self._head_bytes, self._held_bytes = b"", [], 0, 0
        self._expects_continue = self._wants_upgrade = False
        self._incoming = None
        self._due = self._loop.time() + _HEAD_S

    def on_url(self, url: bytes) -> None:
        """Part of the path."""
        self._grow(len(url))
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; a trailer after a chunked body is ignored, whatever its name."""
        self._grow(len(name) + len(value) + _HEADER_BYTES)
        if self._in_body:
            return  # a trailer: the request is already authenticated by its head
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        elif name == b"upgrade":
            self._wants_upgrade = value.lower() == b"websocket"
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Start to answer, or queue the request."""
        assert self._transport is not None
        assert self._flow is not None
        self._due = None
        self._held_bytes = 0
        self._in_body = True
        scope = self._common.copy()
        scope["method"] = self._parser.get_method().decode("ascii")
        version = self._parser.get_http_version()
        if version != "1.1":
            scope["http_version"] = version
        url = self._url if self._url.startswith(b"/") and b"#" not in self._url else _relative(self._url)
        raw_path, _, query = url.partition(b"?")
        path = raw_path.decode("ascii")
        scope["path"] = urllib.parse.unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = query
        scope["headers"], self._headers = self._headers, []  # trailers do not change the request
        exchange = self._incoming = Exchange(
            scope,
            self._transport,
            self._flow,
            defaults=self._state.default_headers,
            keep_alive=version != "1.0" and self._parser.should_keep_alive(),
            expects_continue=self._expects_continue,
        )
        if self._wants_upgrade and scope["method"] == "GET" and self._parser.should_upgrade():
            exchange.offer_upgrade()
            self._handed_over = exchange
        self._under_way.append(exchange)
        if len(self._under_way) == 1:
            self._start(exchange)
        elif len(self._under_way) > _MOST_AHEAD:
            self._flow.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Part of the body."""
        self._held_bytes = 0
        if self._incoming is not None and not self._incoming.response_complete:
            self._incoming.feed(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._held_bytes = 0
        self._body_is_there()
        if self._incoming is not None:
            self._incoming.finish()

    def _body_is_there(self) -> None:
        self._in_body = False
        if self._body_due is not None:
            self._body_due.cancel()
            self._body_due = None

    def _look_again(self) -> None:
        assert self._transport is not None
        waiting = self._transport.get_write_buffer_size()
        self._drain_due = self._loop.call_later(_LOOK_EVERY_S, self._judge_pace, waiting)

    def _judge_pace(self, before: int) -> None:
        assert self._transport is not None
        stuck = self._transport.get_write_buffer_size() > before - _SLOWEST_BYTES
        # A terminal may stay open for any time; at most a buffer of data waits for it.
        if stuck and self._handed_over is None:
            self._transport.abort()
        else:
            self._look_again()

    def _is_drained(self) -> None:
        if self._drain_due is not None:
            self._drain_due.cancel()
            self._drain_due = None

    def _grow(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise HeadTooLarge

    def _refuse(self, answer: bytes) -> None:
        """Close, with an error response unless it would end up in the middle of another one."""
        assert self._transport is not None
        if not (self._under_way and self._under_way[0].begun):
            self._transport.write(answer)
        self._transport.close()

    def _start(self, exchange: Exchange) -> None:
        task = self._loop.create_task(exchange.run(self._application, self._over))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    def _over(self, exchange: Exchange) -> None:
        """Continue with the next request."""
        if not self._under_way or self._under_way[0] is not exchange:
            return  # the connection is lost
        assert self._transport is not None
        assert self._flow is not None
        self._under_way.popleft()
        self._state.total_requests += 1
        if not exchange.keep_alive:
            self._transport.close()
        if self._transport.is_closing():
            return
        now = self._loop.time()
        if self._flow.read_paused:
            self._flow.resume_reading()
            if self._due is not None:
                self._due = now + _HEAD_S  # the rest of a head could not arrive
        if self._under_way:
            self._start(self._under_way[0])
        elif self._due is None:
            self._due = now + self._keep_alive_s

    def _see(self) -> None:
        """Close the connection if its time is over, otherwise check again later.

        One timer that fires late costs less than one that is set and cleared with every request.
        """
        assert self._transport is not None
        assert self._flow is not None
        now = self._loop.time()
        due = None if self._flow.read_paused else self._due
        if due is not None and due <= now:
            self._transport.close()
            return
        self._look = self._loop.call_at(now + _HEAD_S if due is None else due, self._see)


def _relative(url: bytes) -> bytes:
    """The path and query of a URL in absolute or other form."""
    parsed = httptools.parse_url(url)
    return (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")
