"""Connections for `http`: none is left open because whoever wanted it has gone.

A connection that is cancelled between its socket and the first step of its TLS handshake stays open with nobody to
close it: event loops do not undo that step. So a caller that leaves does not cancel its connection, which is dropped as
soon as it is there. And a connection that is not to be used again is cut at once: nobody waits for TLS to say goodbye.
"""

import asyncio
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

#: How long connections may take that are being made when all is to be closed; then they are cancelled after all.
_LATE_S: Final = 1.0


class Connector(aiohttp.TCPConnector):
    """aiohttp's connector, whose callers may leave at any moment."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._making: Final[set[asyncio.Task[ResponseHandler]]] = set()
        self._abandoned: Final[set[asyncio.Task[ResponseHandler]]] = set()

    async def settle(self) -> None:
        """Wait until nothing is left of connections that were being made, but not for long."""
        if self._making:
            await asyncio.wait(tuple(self._making), timeout=_LATE_S)
        for making in tuple(self._making):
            making.cancel()
        # What was cut is let go of in the next round of the event loop.
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
