"""Listens at the addresses of services and passes connections on to their pods. TCP, in user space, on loopback only.

Each connection goes to one of the pods that are ready, in turn; one that does not answer is passed over for the next.
Several workers of a machine listen side by side (`SO_REUSEPORT`), and any of them may take a connection. Those that are
under way go on when endpoints change, and end with the worker.
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

#: Connections that are passed on at once; more are closed.
MOST: Final = 4096
_CONNECT_S: Final = 5.0
_PIECE: Final = 64 * 1024

#: Told a route that cannot be listened for, and why.
Complain: TypeAlias = Callable[[Route, str], None]


class _Listener(NamedTuple):
    server: asyncio.Server
    #: The route as it is now.
    routes: list[Route]


class Proxy:
    """Listeners for routes."""

    def __init__(self, complain: Complain) -> None:
        self._complain: Final = complain
        self._listeners: Final[dict[tuple[str, int], _Listener]] = {}
        self._connections: Final[set[asyncio.Task[None]]] = set()
        self._turns: Final = itertools.count()

    async def serve(self, routes: Iterable[Route]) -> bool:
        """Listen for these routes and no others; whether all of them are listened for.

        Connections for which there is no pod are refused: nothing listens then.
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
        """End all of it, with what is under way."""
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
                writer.transport.abort()  # the client is told at once, as by a port that nothing listens at
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
    """Copy until the end, and tell the other side that it was the end; what it still says may go on."""
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
