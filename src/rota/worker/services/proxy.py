"""A TCP proxy in user space: listens at the addresses of services and forwards connections to their pods. On loopback
only.

Connections go to the ready pods in turn; a pod that does not answer is skipped for the next. Several workers of a
machine listen side by side (`SO_REUSEPORT`), and any of them may accept a connection. Open connections go on when
endpoints change, and end with the worker.
"""

import asyncio
import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

from rota.kit import logs
from rota.worker.services.catalog import Backend, Route

log = logs.get(__name__)

#: Limit of concurrent connections; more are closed.
MOST: Final = 4096
_CONNECT_S: Final = 5.0
_PIECE: Final = 64 * 1024

#: Called with a route that cannot be listened on, and the reason.
Complain: TypeAlias = Callable[[Route, str], None]


class _Listener(NamedTuple):
    server: asyncio.Server
    #: The current route.
    routes: list[Route]


class Proxy:
    """Listeners of routes."""

    def __init__(self, complain: Complain) -> None:
        self._complain: Final = complain
        self._listeners: Final[dict[tuple[str, int], _Listener]] = {}
        self._connections: Final[set[asyncio.Task[None]]] = set()
        self._turns: Final = itertools.count()

    async def serve(self, routes: Iterable[Route]) -> bool:
        """Listen for exactly these routes; returns whether all listeners are open.

        A service without a pod has no listener, so connections are refused.
        """
        wanted = {(one.address, one.port): one for one in routes if one.backends}
        for place in [one for one in self._listeners if one not in wanted]:
            self._listeners.pop(place).server.close()
        complete = True
        for place, route in wanted.items():
            known = self._listeners.get(place)
            if known is not None:
                known.routes[0] = route
            else:
                complete = await self._listen(route) and complete
        return complete

    async def close(self) -> None:
        """Close everything, open connections included."""
        for one in self._listeners.values():
            one.server.close()
        self._listeners.clear()
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _listen(self, route: Route) -> bool:
        current = [route]
        try:
            server = await asyncio.start_server(
                functools.partial(self._accepted, current), route.address, route.port, reuse_port=True, limit=_PIECE
            )
        except OSError as problem:
            self._complain(route, problem.strerror or str(problem))
            return False
        self._listeners[route.address, route.port] = _Listener(server, current)
        return True

    def _accepted(self, current: list[Route], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MOST:
            writer.close()
            return
        task = asyncio.create_task(self._pass_on(current[0], reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _pass_on(self, route: Route, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            found = await self._connected(route)
            if found is None:
                writer.transport.abort()  # the client gets a reset at once, as from a closed port
                return
            behind, onwards = found
            with contextlib.closing(onwards):
                copies = [asyncio.create_task(_copy(*one)) for one in ((reader, onwards), (behind, writer))]
                try:
                    await asyncio.wait(copies, return_when=asyncio.FIRST_EXCEPTION)
                finally:
                    for one in copies:
                        one.cancel()
                    await asyncio.gather(*copies, return_exceptions=True)

    async def _connected(self, route: Route) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for backend in self._in_turn(route.backends):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_S):
                    return await asyncio.open_connection(backend.address, backend.port, limit=_PIECE)
        log.info("no pod of a service answers", service=f"{route.namespace}/{route.name}", port=route.port)
        return None

    def _in_turn(self, backends: tuple[Backend, ...]) -> tuple[Backend, ...]:
        if not backends:
            return ()
        first = next(self._turns) % len(backends)
        return backends[first:] + backends[:first]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the end, then half-close the other side; the opposite direction may go on."""
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
