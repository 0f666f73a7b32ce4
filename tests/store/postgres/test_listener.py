"""Notifications: of other processes' commits promptly, not of one's own, and one after a reconnection."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from rota.store.backends.postgres.engine import PostgresEngine
from rota.store.store_interface import Put, Transaction

pytestmark = pytest.mark.slow

Engines = Callable[..., Awaitable[PostgresEngine]]


async def write(engine: PostgresEngine, key: str) -> None:
    await engine.apply([Transaction((Put(key, b""),))])


async def listening(engine: PostgresEngine) -> asyncio.Event:
    """The event that foreign commits set, once the connection is established; that itself sets it."""
    woken = asyncio.Event()
    engine.on_foreign_commit(woken.set)
    async with asyncio.timeout(60):
        await woken.wait()
    woken.clear()
    return woken


async def test_a_foreign_commit_is_notified_at_once(engines: Engines) -> None:
    ours, theirs = await engines(), await engines()
    woken = await listening(ours)
    delays = []
    for number in range(20):
        await write(theirs, f"/a/{number}")
        start = time.perf_counter()
        async with asyncio.timeout(60):
            await woken.wait()
        woken.clear()
        delays.append(time.perf_counter() - start)
    assert sorted(delays)[len(delays) // 2] < 0.05


async def test_ones_own_commit_is_no_news(engines: Engines) -> None:
    ours, theirs = await engines(), await engines()
    hints: asyncio.Queue[None] = asyncio.Queue()
    ours.on_foreign_commit(lambda: hints.put_nowait(None))
    async with asyncio.timeout(60):
        await hints.get()
    for number in range(5):
        await write(ours, f"/a/{number}")
    # Notifications come in the order of commits: when theirs is here, ours have been.
    await write(theirs, "/a/z")
    async with asyncio.timeout(60):
        await hints.get()
    assert hints.empty()


async def test_a_line_that_broke_is_mended_and_what_was_missed_is_looked_for(
    engines: Engines, session: psycopg.AsyncConnection[tuple[Any, ...]]
) -> None:
    ours, theirs = await engines(), await engines()
    woken = await listening(ours)
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    await session.execute(f"{others} AND datname = current_database()")
    async with asyncio.timeout(60):
        await woken.wait()
    woken.clear()
    await write(theirs, "/a/x")
    async with asyncio.timeout(60):
        await woken.wait()
