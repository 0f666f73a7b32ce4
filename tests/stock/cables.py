"""A cable between a client and a server that a test can cut: nothing goes through, and nobody is told.

async with Cable(port).plugged_in() as cable:
    ...                 # clients use cable.port
    cable.cut()         # as a firewall that drops: connections stay, bytes do not come
    cable.mend()        # what was held back is delivered
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

_CHUNK: Final = 64 * 1024


class Cable:
    """Carries connections to a port of this machine."""

    def __init__(self, to_port: int) -> None:
        self._to_port: Final = to_port
        self._whole: Final = asyncio.Event()
        self._whole.set()
        self._writers: Final[set[asyncio.StreamWriter]] = set()
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self.port = 0

    @contextlib.asynccontextmanager
    async def plugged_in(self) -> AsyncIterator["Cable"]:
        """While connections are carried."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Let nothing through, in either direction."""
        self._whole.clear()

    def mend(self) -> None:
        """Let everything through again."""
        self._whole.set()

    def tear(self) -> None:
        """Break every connection that there is."""
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            await self._whole.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
            ends.append(far_writer)
            self._writers.update(ends)
            await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))
        except OSError:
            pass  # the server is away, or one of the two has hung up
        finally:
            self._writers.difference_update(ends)
            for end in ends:
                end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            await self._whole.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # one end is enough: the other hears of it, too
