"""Interrupted restores."""

import asyncio
from collections.abc import Iterator

import pytest

from rota.store import errors
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd import methods
from rota.store.backends.etcd.connection import Connection
from rota.store.store_interface import Entry
from rota.testing.servers.etcd import EtcdServer
from rota.testing.store_contract import opened, revision_of

pytestmark = [pytest.mark.etcd, pytest.mark.slow]

ENTRIES = [Entry(f"/a/{number:04}", b"%d" % number, 5, 5) for number in range(1000)]


async def test_a_restore_of_more_than_one_transaction_is_whole(server: EtcdServer) -> None:
    big = [Entry(f"/big/{number}", bytes(300_000), 5, 5) for number in range(10)]
    async with opened(server.url) as store:
        revision_range = await store.load([*ENTRIES, *big], revision=77)
        page = await store.list("")
        assert await store.revision_range() == revision_range
    assert [(entry.key, entry.value) for entry in page.entries] == [(entry.key, entry.value) for entry in ENTRIES + big]


async def test_a_restore_that_fails_half_way_leaves_nothing(server: EtcdServer) -> None:
    def broken() -> Iterator[Entry]:
        yield from ENTRIES[:500]
        raise errors.Corrupt("the file is cut short")

    async with opened(server.url) as store:
        with pytest.raises(errors.Corrupt, match="cut short"):
            await store.load(broken(), revision=77)
        assert (await store.list("")).entries == []
        revision_of(await store.create("/a/x", b""))


async def test_after_an_interrupted_restore_only_another_one_is_possible(
    server: EtcdServer, neighbour: Connection
) -> None:
    # What a killed restore leaves behind: its meta key, and a part of the keys.
    await _interrupt(server, neighbour)
    async with opened(server.url) as store:
        for call in (
            store.get("/a/0001"),
            store.list(""),
            store.revision_range(),
            store.create("/a/x", b""),
            store.compact(5),
        ):
            with pytest.raises(errors.Corrupt, match="restore again"):
                await call
        with pytest.raises(errors.Corrupt, match="restore again"):
            async with store.watch("", after=0):
                pass
        revision_range = await store.load(ENTRIES[:300], revision=77)
        assert [entry.key for entry in (await store.list("")).entries] == [entry.key for entry in ENTRIES[:300]]
        assert await store.revision_range() == revision_range


async def test_a_store_that_is_open_notices_an_interrupted_restore_and_its_repetition(
    server: EtcdServer, neighbour: Connection
) -> None:
    async with opened(server.url) as store, opened(server.url) as other:
        await _interrupt(server, neighbour)
        with pytest.raises(errors.Corrupt):
            await other.revision_range()
        with pytest.raises(errors.Corrupt):
            await other.get("/a/0001")
        revision_range = await store.load(ENTRIES[:10], revision=77)
        assert await other.revision_range() == revision_range
        assert len((await other.list("")).entries) == 10


async def test_of_two_restores_at_once_one_wins_whole(server: EtcdServer) -> None:
    async with opened(server.url) as store, opened(server.url) as other:
        outcomes = await asyncio.gather(
            store.load(ENTRIES, revision=77),
            other.load([Entry("/b/x", b"", 5, 5)] * 1, revision=77),
            return_exceptions=True,
        )
        keys = {entry.key for entry in (await store.list("")).entries}
    assert keys in ({entry.key for entry in ENTRIES}, {"/b/x"})
    assert sum(isinstance(outcome, errors.StoreError) for outcome in outcomes) <= 1


async def _interrupt(server: EtcdServer, neighbour: Connection) -> None:
    async with opened(server.url):
        pass
    for key in (b"/rota/meta/restoring", b"/rota/data/a/0001", b"/rota/data/zzz"):
        await neighbour.call(methods.PUT, pb.PutRequest(key=key, value=b"token"))
