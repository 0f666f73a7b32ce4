"""Revisions, when other clients change etcd too."""

import asyncio
import secrets
from collections.abc import Callable

import pytest

from rota.store import broadcaster, errors
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd import methods
from rota.store.backends.etcd.connection import Connection
from rota.store.logstore import Settings
from rota.store.store_interface import Delete, Entry, Event, Precondition, Put, Refused, Store, Transaction
from rota.testing.servers.etcd import EtcdServer
from rota.testing.store_contract import gather_events, gather_to, opened, replay, revision_of

pytestmark = [pytest.mark.etcd, pytest.mark.slow]


async def write_elsewhere(etcd: Connection) -> None:
    await etcd.call(methods.PUT, pb.PutRequest(key=b"/elsewhere"))


async def test_others_move_the_revision_and_nothing_is_missed(server: EtcdServer, neighbour: Connection) -> None:
    async with opened(server.url) as store:
        start = (await store.list("")).revision
        async with store.watch("", after=start) as watch:
            seen: list[Event] = []
            for number in range(20):
                await write_elsewhere(neighbour)
                page = await store.list("")
                revision = revision_of(await store.create(f"/a/{number}", b""))
                assert revision > page.revision
                async with store.watch("", after=page.revision) as young:
                    assert [event.revision for event in await gather_to(young, revision)] == [revision]
                seen += await gather_to(watch, revision)
        assert [event.key for event in seen] == [f"/a/{number}" for number in range(20)]


async def test_own_changes_reach_watches_without_etcds_watch_and_never_past_others(server: EtcdServer) -> None:
    """A gap in etcd's count is another client's change: what follows waits for it."""
    async with opened(server.url) as store, opened(server.url) as other:
        start = (await store.revision_range()).revision
        await store._supervisor.stop("feed")  # type: ignore[attr-defined]
        async with store.watch("/a/", after=start) as watch:
            created = revision_of(await store.create("/a/x", b"1", lease=await store.grant(60)))
            updated = revision_of(await store.update("/a/x", b"2", expected=created))
            gone = revision_of(await store.commit(Transaction((Delete("/a/none"), Delete("/a/x"), Put("/b/y", b"")))))
            own = await gather_to(watch, gone)
            between = revision_of(await other.create("/a/theirs", b""))
            last = revision_of(await store.create("/a/z", b""))
            waiting = asyncio.create_task(gather_to(watch, last))
            await asyncio.sleep(0.1)
            assert watch.revision == gone
            store._supervisor.start("feed", store._feed.follow)  # type: ignore[attr-defined]
            behind = await waiting
        async with other.watch("/a/", after=start) as watch:
            assert await gather_to(watch, last) == own + behind
        assert [event.revision for event in own + behind] == [created, updated, gone, between, last]


async def test_two_busy_processes_see_each_others_changes_in_one_order(server: EtcdServer) -> None:
    """So many that etcd's watches fall behind and are restarted."""
    async with opened(server.url) as store, opened(server.url) as other:
        start = (await store.revision_range()).revision

        async def write(through: Store, name: int) -> None:
            for number in range(100):
                await through.create(f"/a/{name}/{number}", b"")

        async def follow(through: Store) -> list[Event]:
            async with through.watch("/a/", after=start) as watch:
                return await gather_events(watch, lambda events: len(events) >= 2100)

        following = [asyncio.create_task(follow(through)) for through in (store, other)]
        await asyncio.gather(*(write(store, name) for name in range(20)), write(other, 99))
        first, second = await asyncio.gather(*following)
    assert first == second
    assert [event.revision for event in first] == sorted({event.revision for event in first})


async def test_bookmarks_follow_changes_outside_the_prefix(server: EtcdServer, neighbour: Connection) -> None:
    async with (
        opened(server.url, Settings(look_every_s=0.05)) as store,
        store.watch("/a/", after=(await store.revision_range()).revision) as watch,
    ):
        reading = asyncio.create_task(anext(watch))
        await write_elsewhere(neighbour)
        newest = (await store.revision_range()).revision
        for _ in range(1000):
            if watch.revision >= newest:
                break
            await asyncio.sleep(0.01)
        assert watch.revision >= newest
        # Once caught up there is nothing to write.
        settled = (await store.revision_range()).revision
        await asyncio.sleep(0.3)
        assert (await store.revision_range()).revision == settled
        reading.cancel()
        await asyncio.wait([reading])


async def test_a_compaction_by_others_moves_the_floor(server: EtcdServer, neighbour: Connection) -> None:
    async with opened(server.url) as store:
        first = revision_of(await store.create("/a/x", b"1"))
        second = revision_of(await store.update("/a/x", b"2", expected=first))
        await store.create("/a/y", b"")
        async with opened(server.url) as other:
            await neighbour.call(methods.COMPACT, pb.CompactionRequest(revision=second))
            for each in (store, other):
                assert (await each.revision_range()).floor == second
                with pytest.raises(errors.Expired):
                    await each.list("/a/", revision=first)
                with pytest.raises(errors.Expired):
                    async with each.watch("/a/", after=first):
                        pass
                async with each.watch("/a/", after=second) as watch:
                    assert [event.key for event in (await anext(watch)).events] == ["/a/y"]
        async with opened(server.url) as late:
            assert (await late.revision_range()).floor == second


async def test_a_store_opened_later_reads_the_history_before(server: EtcdServer, neighbour: Connection) -> None:
    """Also where nothing of ours ever happens again, and where the last thing was a deletion."""
    async with opened(server.url) as store:
        start = (await store.revision_range()).revision
        created = revision_of(await store.create("/a/x", b"1"))
        await store.create("/a/y", b"1")
        await store.delete("/a/x", expected=created)
    await write_elsewhere(neighbour)
    async with opened(server.url) as store, store.watch("/a/", after=start) as watch:
        events = await gather_events(watch, lambda events: len(events) >= 3)
        assert replay([], events) == {"/a/y": b"1"}
        last = revision_of(await store.create("/a/z", b""))
        assert [event.key for event in await gather_to(watch, last)] == ["/a/z"]


async def test_five_hundred_watches_are_a_few_for_etcd(server: EtcdServer, watches: Callable[[], int]) -> None:
    async with opened(server.url) as store:
        start = (await store.revision_range()).revision
        for number in range(50):
            await store.create(f"/a/{number}", b"")
    async with opened(server.url, Settings(limits=broadcaster.Limits(events=10))) as store:

        async def follow(number: int) -> int:
            async with store.watch("/a/", after=start + number % 5) as watch:
                events = await gather_events(watch, lambda events: bool(events) and events[-1].key == "/a/last")
                return len(events)

        following = [asyncio.create_task(follow(number)) for number in range(500)]
        counts = [await asyncio.to_thread(watches) for _ in range(30)]
        await store.create("/a/last", b"")
        assert await asyncio.gather(*following) == [51 - number % 5 for number in range(500)]
    # The feed, the one that reads history for all, and the one before it, which etcd may not have forgotten yet.
    assert max(counts) <= 3


async def test_the_base_of_a_restore_holds_for_everything_afterwards(server: EtcdServer) -> None:
    async with opened(server.url) as store, opened(server.url) as other:
        before = await other.revision_range()
        async with other.watch("", after=before.revision) as watch:
            revision_range = await store.load([Entry("/a/x", b"1", 5, 3)], revision=41_000)
            with pytest.raises(errors.Expired):
                await gather_events(watch, lambda _: False)
        entry = await other.get("/a/x")
        assert entry is not None
        assert entry.revision > 41_000
        # A revision from before the restore belongs to no key, least of all to a missing one.
        for old in (before.revision, revision_range.revision - 10**9):
            assert isinstance(await other.update("/a/none", b"", expected=old), Refused)
            assert isinstance(await other.update("/a/x", b"", expected=old), Refused)
        updated = revision_of(await other.update("/a/x", b"2", expected=entry.revision))
        assert updated > revision_range.revision
        assert await store.get("/a/x") == Entry("/a/x", b"2", updated, entry.created)
        await store.compact(updated)
        assert (await other.revision_range()).floor == updated
        with pytest.raises(errors.Expired):
            await other.list("", revision=revision_range.revision)
        # Emptied and restored once more, the order goes on.
        await store.delete("/a/x", expected=updated)
        again = await store.load([Entry("/a/x", b"3", 5, 3)], revision=7)
        assert again.revision > updated


async def test_transactions_of_128_keys_commit_and_conflict_whole(etcd_url: str) -> None:
    keys = [f"/a/{number:03}" for number in range(128)]
    async with opened(etcd_url) as store:
        revision = revision_of(
            await store.commit(
                Transaction(tuple(Put(key, b"1") for key in keys), tuple(Precondition(key, revision=0) for key in keys))
            )
        )
        refused = await store.commit(
            Transaction(
                tuple(Delete(key) for key in keys), tuple(Precondition(key, revision=revision - 1) for key in keys)
            )
        )
        assert isinstance(refused, Refused)
        assert [conflict.guard.key for conflict in refused.conflicts] == keys
        assert all(conflict.actual and conflict.actual.revision == revision for conflict in refused.conflicts)
        async with store.watch("", after=revision) as watch:
            gone = revision_of(
                await store.commit(
                    Transaction(
                        tuple(Delete(key) for key in keys), tuple(Precondition(key, created=revision) for key in keys)
                    )
                )
            )
            batch = await anext(watch)
        assert {event.key for event in batch.events} == set(keys)
        assert {(event.revision, event.created) for event in batch.events} == {(gone, revision)}
        both = tuple(Precondition(key, revision=1, created=1) for key in keys)
        with pytest.raises(ValueError, match="at most 128 comparisons"):
            await store.commit(Transaction((), both))


async def test_a_long_list_comes_in_several_answers_of_one_revision(etcd_url: str) -> None:
    """20 MB and more: beyond gRPC's default limit, while it is written to."""
    value = secrets.token_bytes(2048)
    async with opened(etcd_url) as store:
        for start in range(0, 10_000, 125):
            keys = [f"/a/{number:05}" for number in range(start, start + 125)]
            await store.commit(Transaction(tuple(Put(key, value) for key in keys)))

        async def write() -> None:
            for number in range(100):
                await store.create(f"/a/{number * 90:05}+", b"")

        writing = asyncio.create_task(write())
        page = await store.list("/a/")
        await writing
        again = await store.list("/a/", revision=page.revision)
        part = await store.list("/a/", revision=page.revision, limit=5000, after=page.entries[2000].key)
    assert sum(entry.value == value for entry in page.entries) == 10_000
    assert all(entry.revision <= page.revision for entry in page.entries)
    assert again == page
    assert part.entries == page.entries[2001:7001]
    assert part.remaining == len(page.entries) - 7001


async def test_an_entry_with_a_lease_says_so_and_a_lost_one_is_named(etcd_url: str) -> None:
    async with opened(etcd_url) as store:
        lease, other = await store.grant(30), await store.grant(0.1)
        await store.create("/a/x", b"", lease=lease)
        entry = await store.get("/a/x")
        assert entry is not None
        assert entry.lease == lease
        assert await store.revoke(other)
        for writes in [
            (Put("/a/y", b"", lease), Put("/a/z", b"", other)),
            (Put("/a/z", b"", other), Put("/a/y", b"", lease)),
        ]:
            with pytest.raises(errors.LeaseNotFound) as caught:
                await store.commit(Transaction(writes))
            assert caught.value.lease == other
        assert [entry.key for entry in (await store.list("")).entries] == ["/a/x"]
        assert await store.revoke(lease)
        with pytest.raises(ValueError, match="TTL above 0"):
            await store.grant(0)
