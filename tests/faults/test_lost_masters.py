"""One of several masters dies: clients continue with the next, and no acknowledged write or event is missing."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rota.api import errors
from rota.client import client_factory
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.client.wire import EventType
from rota.kit import system
from rota.testing.databases import FreshDatabase, fresh_database
from rota.testing.masters import Master

pytestmark = pytest.mark.slow

CLOCK = system.SystemClock()
MAPS = ("", "v1", "configmaps")
PATIENCE_S = 60.0
STORES = [
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("etcd", marks=pytest.mark.etcd),
]


@pytest.fixture(params=STORES)
def database(request: pytest.FixtureRequest) -> FreshDatabase:
    return fresh_database(request.param, request)


@contextlib.asynccontextmanager
async def client_of(*masters: Master) -> AsyncIterator[Client]:
    """A client with all addresses that uses the first."""
    first, *others = [master.endpoint() for master in masters]
    endpoint = replace(first, fallbacks=tuple(other.server for other in others))
    async with client_factory.to_server(endpoint, clock=CLOCK, rng=random.Random(3)) as client:
        yield client


class Writer:
    """Creates one object after the other and records which were acknowledged, and which may exist."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self.confirmed: list[str] = []
        self.uncertain: set[str] = set()

    async def run(self) -> None:
        number = 0
        while True:
            name = f"{self._name}-{number}"
            number += 1
            try:
                await self._client.create(MAPS, {"metadata": {"name": name, "namespace": "default"}})
            except (TransportError, errors.ServiceUnavailable, errors.Timeout):
                self.uncertain.add(name)
            else:
                self.confirmed.append(name)


class Follower:
    """Watches, and resumes a broken watch from the last revision; never lists again."""

    def __init__(self, client: Client, version: str) -> None:
        self._client = client
        self._version = version
        self.seen: list[tuple[str, int]] = []
        self.breaks = 0

    async def run(self) -> None:
        while True:
            try:
                async with self._client.watch(MAPS, namespace="default", resource_version=self._version) as events:
                    async for event in events:
                        metadata: dict[str, Any] = event.object["metadata"]
                        self._version = metadata["resourceVersion"]
                        if event.type is not EventType.BOOKMARK and metadata["name"].startswith("w"):
                            self.seen.append((metadata["name"], int(self._version)))
            except (TransportError, errors.ServiceUnavailable, errors.Timeout):
                self.breaks += 1
                await asyncio.sleep(0.05)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what happens in other processes has no event here
            await asyncio.sleep(0.02)


async def names(client: Client) -> set[str]:
    listed = await client.list(MAPS, namespace="default")
    # besides ours there is what controllers put into every namespace
    return {name for item in listed.items if (name := item["metadata"]["name"]).startswith("w")}


async def test_clients_go_on_with_the_next_master_and_watches_resume_without_a_gap(
    start: Callable[..., Master], database: FreshDatabase
) -> None:
    doomed = start(database.url, name="doomed")
    others = [start(database.url, name=name) for name in ("second", "third")]
    async with client_of(doomed, *others) as client, client_of(others[1]) as bystander:
        writers = [Writer(client, f"w{number}") for number in range(4)]
        version = (await client.list(MAPS, namespace="default")).resource_version
        follower = Follower(client, version)
        following = asyncio.create_task(follower.run())
        writing = [asyncio.create_task(one.run()) for one in writers]
        await until(lambda: all(len(one.confirmed) > 10 for one in writers))
        before = {one: len(one.confirmed) for one in writers}
        doomed.kill()
        await until(lambda: all(len(one.confirmed) > before[one] + 20 for one in writers))
        for task in writing:
            task.cancel()
        await asyncio.wait(writing)
        there = await names(bystander)
        await until(lambda: {name for name, _ in follower.seen} >= there)
        following.cancel()
        await asyncio.wait([following])
    assert follower.breaks
    confirmed = {name for one in writers for name in one.confirmed}
    possible = confirmed.union(*(one.uncertain for one in writers))
    assert confirmed <= there
    # one that is stopped in the middle of a write knows nothing of it
    assert len(there - possible) <= len(writers)
    revisions = [revision for _, revision in follower.seen]
    assert revisions == sorted(set(revisions)), "each change once, in order"
    assert {name for name, _ in follower.seen} >= there


async def test_a_master_that_comes_back_finds_everything(start: Callable[..., Master], tmp_path: Path) -> None:
    master = start(f"sqlite:///{tmp_path}/store.db")
    async with client_of(master) as client:
        writer = Writer(client, "w")
        writing = asyncio.create_task(writer.run())
        await until(lambda: len(writer.confirmed) > 30)
        master.kill()
        writing.cancel()
        await asyncio.wait([writing])
    master.start()
    async with client_of(master) as client:
        assert set(writer.confirmed) <= await names(client)
        await client.create(("", "v1", "secrets"), {"metadata": {"name": "s", "namespace": "default"}})
