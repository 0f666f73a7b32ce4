"""One client's connection: uvicorn's, with an end to what a client may do to it.

A request's head is limited in size and in time, so that nobody can fill the memory or hold connections for nothing.
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
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class HeadTooLarge(Exception):
    """Stops the parser."""


class Connection(HttpToolsProtocol):
    """Fills asyncio's protocol and the parser's callbacks."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._head_bytes = 0
        self._head_due: asyncio.TimerHandle | None = None
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
        self._grow(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer, or stand in line."""
        self._head_is_there()
        super().on_headers_complete()
        self._cycles = [cycle for cycle in self._cycles if not cycle.response_complete]
        if self.cycle is not None:
            self._cycles.append(self.cycle)

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

    def _head_is_there(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None
