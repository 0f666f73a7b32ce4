"""A way to a server that can be exchanged for another while it is used: when a client's certificate is renewed.

Connections are secured once, so what stands goes on with the old certificate until it is closed. Calls under way then
break off, and are resumed by those who made them, as after any other lost connection.
"""

import contextlib
from collections.abc import AsyncIterator

from rota.client.transports.transport import Answer, Call, Transport


class ReplaceableTransport:
    """A `Transport` that is another one, for the time being."""

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
        """Send everything from now on by this one, and close the one before."""
        former, self._current = self._current, transport
        await former.close()
