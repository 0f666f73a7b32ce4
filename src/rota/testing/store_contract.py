"""The contract of every store, as tests.

A backend's test module subclasses `StoreContract` (or parametrises the `database` fixture) and passes unchanged.
The fixture gives a `Database`: a fresh, empty one, on which any number of stores can be opened; two stores on one
database stand for two processes.
"""

# ruff: noqa: D102 - the test's name is its sentence
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

import pytest

from rota.kit import system
from rota.kit.metrics import Metrics
from rota.store import broadcaster, errors, store_factory, store_watch
from rota.store.logstore import Settings
from rota.store.metrics import StoreMetrics
from rota.store.store_interface import (
    RESTORE_GAP,
    Committed,
    Delete,
    Entry,
    Event,
    Outcome,
    Precondition,
    Put,
    Refused,
    Store,
    Transaction,
    Watch,
)

#: The timeout of every wait.
PATIENCE_S = 60.0


class Database(Protocol):
    """A fresh database for one test."""

    @property
    def url(self) -> str:
        """Where stores are opened."""
        ...

    @property
    def merges_heartbeats(self) -> bool:
        """Whether history keeps only the latest of successive heartbeats."""
        ...


async def _open(url: str, settings: Settings | None = None) -> Store:
    return await store_factory.open_store(url, time=system.SystemClock(), rng=system.rng(), settings=settings)


@contextlib.asynccontextmanager
async def opened(url: str, settings: Settings | None = None) -> AsyncIterator[Store]:
    """A store, closed at the end."""
    store = await _open(url, settings)
    try:
        yield store
    finally:
        await store.close()


def revision_of(outcome: Outcome) -> int:
    """The revision of a write that must have succeeded."""
    assert isinstance(outcome, Committed), outcome
    return outcome.revision


async def gather_events(watch: Watch, until: Callable[[Sequence[Event]], bool]) -> list[Event]:
    """Events of a watch, up to the first moment at which `until` is content with them."""
    events: list[Event] = []
    async with asyncio.timeout(PATIENCE_S):
        while not until(events):
            events += (await anext(watch)).events
    return events


async def gather_to(watch: Watch, revision: int) -> list[Event]:
    """Events of a watch up to one with this revision."""
    return await gather_events(watch, lambda events: bool(events) and events[-1].revision >= revision)


def replay(entries: Sequence[Entry], events: Sequence[Event]) -> dict[str, bytes]:
    """What stands after `events` happened to what a list returned."""
    state = {entry.key: entry.value for entry in entries}
    for event in events:
        if event.value is None:
            del state[event.key]
        else:
            state[event.key] = event.value
    return state


class StoreContract:
    """The promises; one test each, named after it."""

    # Single keys

    async def test_a_key_reads_back_as_it_was_written(self, store: Store) -> None:
        value = bytes(range(256)) * 40
        revision = revision_of(await store.create("/a/x", value))
        assert await store.get("/a/x") == Entry("/a/x", value, revision, revision)
        assert await store.get("/a/y") is None

    async def test_a_store_measures_its_commits_and_knows_its_size(self, database: Database) -> None:
        metrics = Metrics("store")
        async with opened(database.url, Settings(metrics=StoreMetrics(metrics))) as store:
            await store.create("/a/1", b"x" * 100)
            await store.create("/a/2", b"y")
            assert await store.size_bytes() >= 101
        assert metrics.value("commit_duration_seconds_count") == 2
        assert metrics.value("commit_batch_size_sum") == 2

    async def test_several_keys_read_back_in_the_order_in_which_they_were_asked_for(self, store: Store) -> None:
        keys = [f"/a/{number:03}" for number in range(300)]
        await asyncio.gather(*(store.create(key, key.encode()) for key in keys[::2]))
        found = await store.get_many([*reversed(keys), "/a/000", "/none"])
        values = [entry and entry.value for entry in found]
        expected = [key.encode() if number % 2 == 0 else None for number, key in enumerate(keys)]
        assert values == [*reversed(expected), b"/a/000", None]
        assert await store.get_many([]) == []

    async def test_an_update_keeps_the_creating_revision_and_moves_the_other(self, store: Store) -> None:
        created = revision_of(await store.create("/a/x", b"1"))
        updated = revision_of(await store.update("/a/x", b"2", expected=created))
        assert updated > created
        assert await store.get("/a/x") == Entry("/a/x", b"2", updated, created)

    async def test_a_deleted_key_is_gone_and_made_again_is_new(self, store: Store) -> None:
        first = revision_of(await store.create("/a/x", b"1"))
        revision_of(await store.delete("/a/x", expected=first))
        assert await store.get("/a/x") is None
        second = revision_of(await store.create("/a/x", b"2"))
        assert await store.get("/a/x") == Entry("/a/x", b"2", second, second)

    async def test_creating_an_existing_key_is_refused_and_shows_it(self, store: Store) -> None:
        revision = revision_of(await store.create("/a/x", b"1"))
        outcome = await store.create("/a/x", b"2")
        assert isinstance(outcome, Refused)
        assert outcome.conflicts[0].actual == Entry("/a/x", b"1", revision, revision)
        assert (await store.revision_range()).revision == revision

    async def test_a_stale_update_or_delete_is_refused_and_changes_nothing(self, store: Store) -> None:
        old = revision_of(await store.create("/a/x", b"1"))
        new = revision_of(await store.update("/a/x", b"2", expected=old))
        assert isinstance(await store.update("/a/x", b"3", expected=old), Refused)
        assert isinstance(await store.delete("/a/x", expected=old), Refused)
        assert isinstance(await store.update("/a/none", b"3", expected=old), Refused)
        assert await store.get("/a/x") == Entry("/a/x", b"2", new, old)

    async def test_compare_and_swap_never_loses_an_update(self, store: Store, second: Store) -> None:
        await store.create("/a/count", b"0")

        async def increment(through: Store, times: int) -> None:
            for _ in range(times):
                while True:
                    entry = await through.get("/a/count")
                    assert entry is not None
                    value = b"%d" % (int(entry.value) + 1)
                    if isinstance(await through.update("/a/count", value, expected=entry.revision), Committed):
                        break

        await asyncio.gather(*(increment(through, 5) for through in (store, second) for _ in range(5)))
        entry = await store.get("/a/count")
        assert entry is not None
        assert entry.value == b"50"

    # Transactions

    async def test_a_transaction_has_one_revision_and_happens_whole(self, store: Store) -> None:
        before = revision_of(await store.create("/a/old", b"1"))
        writes = (Put("/a/x", b"x"), Put("/b/y", b"y"), Delete("/a/old"))
        revision = revision_of(await store.commit(Transaction(writes, (Precondition("/a/old", revision=before),))))
        entries = (await store.list("")).entries
        assert [(entry.key, entry.revision) for entry in entries] == [("/a/x", revision), ("/b/y", revision)]
        async with store.watch("", after=before) as watch:
            batch = await anext(watch)
        assert {event.key for event in batch.events} == {"/a/x", "/b/y", "/a/old"}
        assert {event.revision for event in batch.events} == {revision}

    async def test_a_transaction_with_one_failing_guard_does_nothing(self, store: Store) -> None:
        first = revision_of(await store.create("/a/x", b"1"))
        outcome = await store.commit(
            Transaction(
                (Put("/a/x", b"2"), Put("/a/y", b"2"), Delete("/a/z")),
                (
                    Precondition("/a/x", revision=first),
                    Precondition("/a/y", revision=7),
                    Precondition("/a/w", revision=0),
                ),
            )
        )
        assert isinstance(outcome, Refused)
        assert [conflict.guard.key for conflict in outcome.conflicts] == ["/a/y"]
        assert (await store.revision_range()).revision == first
        assert [entry.value for entry in (await store.list("")).entries] == [b"1"]

    async def test_a_guard_on_the_incarnation_outlives_updates_but_not_a_new_incarnation(self, store: Store) -> None:
        created = revision_of(await store.create("/a/leader", b"me"))
        renewed = revision_of(await store.update("/a/leader", b"me again", expected=created))
        mine = Transaction((Put("/a/x", b"1"),), (Precondition("/a/leader", created=created),))
        assert isinstance(await store.commit(mine), Committed)
        await store.delete("/a/leader", expected=renewed)
        assert isinstance(await store.commit(mine), Refused)
        await store.create("/a/leader", b"you")
        assert isinstance(await store.commit(mine), Refused)

    async def test_a_transaction_that_changes_nothing_takes_no_revision(self, store: Store) -> None:
        before = revision_of(await store.create("/a/x", b"1"))
        assert await store.commit(Transaction((Delete("/a/none"),))) == Committed(before)
        assert (await store.revision_range()).revision == before

    async def test_the_largest_transaction_fits(self, store: Store) -> None:
        keys = [f"/a/{number:03}" for number in range(128)]
        guards = tuple(Precondition(key, revision=0) for key in keys)
        revision_of(await store.commit(Transaction(tuple(Put(key, b"1") for key in keys), guards)))
        assert len((await store.list("/a/")).entries) == 128

    async def test_the_longest_key_fits(self, store: Store) -> None:
        key = "/" + "\U0001f600" * 649
        revision_of(await store.create(key, b"1"))
        assert [entry.key for entry in (await store.list("/")).entries] == [key]

    async def test_a_transaction_that_makes_no_sense_is_a_bug_of_its_author(self, store: Store) -> None:
        for writes in [(Put("/a/x", b""), Delete("/a/x")), (Put("", b""),), (Put("/a/", b""),), (Put("/a\0b", b""),)]:
            with pytest.raises(ValueError, match="key"):
                await store.commit(Transaction(writes))
        with pytest.raises(ValueError, match="characters"):
            await store.create("/" + "x" * 650, b"")
        with pytest.raises(ValueError, match="at most"):
            await store.commit(Transaction(tuple(Put(f"/a/{number}", b"") for number in range(129))))
        with pytest.raises(ValueError, match="ends in"):
            await store.list("/no/slash")

    # Lists

    async def test_a_list_is_ordered_and_bounded_by_its_prefix(self, store: Store) -> None:
        keys = ["/a/b", "/a/ü", "/a/b/c", "/ab/x", "/a0", "/b/x", "/a/Z", "/a/a", "/a/\U0001f600", "/a/\uffee"]
        for key in keys:
            await store.create(key, key.encode())
        inside = sorted(key for key in keys if key.startswith("/a/"))
        assert [entry.key for entry in (await store.list("/a/")).entries] == inside
        assert [entry.key for entry in (await store.list("")).entries] == sorted(keys)

    async def test_pages_are_one_revisions_view_whatever_is_written_between_them(self, store: Store) -> None:
        for number in range(10):
            await store.create(f"/a/{number}", b"old")
        first = await store.list("/a/", limit=3)
        assert ([entry.key for entry in first.entries], first.remaining) == (["/a/0", "/a/1", "/a/2"], 7)
        for number in (1, 5, 7):
            entry = await store.get(f"/a/{number}")
            assert entry is not None
            await store.update(entry.key, b"new", expected=entry.revision)
        gone = await store.get("/a/6")
        assert gone is not None
        await store.delete("/a/6", expected=gone.revision)
        back = await store.get("/a/8")
        assert back is not None
        await store.delete("/a/8", expected=back.revision)
        await store.create("/a/8", b"other")
        await store.create("/a/55", b"new")

        seen = list(first.entries)
        page = first
        while page.remaining:
            page = await store.list("/a/", limit=3, after=page.entries[-1].key, revision=first.revision)
            seen += page.entries
        assert [entry.key for entry in seen] == [f"/a/{number}" for number in range(10)]
        assert {entry.value for entry in seen} == {b"old"}
        assert all(entry.revision <= first.revision for entry in seen)

    async def test_a_list_and_the_events_after_it_add_up_to_what_stands(self, store: Store, second: Store) -> None:
        """Also from every revision in between, through both stores: replay(list at r, events after r) == list now."""
        start = (await store.revision_range()).revision
        revisions = [start]
        for number in range(12):
            through = (store, second)[number % 2]
            revisions.append(revision_of(await through.create(f"/a/{number % 7}/{number}", b"1")))
            if number % 3 == 0:
                entry = await through.get(f"/a/{number % 7}/{number}")
                assert entry is not None
                revisions.append(revision_of(await through.delete(entry.key, expected=entry.revision)))
        now = await store.list("/a/")
        for revision in revisions:
            page = await second.list("/a/", revision=revision)
            async with store.watch("/a/", after=revision) as watch:
                events = await gather_to(watch, revisions[-1]) if revision < revisions[-1] else []
            assert replay(page.entries, events) == {entry.key: entry.value for entry in now.entries}

    async def test_a_list_or_watch_of_a_revision_to_come_says_so(self, store: Store) -> None:
        revision = revision_of(await store.create("/a/x", b"1"))
        with pytest.raises(errors.FutureRevision):
            await store.list("/a/", revision=revision + 100)
        with pytest.raises(errors.FutureRevision):
            async with store.watch("/a/", after=revision + 100):
                pass

    # Watches

    async def test_a_watch_tells_what_was_before(self, store: Store) -> None:
        start = (await store.revision_range()).revision
        one = revision_of(await store.create("/a/x", b"1"))
        two = revision_of(await store.update("/a/x", b"2", expected=one))
        three = revision_of(await store.delete("/a/x", expected=two))
        async with store.watch("/a/", after=start) as watch:
            events = await gather_to(watch, three)
        assert events == [
            Event("/a/x", one, b"1", one, None, 0),
            Event("/a/x", two, b"2", one, b"1", one),
            Event("/a/x", three, None, one, b"2", two),
        ]
        assert [event.is_create for event in events] == [True, False, False]
        assert [event.is_delete for event in events] == [False, False, True]

    async def test_a_watch_sees_only_its_prefix_but_bookmarks_move_on(self, store: Store) -> None:
        start = (await store.revision_range()).revision
        async with store.watch("/a/b/", after=start) as watch:
            for key in ("/a/b", "/a/bc/x", "/a/x"):
                await store.create(key, b"")
            last = revision_of(await store.create("/a/b/c", b"1"))
            events = await gather_to(watch, last)
            assert [event.key for event in events] == ["/a/b/c"]
            assert watch.revision >= last
            elsewhere = revision_of(await store.create("/a/c/x", b""))
            async with asyncio.timeout(PATIENCE_S):
                while watch.revision < elsewhere:
                    # A watcher is not woken for changes outside its prefix.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.01):
                            await anext(watch)

    async def test_every_watcher_sees_every_event_once_and_in_order(self, store: Store, second: Store) -> None:
        """Writers and watchers on two stores of one database, concurrently."""
        start = (await store.revision_range()).revision
        writers, each = 8, 25

        async def write(through: Store, name: int) -> None:
            for number in range(each):
                await through.create(f"/a/{name}/{number}", b"")

        async def follow(through: Store) -> list[Event]:
            async with through.watch("/a/", after=start) as watch:
                return await gather_events(watch, lambda events: len(events) >= writers * each)

        followers = [asyncio.create_task(follow(through)) for through in (store, second) for _ in range(3)]
        await asyncio.gather(*(write((store, second)[name % 2], name) for name in range(writers)))
        seen = await asyncio.gather(*followers)
        assert len({event.key for event in seen[0]}) == writers * each
        revisions = [event.revision for event in seen[0]]
        assert revisions == sorted(set(revisions))
        assert all(events == seen[0] for events in seen)

    async def test_a_watch_resumes_from_any_revision_without_gap_or_repetition(self, store: Store) -> None:
        start = (await store.revision_range()).revision
        for number in range(20):
            await store.create(f"/a/{number}", b"")
        end = (await store.revision_range()).revision
        async with store.watch("/a/", after=start) as watch:
            whole = await gather_to(watch, end)
        assert len(whole) == 20
        for cut in range(19):
            async with store.watch("/a/", after=whole[cut].revision) as watch:
                assert await gather_to(watch, end) == whole[cut + 1 :]

    async def test_a_watch_resumes_from_history_that_memory_does_not_hold(self, database: Database) -> None:
        small = Settings(limits=broadcaster.Limits(events=10))
        async with opened(database.url, small) as store:
            start = (await store.revision_range()).revision
            for number in range(60):
                await store.create(f"/{'ab'[number % 2]}/{number}", b"")
            end = (await store.revision_range()).revision
            async with store.watch("/a/", after=start) as watch:
                events = await gather_events(watch, lambda events: len(events) >= 30)
                assert [event.key for event in events] == [f"/a/{number}" for number in range(0, 60, 2)]
                last = revision_of(await store.create("/a/last", b""))
                assert [event.revision for event in await gather_to(watch, last)] == [last]
            assert last > end

    async def test_history_is_read_in_stretches_that_split_no_transaction(
        self, store: Store, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store_watch.BroadcastWatch, "STRETCH", 3)
        start = (await store.revision_range()).revision
        for number in range(8):
            await store.commit(Transaction((Put(f"/a/{number}", b""), Put(f"/b/{number}", b""))))
        end = (await store.revision_range()).revision
        seen: list[Event] = []
        async with opened(database.url) as fresh, fresh.watch("", after=start) as watch, asyncio.timeout(PATIENCE_S):
            while not seen or seen[-1].revision < end:
                batch = await anext(watch)
                for revision in {event.revision for event in batch.events}:
                    assert sum(event.revision == revision for event in batch.events) == 2
                seen += batch.events
        assert [event.revision for event in seen] == sorted(event.revision for event in seen)
        assert {event.key for event in seen} == {f"/{half}/{number}" for half in "ab" for number in range(8)}
        assert len(seen) == 16

    async def test_a_compacted_revision_is_expired_and_what_stands_is_not_touched(self, store: Store) -> None:
        first = revision_of(await store.create("/a/x", b"1"))
        second = revision_of(await store.update("/a/x", b"2", expected=first))
        await store.create("/a/y", b"1")
        await store.compact(second)
        assert (await store.revision_range()).floor == second
        with pytest.raises(errors.Expired):
            async with store.watch("/a/", after=first):
                pass
        with pytest.raises(errors.Expired):
            await store.list("/a/", revision=first)
        async with store.watch("/a/", after=second) as watch:
            assert [event.key for event in (await anext(watch)).events] == ["/a/y"]
        assert [entry.value for entry in (await store.list("/a/")).entries] == [b"2", b"1"]
        assert len((await store.list("/a/", revision=second)).entries) == 1

    async def test_compaction_beside_live_traffic_loses_nothing(self, store: Store) -> None:
        start = (await store.revision_range()).revision

        async def compact() -> None:
            for _ in range(5):
                await store.compact((await store.revision_range()).revision)

        async def write(name: int) -> None:
            for number in range(20):
                await store.create(f"/a/{name}/{number}", b"")

        async with store.watch("/a/", after=start) as watch:
            seen = asyncio.create_task(gather_events(watch, lambda events: len(events) >= 100))
            await asyncio.gather(compact(), *(write(name) for name in range(5)))
            events = await seen
        assert len({event.key for event in events}) == 100
        assert len((await store.list("/a/")).entries) == 100

    async def test_a_slow_watcher_is_dropped_and_holds_up_nobody(self, database: Database) -> None:
        async with opened(database.url, Settings(limits=broadcaster.Limits(events=50))) as store:
            start = (await store.revision_range()).revision
            async with store.watch("/a/", after=start) as slow, store.watch("/a/", after=start) as quick:
                await store.create("/a/first", b"")
                await anext(slow)
                seen: list[Event] = []
                while not seen:
                    seen += (await anext(quick)).events
                for number in range(200):
                    last = revision_of(await store.create(f"/a/{number}", b""))
                    seen += await gather_to(quick, last)
                with pytest.raises(errors.SlowWatcher):
                    await anext(slow)
            assert len(seen) == 201

    async def test_a_reader_that_gives_up_waiting_and_comes_back_misses_nothing(self, store: Store) -> None:
        start = (await store.revision_range()).revision

        async def write() -> int:
            for number in range(29):
                await store.create(f"/a/{number}", b"")
                await asyncio.sleep(0.002)
            return revision_of(await store.create("/a/29", b""))

        async with store.watch("/a/", after=start) as watch, asyncio.timeout(PATIENCE_S):
            writing = asyncio.create_task(write())
            seen: list[Event] = []
            while not writing.done() or not seen or seen[-1].revision < writing.result():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.001):
                        seen += (await anext(watch)).events
        assert [event.key for event in seen] == [f"/a/{number}" for number in range(30)]

    async def test_closing_the_store_ends_its_watches(self, database: Database) -> None:
        store = await _open(database.url)
        async with store.watch("/a/", after=(await store.revision_range()).revision) as watch:
            reading = asyncio.create_task(_exhaust(watch))
            await asyncio.sleep(0)
            await store.close()
            assert await asyncio.wait_for(reading, PATIENCE_S) == []

    async def test_a_change_through_one_store_wakes_a_watch_of_another(self, store: Store, second: Store) -> None:
        async with second.watch("/a/", after=(await second.revision_range()).revision) as watch:
            reading = asyncio.create_task(_next_events(watch))
            for number in range(3):
                revision = revision_of(await store.create(f"/a/{number}", b""))
                # Far below the interval at which a lost hint would be made good.
                events = await asyncio.wait_for(reading, 2.0)
                assert [event.revision for event in events] == [revision]
                reading = asyncio.create_task(_next_events(watch))
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    # Ends

    async def test_a_writer_that_is_cancelled_harms_no_other_and_writes_all_or_nothing(self, store: Store) -> None:
        pairs = [(f"/a/{number}", f"/b/{number}") for number in range(40)]
        writing = [
            asyncio.create_task(store.commit(Transaction(tuple(Put(key, b"") for key in pair)))) for pair in pairs
        ]
        await asyncio.sleep(0)
        for number in range(0, 40, 2):
            writing[number].cancel()
            # Some while they wait for their turn, some while they are written.
            await asyncio.sleep(0.001 if number % 8 == 0 else 0)
        outcomes = await asyncio.gather(*writing, return_exceptions=True)
        assert all(isinstance(outcome, Committed | asyncio.CancelledError) for outcome in outcomes)
        assert all(isinstance(outcome, Committed) for outcome in outcomes[1::2])
        # A call cut off on its way may still arrive; once this one is through, it has or never will.
        revision_of(await store.create("/c", b""))
        found = {entry.key for entry in (await store.list("")).entries}
        assert all((one in found) == (other in found) for one, other in pairs)
        assert all(one in found for one, _ in pairs[1::2])

    async def test_calls_under_way_when_the_store_closes_end_and_lose_nothing(self, database: Database) -> None:
        store = await _open(database.url)
        await store.create("/a/x", b"")
        calls: list[asyncio.Task[object]] = []
        for number in range(20):
            calls += [
                asyncio.create_task(store.create(f"/a/{number}", b"")),
                asyncio.create_task(store.get("/a/x")),
                asyncio.create_task(store.list("/a/")),
                asyncio.create_task(store.grant(60.0)),
                asyncio.create_task(store.compact(1)),
            ]
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE_S):
            await store.close()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert all(isinstance(problem, errors.Closed) for problem in failed), failed
        kept = {f"/a/{number}" for number, outcome in enumerate(outcomes[::5]) if isinstance(outcome, Committed)}
        async with opened(database.url) as again:
            assert kept <= {entry.key for entry in (await again.list("/a/")).entries}

    async def test_a_closed_store_says_so_to_whoever_still_asks(self, database: Database) -> None:
        store = await _open(database.url)
        await store.close()
        await store.close()
        for call in (
            store.revision_range(),
            store.get("/a/x"),
            store.list("/a/"),
            store.create("/a/x", b""),
            store.compact(1),
            store.grant(1.0),
            store.renew(1),
            store.revoke(1),
            store.load([], revision=1),
        ):
            with pytest.raises(errors.Closed):
                await asyncio.wait_for(call, PATIENCE_S)

    # Leases

    @pytest.mark.slow
    async def test_a_lease_ends_though_the_process_that_took_it_is_gone(self, database: Database) -> None:
        async with opened(database.url, Settings(lease_look_s=0.2)) as store:
            start = (await store.revision_range()).revision
            async with opened(database.url) as leaving:
                await leaving.create("/a/x", b"", lease=await leaving.grant(1.0))
            async with store.watch("/a/", after=start) as watch:
                events = await gather_events(watch, lambda events: len(events) >= 2)
            assert [event.is_delete for event in events] == [False, True]

    async def test_keys_go_with_their_lease(self, store: Store) -> None:
        lease = await store.grant(1.0)
        await store.create("/a/stays", b"")
        await store.create("/a/goes", b"1", lease=lease)
        start = revision_of(await store.create("/a/goes too", b"2", lease=lease))
        async with store.watch("/a/", after=start) as watch:
            events = await gather_events(watch, lambda events: len(events) >= 2)
        assert {event.key for event in events} == {"/a/goes", "/a/goes too"}
        assert all(event.is_delete for event in events)
        assert [entry.key for entry in (await store.list("/a/")).entries] == ["/a/stays"]
        assert not await store.renew(lease)
        with pytest.raises(errors.LeaseNotFound):
            await store.create("/a/late", b"", lease=lease)
        assert await store.get("/a/late") is None

    async def test_a_renewed_lease_lives_on_and_leaves_no_trace_in_history(self, store: Store) -> None:
        lease = await store.grant(2.0)
        revision = revision_of(await store.create("/a/x", b"", lease=lease))
        for _ in range(15):
            await asyncio.sleep(0.2)
            assert await store.renew(lease)
        assert (await store.revision_range()).revision == revision
        assert await store.get("/a/x") == Entry("/a/x", b"", revision, revision, lease)

    async def test_a_revoked_lease_takes_its_keys_in_one_revision(self, store: Store) -> None:
        lease = await store.grant(60.0)
        await store.create("/a/x", b"", lease=lease)
        start = revision_of(await store.create("/a/y", b"", lease=lease))
        assert await store.revoke(lease)
        assert not await store.revoke(lease)
        async with store.watch("/a/", after=start) as watch:
            events = await gather_events(watch, lambda events: len(events) >= 2)
        assert len({event.revision for event in events}) == 1
        assert (await store.list("/a/")).entries == []

    async def test_a_key_written_without_its_lease_is_free_of_it(self, store: Store) -> None:
        lease = await store.grant(60.0)
        revision = revision_of(await store.create("/a/x", b"", lease=lease))
        await store.update("/a/x", b"free", expected=revision)
        assert await store.revoke(lease)
        entry = await store.get("/a/x")
        assert entry is not None
        assert (entry.value, entry.lease) == (b"free", 0)

    # Heartbeats

    async def test_heartbeats_do_not_pile_up_in_history(self, store: Store, database: Database) -> None:
        if not database.merges_heartbeats:
            pytest.skip("history is this database's own and bounded by compaction alone")
        start = (await store.revision_range()).revision
        created = revision = revision_of(await store.create("/a/node", b"0"))
        await store.create("/a/other", b"")
        for beat in range(1, 101):
            revision = revision_of(await store.update("/a/node", b"%d" % beat, expected=revision, heartbeat=True))
        assert await _history(database.url, start) == [("/a/node", b"0"), ("/a/other", b""), ("/a/node", b"100")]
        final = revision_of(await store.update("/a/node", b"not a heartbeat", expected=revision))
        page = await store.list("/a/", revision=created)
        assert [(entry.key, entry.value) for entry in page.entries] == [("/a/node", b"0")]
        history = await _history(database.url, start)
        assert [value for _, value in history] == [b"0", b"", b"100", b"not a heartbeat"]
        await store.delete("/a/node", expected=final)
        assert len(await _history(database.url, start)) == 5

    async def test_heartbeats_that_are_committed_together_do_not_pile_up_either(
        self, store: Store, database: Database
    ) -> None:
        if not database.merges_heartbeats:
            pytest.skip("history is this database's own and bounded by compaction alone")
        start = revision_of(await store.create("/a/node", b""))
        writes = [Put("/a/node", b"%d" % beat, heartbeat=True) for beat in range(20)]
        writes[10:10] = [Put("/a/other", b"")]
        await asyncio.gather(*(store.commit(Transaction((write,))) for write in writes))
        assert sorted(await _history(database.url, start)) == [("/a/node", b"19"), ("/a/other", b"")]

    async def test_watchers_that_keep_up_see_every_heartbeat(self, store: Store) -> None:
        revision = revision_of(await store.create("/a/node", b""))
        async with store.watch("/a/", after=revision) as watch:
            for beat in range(10):
                revision = revision_of(await store.update("/a/node", b"%d" % beat, expected=revision, heartbeat=True))
            events = await gather_to(watch, revision)
        assert [event.value for event in events] == [b"%d" % beat for beat in range(10)]

    # Loading

    async def test_loading_continues_the_revision_order_above_the_old_store(self, database: Database) -> None:
        async with opened(database.url) as store:
            revision_range = await store.load([Entry("/a/x", b"1", 5, 3), Entry("/b/y", b"2", 7, 7)], revision=41_000)
            assert revision_range.revision > 41_000 + RESTORE_GAP // 2
            for old in (7, 41_000, 41_000 + 500):
                with pytest.raises(errors.Expired):
                    async with store.watch("", after=old):
                        pass
        async with opened(database.url) as store:
            assert await store.revision_range() == revision_range
            page = await store.list("")
            assert [(entry.key, entry.value) for entry in page.entries] == [("/a/x", b"1"), ("/b/y", b"2")]
            assert all(41_000 < entry.revision <= page.revision for entry in page.entries)
            entry = page.entries[0]
            last = revision_of(await store.update("/a/x", b"3", expected=entry.revision))
            assert last > revision_range.revision
            async with store.watch("", after=page.revision) as watch:
                events = await gather_to(watch, last)
            assert [(event.key, event.revision, event.previous) for event in events] == [("/a/x", last, b"1")]

    async def test_loading_into_a_store_with_keys_is_refused(self, store: Store) -> None:
        await store.create("/a/x", b"1")
        with pytest.raises(errors.NotEmpty):
            await store.load([Entry("/a/y", b"1", 1, 1)], revision=1)
        assert [entry.key for entry in (await store.list("")).entries] == ["/a/x"]

    async def test_what_was_written_is_there_after_closing_and_opening(self, database: Database) -> None:
        async with opened(database.url) as store:
            revision = revision_of(await store.create("/a/x", b"1"))
        async with opened(database.url) as store:
            assert await store.get("/a/x") == Entry("/a/x", b"1", revision, revision)
            assert (await store.revision_range()).revision == revision


async def _exhaust(watch: Watch) -> list[Event]:
    return [event async for batch in watch for event in batch.events]


async def _next_events(watch: Watch) -> list[Event]:
    return list((await anext(watch)).events)


async def _history(url: str, after: int) -> list[tuple[str, bytes | None]]:
    """The history as a new watcher reads it that resumes from `after`."""
    async with opened(url) as store:
        end = (await store.revision_range()).revision
        async with store.watch("/a/", after=after) as watch:
            return [(event.key, event.value) for event in await gather_to(watch, end)]
