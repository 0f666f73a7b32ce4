"""Failover between the servers of one cluster: calls go to one of them, and to the next when it does not answer.

A call that was never sent goes to the next server at once, whatever it is. After a broken connection the caller
decides, as with a single server (`retries` repeats reads), but later calls go to the next server. If a server is
unavailable (503), reads go to the next one at once. Readers resume their streams: all servers of a cluster have the
same revisions, so nothing is missed. A machine without power sends nothing, and its streams are silent; so the streams
of a server that does not answer are aborted.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from rota.client.transports.transport import Answer, Call, TimedOut, Transport, TransportError, Unreachable
from rota.kit import logs

log = logs.get(__name__)

_UNAVAILABLE: Final = 503


class FailoverTransport:
    """A `Transport` over others, each to one server."""

    def __init__(self, servers: Sequence[Transport], *, interrupt: Callable[[int], None] = lambda _: None) -> None:
        """`interrupt` aborts the streams of a server, by its index."""
        if not servers:
            raise ValueError("a cluster has at least one server")
        self._servers: Final = tuple(servers)
        self._interrupt: Final = interrupt
        self._current = 0

    @property
    def current(self) -> int:
        """The index of the server in use."""
        return self._current

    @contextlib.asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Answer]:
        """See `Transport.open`."""
        async with contextlib.AsyncExitStack() as exits:
            yield await self._begin(call, exits)

    async def close(self) -> None:
        """See `Transport.close`."""
        for server in self._servers:
            await server.close()

    async def _begin(self, call: Call, exits: contextlib.AsyncExitStack) -> Answer:
        left = len(self._servers)
        while True:
            left -= 1
            asked = self._current
            attempt = contextlib.AsyncExitStack()
            try:
                answer = await attempt.enter_async_context(self._servers[asked].open(call))
            except TransportError as error:
                self._leave(asked, error)
                # a streaming body may have been read in part already
                if not left or not isinstance(error, Unreachable) or not call.repeatable:
                    raise
                continue
            if answer.code == _UNAVAILABLE:
                self._leave(asked, None)
                if left and call.only_reads:
                    await attempt.aclose()
                    continue
            exits.push_async_exit(attempt.pop_all())
            return answer

    def _leave(self, server: int, error: TransportError | None) -> None:
        """Switch to the next server, once, though many calls may fail at the same time."""
        if self._current == server and len(self._servers) > 1:
            self._current = (server + 1) % len(self._servers)
            log.info("going on with the next server", number=self._current, error=error)
            if isinstance(error, TimedOut | Unreachable):
                self._interrupt(server)
