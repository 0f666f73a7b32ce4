"""One client's connection: uvicorn's, with an end to what a client may do to it.

A request's head is limited in size and in time, its body in time, and who does not take what was sent to him is cut
off, so that nobody can fill the memory or hold connections for nothing.
When a connection is lost, every request on it learns that, also those before the last one: a client that sends another
request behind a watch would otherwise leave that watch running. The certificate that a client showed goes with each of
its requests.
"""

import asyncio
import ssl
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from rota.api import scopes

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
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class HeadTooLarge(Exception):
    """Stops the parser."""


class Connection(HttpToolsProtocol):
    """Fills asyncio's protocol and the parser's callbacks."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._head_bytes = 0
        self._head_due: asyncio.TimerHandle | None = None
        self._in_body = False
        self._body_due: asyncio.TimerHandle | None = None
        self._drain_due: asyncio.TimerHandle | None = None
        self._cycles: list[RequestResponseCycle] = []
        self._certificate: bytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Begin to wait for a request."""
        super().connection_made(transport)
        secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        if secured is not None:
            self._certificate = secured.getpeercert(binary_form=True)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who still answers."""
        self._head_is_there()
        self._body_is_there()
        self._is_drained()
        self.pipeline.clear()
        for cycle in self._cycles:
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        self._cycles.clear()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Begin a request's head."""
        super().on_message_begin()
        if self._certificate is not None:
            self.scope[scopes.PEER_CERTIFICATE] = self._certificate  # type: ignore[typeddict-unknown-key]  # not ASGI's
        self._head_bytes = 0
        self._await_head()

    def on_url(self, url: bytes) -> None:
        """Take in a part of the path."""
        self._grow(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take in a header."""
        self._grow(len(name) + len(value) + _HEADER_BYTES)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer, or stand in line."""
        self._head_is_there()
        self._in_body = True
        super().on_headers_complete()
        self._cycles = [cycle for cycle in self._cycles if not cycle.response_complete]
        if self.cycle is not None:
            self._cycles.append(self.cycle)

    def on_message_complete(self) -> None:
        """End a request's body, if it had one."""
        self._body_is_there()
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Take in what has come; a body that did not come at once has some time."""
        super().data_received(data)
        if self._in_body and self._body_due is None:
            self._body_due = self.loop.call_later(_BODY_S, self.transport.close)

    def pause_writing(self) -> None:
        """More is waiting for the client than it should."""
        super().pause_writing()
        if self._drain_due is None:
            self._look_again()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._is_drained()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or too much of one."""
        if self._head_bytes <= MAX_HEAD_BYTES:
            super().send_400_response(msg)
            return
        self.transport.write(_TOO_LARGE)
        self.transport.close()

    def _grow(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise HeadTooLarge

    def _await_head(self) -> None:
        if self._head_due is None:
            self._head_due = self.loop.call_later(_HEAD_S, self.transport.close)

    def _body_is_there(self) -> None:
        self._in_body = False
        if self._body_due is not None:
            self._body_due.cancel()
            self._body_due = None

    def _look_again(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._drain_due = self.loop.call_later(_LOOK_EVERY_S, self._judge_pace, waiting)

    def _judge_pace(self, before: int) -> None:
        if self.transport.get_write_buffer_size() > before - _SLOWEST_BYTES:
            self.transport.abort()
        else:
            self._look_again()

    def _is_drained(self) -> None:
        if self._drain_due is not None:
            self._drain_due.cancel()
            self._drain_due = None

    def _head_is_there(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None
