"""A followed store can be restored to every revision that was confirmed, on every backend."""

import asyncio
import contextlib
import errno
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from rota.kit import system
from rota.kit.metrics import Metrics
from rota.store import errors, logstore, roles
from rota.store.shipping import bases, catalog, recovery
from rota.store.shipping.folder import Folder
from rota.store.shipping.follower import Confirmed, Follower, Settings
from rota.store.shipping.metrics import ShippingMetrics
from rota.store.shipping.places import Place
from rota.store.shipping.segments import SegmentWriter
from rota.store.store_interface import Committed, Delete, Entry, Put, Store, Transaction
from rota.testing.clocks import FakeClock
from rota.testing.databases import BACKENDS, FreshDatabase, fresh_database
from rota.testing.store_contract import PATIENCE_S, opened

CLOCK = system.SystemClock()


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest) -> FreshDatabase:
    return fresh_database(request.param, request)


class Shipped:
    """What the follower confirmed so far."""

    def __init__(self) -> None:
        self.latest = Confirmed(0, 0.0)
        self._changed = asyncio.Condition()

    def __call__(self, confirmed: Confirmed) -> None:
        assert confirmed.revision > self.latest.revision
        self.latest = confirmed

    async def reaches(self, revision: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while self.latest.revision < revision:  # noqa: ASYNC110 - the callback is called from another task
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def following(store: Store, place: Path | Place, settings: Settings | None = None) -> AsyncIterator[Shipped]:
    shipped = Shipped()
    place = Folder(place) if isinstance(place, Path) else place
    follower = Follower(store, place, time=CLOCK, settings=settings, on_confirmed=shipped)
    running = asyncio.create_task(follower.run())
    try:
        yield shipped
    finally:
        running.cancel()
        await asyncio.wait([running])
        if not running.cancelled():
            running.result()


async def write(store: Store, rng: random.Random, count: int) -> dict[int, dict[str, bytes]]:
    """Random transactions; returns the whole content after each revision."""
    content = {entry.key: entry.value for entry in (await store.list("")).entries}
    history = {}
    for number in range(count):
        keys = rng.sample([f"/k/{place}" for place in range(30)], rng.randint(1, 4))
        writes: list[Put | Delete] = []
        for key in keys:
            if key in content and rng.random() < 0.4:
                writes.append(Delete(key))
                del content[key]
            else:
                content[key] = b"value %d" % number
                writes.append(Put(key, content[key]))
        outcome = await store.commit(Transaction(tuple(writes)))
        assert isinstance(outcome, Committed)
        history[outcome.revision] = dict(content)
    return history


def restored(
    folder: Path, revision: int | None = None, at: float | None = None, key: bytes | None = None
) -> dict[str, bytes]:
    place = Folder(folder, key=key)
    found = place.catalog()
    entries: list[Entry] = recovery.state(place, found, recovery.moment(place, found, revision=revision, at=at))
    return {entry.key: entry.value for entry in entries}


@pytest.mark.slow
async def test_every_revision_of_a_busy_history_can_be_restored(database: FreshDatabase, tmp_path: Path) -> None:
    rng = random.Random(7)
    folder = tmp_path / "log"
    async with opened(database.url) as store:
        await write(store, rng, 5)
        async with following(store, Folder(folder, part_bytes=2000), Settings(base_every_s=0.2)) as shipped:
            await shipped.reaches(1)
            history: dict[int, dict[str, bytes]] = {}
            for _ in range(15):
                history |= await write(store, rng, 10)
                await shipped.reaches(max(history))
        for revision in rng.sample(sorted(history), 20):
            assert restored(folder, revision) == history[revision]
        assert restored(folder) == history[max(history)]
        assert len(catalog.read(folder).segments) > 2


@pytest.mark.slow
async def test_a_follower_that_ended_continues_without_a_gap(database: FreshDatabase, tmp_path: Path) -> None:
    rng = random.Random(8)
    async with opened(database.url) as store:
        async with following(store, tmp_path) as shipped:
            await shipped.reaches(1)
            history = await write(store, rng, 20)
            await shipped.reaches(max(history))
        history |= await write(store, rng, 20)
        async with following(store, tmp_path) as shipped:
            history |= await write(store, rng, 20)
            await shipped.reaches(max(history))
    assert len(catalog.read(tmp_path).windows()) == 1
    for revision, content in history.items():
        assert restored(tmp_path, revision) == content


async def test_history_that_was_compacted_is_a_gap_that_is_refused(tmp_path: Path) -> None:
    rng = random.Random(9)
    async with opened("memory://", logstore.Settings()) as store:
        async with following(store, tmp_path) as shipped:
            await shipped.reaches(1)
            before = await write(store, rng, 5)
            await shipped.reaches(max(before))
        lost = await write(store, rng, 5)
        await store.compact(max(lost))
        async with following(store, tmp_path) as shipped:
            await shipped.reaches(max(lost))
            after = await write(store, rng, 5)
            await shipped.reaches(max(after))
    assert len(catalog.read(tmp_path).windows()) == 2
    assert restored(tmp_path, max(before)) == before[max(before)]
    assert restored(tmp_path, max(after)) == after[max(after)]
    with pytest.raises(errors.StoreError, match=f"revision {min(lost)} is not in the backup"):
        restored(tmp_path, min(lost))


async def test_a_time_means_the_last_state_before_it(tmp_path: Path) -> None:
    rng = random.Random(10)
    moments: dict[float, dict[str, bytes]] = {}
    async with opened("memory://") as store, following(store, tmp_path) as shipped:
        await shipped.reaches(1)
        for _ in range(5):
            history = await write(store, rng, 3)
            await shipped.reaches(max(history))
            moments[shipped.latest.at] = history[max(history)]
            await asyncio.sleep(0.002)
    for at, content in moments.items():
        assert restored(tmp_path, at=at + 0.0005) == content
    with pytest.raises(errors.StoreError, match="begins after that time"):
        restored(tmp_path, at=1.0)


async def test_old_files_are_removed_and_the_rest_still_restores(tmp_path: Path) -> None:
    rng = random.Random(11)
    settings = Settings(base_every_s=0.0, keep_s=0.0)
    async with opened("memory://") as store, following(store, Folder(tmp_path, part_bytes=500), settings) as shipped:
        await shipped.reaches(1)
        history: dict[int, dict[str, bytes]] = {}
        async with asyncio.timeout(PATIENCE_S):
            while len(history) < 60 or catalog.read(tmp_path).bases[0].revision < 20:
                history |= await write(store, rng, 10)
                await shipped.reaches(max(history))
    found = catalog.read(tmp_path)
    assert len(found.windows()) == 1
    oldest = found.bases[0].revision
    assert oldest >= 20
    for revision in (revision for revision in history if revision >= oldest):
        assert restored(tmp_path, revision) == history[revision]
    with pytest.raises(errors.StoreError, match="is not in the backup"):
        restored(tmp_path, 3)


async def test_a_folder_of_another_store_is_refused(tmp_path: Path) -> None:
    async with opened("memory://") as store, following(store, tmp_path) as shipped:
        await write(store, random.Random(1), 5)
        await shipped.reaches(5)
    async with opened("memory://") as other:
        with pytest.raises(errors.StoreError, match="belongs to another store"):
            await Follower(other, Folder(tmp_path), time=CLOCK).run()


async def test_two_followers_of_one_folder_are_refused(tmp_path: Path) -> None:
    async with opened("memory://") as store, following(store, tmp_path) as shipped:
        await shipped.reaches(1)
        with pytest.raises(errors.StoreError, match="another `rota backup` writes"):
            await Follower(store, Folder(tmp_path), time=CLOCK).run()


async def test_an_encrypted_folder_is_read_with_its_key_only(tmp_path: Path) -> None:
    rng, key = random.Random(12), b"k" * 32
    place = Folder(tmp_path, key=key, part_bytes=1000)
    history: dict[int, dict[str, bytes]] = {}
    async with opened("memory://") as store, following(store, place) as shipped:
        await shipped.reaches(1)
        for _ in range(5):
            history |= await write(store, rng, 10)
            await shipped.reaches(max(history))
    assert len(place.catalog().segments) > 1
    for revision, content in history.items():
        assert restored(tmp_path, revision, key=key) == content
    for path in tmp_path.iterdir():
        assert b"value" not in path.read_bytes()
    with pytest.raises(errors.StoreError, match="is encrypted"):
        restored(tmp_path)
    with pytest.raises(errors.StoreError, match="does not open with this key"):
        restored(tmp_path, key=b"x" * 32)


async def test_a_plain_log_in_an_encrypted_folder_is_refused(tmp_path: Path) -> None:
    key = b"k" * 32
    async with opened("memory://") as store:
        async with following(store, Folder(tmp_path, key=key)) as shipped:
            await shipped.reaches(1)
        SegmentWriter.create(catalog.segment_path(tmp_path, shipped.latest.revision), after=1).complete()
        with pytest.raises(errors.StoreError, match="is not encrypted"):
            await Follower(store, Folder(tmp_path, key=key), time=CLOCK).run()


async def test_metrics_show_what_is_shipped_and_for_how_long_a_change_waits(tmp_path: Path) -> None:
    time, metrics = FakeClock(), Metrics("backup")
    place = FailingFolder(tmp_path)
    async with opened("memory://") as store:
        follower = Follower(store, place, time=time, metrics=ShippingMetrics(metrics))
        running = asyncio.create_task(follower.run())
        try:
            await until(lambda: (metrics.value("shipped_revision") or 0) >= 1)
            assert metrics.value("lag_seconds") == 0.0
            assert metrics.value("last_base_timestamp_seconds") == time.now()
            assert metrics.value("base_interval_seconds") == 24 * 3600.0
            place.fails = True
            history = await write(store, random.Random(13), 1)
            await until(lambda: metrics.value("errors_total", what="log") == 1.0)
            await until(lambda: time.sleeping > 0)
            await time.advance(1.5)
            assert metrics.value("lag_seconds") == 1.5
            place.fails = False
            async with asyncio.timeout(PATIENCE_S):
                while metrics.value("shipped_revision") != max(history):
                    await time.advance(1.0)
                    await asyncio.sleep(0.01)
            assert metrics.value("lag_seconds") == 0.0
            assert metrics.value("gaps_total") == 0.0
        finally:
            running.cancel()
            await asyncio.wait([running])
    assert restored(tmp_path) == history[max(history)]


async def test_a_follower_that_is_ended_while_it_writes_leaves_a_whole_segment(tmp_path: Path) -> None:
    place = SlowFolder(tmp_path)
    async with opened("memory://") as store:
        follower = Follower(store, place, time=CLOCK)
        running = asyncio.create_task(follower.run())
        await until(lambda: bool(list(tmp_path.glob("base-*"))))
        history = await write(store, random.Random(14), 1)
        await asyncio.to_thread(place.writes.wait, PATIENCE_S)
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=0.05)
        assert not done  # it waits for the write
        place.goes_on.set()
        await asyncio.wait([running])
        assert running.cancelled()
    (segment,) = Folder(tmp_path).catalog().segments
    assert segment.complete
    assert restored(tmp_path) == history[max(history)]


async def test_a_base_backup_that_is_cancelled_has_left_its_draft_when_the_next_one_begins(tmp_path: Path) -> None:
    """A follower that crosses a gap ends its scheduled base backup and begins another, in the same draft."""
    place = SlowKeeping(tmp_path)
    async with opened("memory://") as store:
        with place.claim():
            taking = asyncio.create_task(bases.take(store, place, time=CLOCK, metrics=ShippingMetrics()))
            await asyncio.to_thread(place.keeps.wait, PATIENCE_S)
            taking.cancel()
            done, _ = await asyncio.wait([taking], timeout=0.05)
            assert not done
            place.goes_on.set()
            await asyncio.wait([taking])
    assert taking.cancelled()
    assert not place.draft().exists()


async def test_a_follower_of_a_quiet_store_that_is_started_again_is_not_behind(tmp_path: Path) -> None:
    time, metrics = FakeClock(), Metrics("backup")
    async with opened("memory://") as store:
        async with following(store, tmp_path) as shipped:
            history = await write(store, random.Random(15), 3)
            await shipped.reaches(max(history))
        running = asyncio.create_task(
            Follower(store, Folder(tmp_path), time=time, metrics=ShippingMetrics(metrics)).run()
        )
        try:
            await until(lambda: metrics.value("shipped_revision") == max(history))
            await time.advance(600.0)
            assert metrics.value("lag_seconds") == 0.0
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_the_event_loop_runs_on_while_a_place_is_claimed(tmp_path: Path) -> None:
    """A bucket that does not answer must not keep health pages and signals waiting."""
    place = SlowClaim(tmp_path)
    async with opened("memory://") as store:
        running = asyncio.create_task(Follower(store, place, time=CLOCK).run())
        await until(place.claims.is_set)
        place.goes_on.set()
        await until(lambda: bool(list(tmp_path.glob("base-*"))))
        running.cancel()
        await asyncio.wait([running])
    assert running.cancelled()


class SlowClaim(Folder):
    """A folder whose claim waits for the test."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.claims = threading.Event()
        self.goes_on = threading.Event()

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        self.claims.set()
        assert self.goes_on.wait(PATIENCE_S)
        with super().claim():
            yield


class SlowKeeping(Folder):
    """A folder that keeps a base backup when the test says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.keeps = threading.Event()
        self.goes_on = threading.Event()

    def keep_base(self, draft: Path) -> None:
        self.keeps.set()
        assert self.goes_on.wait(PATIENCE_S)
        super().keep_base(draft)


class SlowFolder(Folder):
    """A folder whose writes wait for the test."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writes = threading.Event()
        self.goes_on = threading.Event()

    def begin(self, after: int) -> SegmentWriter:
        writer = super().begin(after)
        self.writes.set()
        assert self.goes_on.wait(PATIENCE_S)
        return writer


class FailingFolder(Folder):
    """A folder whose disk can be full."""

    fails = False

    def begin(self, after: int) -> SegmentWriter:
        if self.fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().begin(after)

    def probe(self) -> None:
        if self.fails:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().probe()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - the condition changes in other tasks
            await asyncio.sleep(0.01)


async def test_a_folder_belongs_to_one_store(tmp_path: Path) -> None:
    """Two clusters that write to one folder would mix their logs."""
    async with opened("memory://") as one, opened("memory://") as other, opened("memory://") as old:
        for store in (one, other):
            await roles.begin(store)
        await old.create("/k", b"1")
        for _ in range(2):
            async with following(one, tmp_path) as shipped:
                await one.commit(Transaction((Put("/k", b"1"),)))
                await shipped.reaches((await one.revision_range()).revision)
        for store in (other, old):
            with pytest.raises(errors.StoreError, match="has the backups of another store; name an empty place"):
                await Follower(store, Folder(tmp_path), time=CLOCK).run()


async def test_a_folder_of_a_store_without_an_identity_belongs_to_it_when_it_has_one(tmp_path: Path) -> None:
    async with opened("memory://") as store:
        await store.create("/k", b"1")
        async with following(store, tmp_path) as shipped:
            await shipped.reaches(1)
        assert Folder(tmp_path).owner() == ""
        assert await roles.raise_level(store, 2, await roles.read(store))
        async with following(store, tmp_path) as shipped:
            await shipped.reaches((await store.revision_range()).revision)
        assert Folder(tmp_path).owner() == (await roles.read(store)).role.identity
