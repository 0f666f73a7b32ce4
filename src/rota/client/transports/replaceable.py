"""A transport that can be replaced while it is in use: when a client certificate is renewed.

TLS connections keep the old certificate until they are closed. Calls in progress then break off, and their callers
resume them, as after any lost connection.
"""

import contextlib
from collections.abc import AsyncIterator

from rota.client.transports.transport import Answer, Call, Transport


class ReplaceableTransport:
    """A `Transport` that delegates to the current one."""

    def __init__(self, first: Transport) -> None:
        self._current = first

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Answer]:
        """See `Transport.open`."""
        async with self._current.open(call) as answer:
            yield answer

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._current.close()

    async def replace(self, transport: Transport) -> None:
        """Use another transport from now on, and close the previous one."""
        former, self._current = self._current, transport
        await former.close()
