"""One client's connection: HTTP/1.1 by httptools, with an end to what a client may do to it.

A request's head is limited in size and in time, its body in time, and who does not take what was sent to him is cut
off, so that nobody can fill the memory or hold connections for nothing; between requests a connection may be idle for
a while. Requests that are sent before the answer to the one before wait
their turn. When a connection is lost, every request on it learns that, also those before the last one: a client that
sends another request behind a watch would otherwise leave that watch running. The certificate that a client showed
goes with each of its requests.

It takes the place of uvicorn's own protocol, which does the same for twice the processor time.
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

#: Go's limit, and with it upstream's.
MAX_HEAD_BYTES: Final = 1024 * 1024
_HEAD_S: Final = 32.0
#: What a header takes up in memory besides its letters.
_HEADER_BYTES: Final = 32
#: A little longer than requests have to be answered, so that who dawdles hears why.
_BODY_S: Final = 65.0
#: How slowly a client may take what piles up here for it.
_LOOK_EVERY_S: Final = 30.0
_SLOWEST_BYTES: Final = 32 * 1024
#: Open files that the store and the process itself may need; connections beyond the rest are not taken in.
_RESERVED_FILES: Final = 128
#: So many requests a client may send ahead of their turn. Reading goes on while fewer wait: the end of the connection
#: is only noticed by who reads.
_MOST_AHEAD: Final = 8
_BAD: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 30\r\n"
    b"connection: close\r\n\r\nInvalid HTTP request received."
)
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class HeadTooLarge(Exception):
    """Stops the parser."""


class Connection(asyncio.Protocol):
    """Fills asyncio's protocol, the parser's callbacks, and what uvicorn's server asks of a protocol."""

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
        # without this, what follows a request that asks for the end of the connection is an error
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._transport: asyncio.Transport | None = None
        self._flow: FlowControl | None = None
        #: What all requests of the connection have in common.
        self._common: dict[str, Any] = {}
        #: When the connection is closed unless something happens; None while a request is answered and no other comes.
        self._due: float | None = None
        self._look: asyncio.TimerHandle | None = None
        self._in_body = False
        self._body_due: asyncio.TimerHandle | None = None
        self._drain_due: asyncio.TimerHandle | None = None
        #: Requests whose answers are not complete, the oldest first; only the first is being answered.
        self._under_way: Final[deque[Exchange]] = deque()
        #: The request that is coming in.
        self._incoming: Exchange | None = None
        self._head_bytes = 0
        #: What was read since the parser last got on with a request: it tells of a header only once it has all of it.
        self._held_bytes = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects_continue = False
        self._wants_upgrade = False
        #: The request that asked for another protocol: what comes behind it is not for the parser.
        self._handed_over: Exchange | None = None

    # What the transport tells

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # streams have no other
        """Begin to wait for a request."""
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
        """Tell everybody who still answers."""
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
        """Take in what the client sent."""
        assert self._transport is not None
        if self._transport.is_closing():
            return  # under TLS something may still come while the rest is sent
        if self._handed_over is not None:
            self._handed_over.feed(data)
            return
        self._held_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as behind:
            # Behind an offer of a protocol that we do not speak, requests go on.
            if self._handed_over is not None:
                self._handed_over.feed(data[behind.args[0] :])
        except httptools.HttpParserError:
            self._refuse(_TOO_LARGE if self._head_bytes > MAX_HEAD_BYTES else _BAD)
        else:
            if self._held_bytes > MAX_HEAD_BYTES:
                self._refuse(_TOO_LARGE)
        # a body that did not come at once has some time
        if self._in_body and self._body_due is None:
            self._body_due = self._loop.call_later(_BODY_S, self._transport.close)

    def eof_received(self) -> None:
        """A client that closes its side is gone."""

    def pause_writing(self) -> None:
        """More is waiting for the client than it should."""
        assert self._flow is not None
        self._flow.pause_writing()
        if self._drain_due is None:
            self._look_again()

    def resume_writing(self) -> None:
        """The client has caught up."""
        assert self._flow is not None
        self._is_drained()
        self._flow.resume_writing()

    # What the server tells

    def shutdown(self) -> None:
        """Close as soon as nothing is being answered."""
        assert self._transport is not None
        if self._under_way:
            for exchange in self._under_way:
                exchange.keep_alive = False
        else:
            self._transport.close()

    # What the parser finds

    def on_message_begin(self) -> None:
        """Begin a request's head."""
        self._url, self._headers, self._head_bytes, self._held_bytes = b"", [], 0, 0
        self._expects_continue = self._wants_upgrade = False
        self._incoming = None
        self._due = self._loop.time() + _HEAD_S

    def on_url(self, url: bytes) -> None:
        """Take in a part of the path."""
        self._grow(len(url))
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in a header; what comes behind a body in chunks is none, whatever it is called."""
        self._grow(len(name) + len(value) + _HEADER_BYTES)
        if self._in_body:
            return  # a trailer: the request is being answered, as whom its head said
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        elif name == b"upgrade":
            self._wants_upgrade = value.lower() == b"websocket"
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Begin to answer, or stand in line."""
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
        scope["headers"], self._headers = self._headers, []  # nothing that comes later changes what was asked
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
        """Hand on a part of the body."""
        self._held_bytes = 0
        if self._incoming is not None and not self._incoming.response_complete:
            self._incoming.feed(body)

    def on_message_complete(self) -> None:
        """The request is there."""
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
        # Somebody may hold a terminal for as long as he likes; no more than a buffer waits for him.
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
        """Close, and say why unless that would end up in the middle of another answer."""
        assert self._transport is not None
        if not (self._under_way and self._under_way[0].begun):
            self._transport.write(answer)
        self._transport.close()

    def _start(self, exchange: Exchange) -> None:
        task = self._loop.create_task(exchange.run(self._application, self._over))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    def _over(self, exchange: Exchange) -> None:
        """Go on with the next request."""
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
                self._due = now + _HEAD_S  # the rest of a head could not come
        if self._under_way:
            self._start(self._under_way[0])
        elif self._due is None:
            self._due = now + self._keep_alive_s

    def _see(self) -> None:
        """Close the connection if its time is over, and look again otherwise.

        One timer that is late to ask costs less than one that is set and unset with every request.
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
    """The path and query of an address in another form than clients of a server send it."""
    parsed = httptools.parse_url(url)
    return (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")
