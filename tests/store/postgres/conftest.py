"""A connection to the server that breaks on command, and engines without a store."""

import asyncio
import contextlib
import random
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest

from rota.kit import system
from rota.store.backends.postgres.engine import PostgresEngine
from rota.store.logstore import Settings


class BreakingLine:
    """A proxy that drops some messages of clients, or the responses, or delays them until the client has given up."""

    HARMS = ("request lost", "answer lost", "request late")

    def __init__(self, url: str, seed: int) -> None:
        self._server = urllib.parse.urlsplit(url)
        self._rng = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Server | None = None
        #: How often each fault happened.
        self.harmed = dict.fromkeys(self.HARMS, 0)
        #: One of so many messages is affected; 0 for none.
        self.one_in = 0

    async def open(self) -> str:
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._listening.sockets[0].getsockname()[1]
        credentials = self._server.netloc.rpartition("@")[0]
        return self._server._replace(netloc=f"{credentials}@127.0.0.1:{port}").geturl()

    async def close(self) -> None:
        assert self._listening
        self._listening.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listening.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._connect(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection(self._server.hostname, self._server.port)
        back = asyncio.ensure_future(_pump(server, to_client))
        try:
            while data := await client.read(65536):
                harm = self._harm()
                if harm:
                    back.cancel()
                    to_client.transport.abort()
                if harm == "request late":
                    await asyncio.sleep(self._rng.random() / 5)
                if harm != "request lost":
                    to_server.write(data)
                    await to_server.drain()
                if harm:
                    await asyncio.sleep(0.05)
                    return
        except ConnectionError:
            return
        finally:
            back.cancel()
            to_server.transport.abort()
            to_client.transport.abort()
            await asyncio.gather(back, return_exceptions=True)

    def _harm(self) -> str:
        if not self.one_in or self._rng.randrange(self.one_in):
            return ""
        harm = self._rng.choice(self.HARMS)
        self.harmed[harm] += 1
        return harm


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.transport.abort()


@pytest.fixture
async def breaking_line(postgres_url: str) -> AsyncIterator[Callable[[int], Awaitable[tuple[BreakingLine, str]]]]:
    """Makes breaking connections, by seed, to the test's database; each with the URL that goes through it."""
    async with contextlib.AsyncExitStack() as lines:

        async def make(seed: int) -> tuple[BreakingLine, str]:
            line = BreakingLine(postgres_url, seed)
            url = await line.open()
            lines.push_async_callback(line.close)
            return line, url

        yield make


@pytest.fixture
async def engines(postgres_url: str) -> AsyncIterator[Callable[..., Awaitable[PostgresEngine]]]:
    """Opens engines on the test's database, or on another, as several processes would."""
    async with contextlib.AsyncExitStack() as opened:

        async def open_engine(url: str = postgres_url, settings: Settings | None = None) -> PostgresEngine:
            engine = await PostgresEngine.open(
                url, time=system.SystemClock(), rng=system.rng(), settings=settings or Settings(), create=True
            )
            opened.push_async_callback(engine.close)
            return engine

        yield open_engine


@pytest.fixture
async def session(postgres_url: str) -> AsyncIterator[psycopg.AsyncConnection[tuple[Any, ...]]]:
    """A session with the test's database that is independent of the store."""
    async with await psycopg.AsyncConnection.connect(postgres_url, autocommit=True) as session:
        yield session
