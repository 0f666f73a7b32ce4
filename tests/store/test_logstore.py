"""A store on an engine that other processes use too, or that fails."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from rota.kit import system
from rota.store import errors
from rota.store.backends.memory import Database, MemoryEngine
from rota.store.engine import Applied
from rota.store.logstore import LogStore
from rota.store.store_interface import Entry, RevisionRange
from rota.store.store_watch import Tail
from rota.store.write_plan import Work
from rota.testing.clocks import FakeClock
from rota.testing.store_contract import revision_of

CLOCK = system.SystemClock()


async def started(engine: MemoryEngine) -> LogStore:
    return await LogStore.start(engine, time=CLOCK, rng=system.rng())


async def test_watches_of_a_database_that_went_back_in_time_list_again() -> None:
    """As when a standby takes over without the last commits: what was delivered never happened."""
    database = Database()
    store, other = await started(MemoryEngine(database, CLOCK)), await started(MemoryEngine(database, CLOCK))
    for number in range(5):
        await store.create(f"/a/{number}", b"")
    last = (await store.revision_range()).revision
    async with store.watch("/a/", after=last) as watch:
        reading = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        database.log.clear()
        database.revision_range = RevisionRange(2, 0)
        await other.create("/b/x", b"")
        with pytest.raises(errors.Expired):
            await asyncio.wait_for(reading, 5)
    async with store.watch("/a/", after=(await store.list("/a/")).revision) as watch:
        again = revision_of(await other.create("/a/new", b""))
        batch = await asyncio.wait_for(anext(watch), 5)
        assert [event.revision for event in batch.events] == [again]
    await store.close()
    await other.close()


class Held(MemoryEngine):
    """Commits wait until they are released."""

    def __init__(self) -> None:
        super().__init__(Database(), CLOCK)
        self.arrived, self.let = asyncio.Event(), asyncio.Event()

    async def apply(self, work: Sequence[Work]) -> Applied:
        self.arrived.set()
        await self.let.wait()
        return await super().apply(work)


async def test_cancelling_close_keeps_accepted_commits() -> None:
    engine = Held()
    store = await started(engine)
    writing = asyncio.create_task(store.create("/a/x", b""))
    await engine.arrived.wait()
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    engine.let.set()
    revision_of(await asyncio.wait_for(writing, 5))
    await store.close()


async def test_commits_before_listening_are_delivered_at_once() -> None:
    database = Database()
    other = await started(MemoryEngine(database, CLOCK))
    start = (await other.revision_range()).revision

    class Late(MemoryEngine):
        async def revision_range(self) -> RevisionRange:
            revision_range = await super().revision_range()
            if revision_range.revision == start:
                await other.create("/a/x", b"")
            return revision_range

    store = await started(Late(database, CLOCK))
    async with store.watch("/a/", after=start) as watch:
        batch = await asyncio.wait_for(anext(watch), 2)
        assert [event.key for event in batch.events] == ["/a/x"]
    await store.close()
    await other.close()


class Away(MemoryEngine):
    """Does not answer while it is away."""

    away = False

    def _answers(self) -> None:
        if self.away:
            raise errors.Unavailable("the database does not answer", "start it")

    async def get(self, key: str) -> Entry | None:
        self._answers()
        return await super().get(key)

    async def tail(self, after: int, limit: int) -> Tail:
        self._answers()
        return await super().tail(after, limit)

    async def expired(self) -> list[int]:
        self._answers()
        return await super().expired()


async def test_an_outage_is_one_line_when_it_begins_one_when_it_ends_and_a_count_between(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    engine = Away(Database(), clock)
    store = await LogStore.start(engine, time=clock, rng=random.Random(0))
    await store.create("/a", b"")
    engine.away = True
    reads = [asyncio.create_task(store.get("/a")) for _ in range(50)]
    await clock.advance(25)
    told = [record.getMessage() for record in caplog.records if "answer" in record.getMessage()]
    assert told == ["store does not answer, trying again", *["store still does not answer"] * 2]
    engine.away = False
    await clock.advance(3)
    assert all(one.result() is not None for one in reads)
    (last,) = [record for record in caplog.records if record.getMessage() == "store answers again"]
    fields = vars(last)["rota_fields"]
    assert fields["failed_calls"] > 500
    assert 25 <= fields["away_s"] <= 27
    closing = asyncio.create_task(store.close())
    await clock.advance(10)
    await closing
