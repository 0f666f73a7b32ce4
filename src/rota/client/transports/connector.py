"""aiohttp's connector with fixes: no connection is left open after its caller was cancelled.

A connection that is cancelled between its socket and the first step of its TLS handshake stays open: event loops do not
undo that step. So a cancelled caller does not cancel its connection, which is dropped as soon as it is established. And
a connection that will not be reused is aborted, without waiting for the TLS shutdown.
"""

import asyncio
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

#: Timeout of connections that are being established at close; then they are cancelled.
_LATE_S: Final = 1.0


class Connector(aiohttp.TCPConnector):
    """aiohttp's connector, whose callers may be cancelled at any moment."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._making: Final[set[asyncio.Task[ResponseHandler]]] = set()
        self._abandoned: Final[set[asyncio.Task[ResponseHandler]]] = set()

    async def settle(self) -> None:
        """Wait, for a limited time, until no connection is being established."""
        if self._making:
            await asyncio.wait(tuple(self._making), timeout=_LATE_S)
        for making in tuple(self._making):
            making.cancel()
        # An aborted connection is released in the next iteration of the event loop.
        await asyncio.sleep(0)

    async def _create_connection(self, *args: Any, **options: Any) -> ResponseHandler:
        making = asyncio.ensure_future(super()._create_connection(*args, **options))
        self._making.add(making)
        making.add_done_callback(self._made)
        try:
            made = await asyncio.shield(making)
        except asyncio.CancelledError:
            if making.done():
                _drop(making)
            else:
                self._abandoned.add(making)
            raise
        if self.closed:
            made.abort()
        return made

    def _made(self, making: "asyncio.Task[ResponseHandler]") -> None:
        self._making.discard(making)
        if making in self._abandoned:
            self._abandoned.discard(making)
            _drop(making)

    def _release(self, key: Any, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        if should_close or protocol.should_close:
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)


def _drop(making: "asyncio.Task[ResponseHandler]") -> None:
    if not making.cancelled() and making.exception() is None:
        making.result().abort()
