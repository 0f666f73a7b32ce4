"""Complete backups on a schedule: when they are taken, which are kept, and that a failure is not the end."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rota.kit.metrics import Metrics
from rota.store import errors
from rota.store.shipping import recovery
from rota.store.shipping.bases import Schedule, ScheduledBackups
from rota.store.shipping.folder import Folder
from rota.store.shipping.metrics import ShippingMetrics
from rota.store.store_interface import Store
from rota.testing.clocks import FakeClock
from rota.testing.store_contract import PATIENCE_S, opened

HOUR = 3600.0


class Full(Folder):
    """A folder whose disk can be full."""

    fails = False

    def keep_base(self, draft: Path) -> None:
        if self.fails:
            raise errors.StoreError("cannot use the folder", "check the disk")
        super().keep_base(draft)


class Scheduled:
    """Runs a schedule in virtual time, and writes a new value before each backup."""

    def __init__(self, store: Store, place: Folder, schedule: Schedule, time: FakeClock) -> None:
        self.metrics = Metrics("backup")
        self.time = time
        self._store = store
        self._place = place
        self._backups = ScheduledBackups(store, place, schedule, time=time, metrics=ShippingMetrics(self.metrics))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._backups.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def settled(self) -> None:
        """Wait until the schedule waits for time to pass."""
        async with asyncio.timeout(PATIENCE_S):
            while not self.time.sleeping:  # noqa: ASYNC110 - it sleeps in another task
                await asyncio.sleep(0.01)

    async def pass_hours(self, count: int) -> None:
        for _ in range(count):
            await self.settled()
            await self._store.create(f"/k/{self.time.now()}", b"v")
            await self.time.advance(HOUR)
            await self.settled()

    def restored(self) -> int:
        found = self._place.catalog()
        return len(recovery.state(self._place, found, recovery.moment(self._place, found)))


async def test_backups_are_taken_each_interval_and_the_newest_are_kept(tmp_path: Path) -> None:
    place = Folder(tmp_path, key=b"k" * 32)
    async with opened("memory://") as store:
        one = Scheduled(store, place, Schedule(every_s=HOUR, keep_count=3), FakeClock())
        async with one.running():
            await one.pass_hours(6)
        times = [base.taken_at for base in place.catalog().bases]
        assert len(times) == 3
        assert {later - earlier for earlier, later in itertools.pairwise(times)} == {HOUR}
        assert one.restored() == 6
        assert one.metrics.value("last_base_timestamp_seconds") == times[-1]


async def test_a_restart_waits_for_the_next_interval(tmp_path: Path) -> None:
    place, time = Folder(tmp_path), FakeClock()
    async with opened("memory://") as store:
        one = Scheduled(store, place, Schedule(every_s=HOUR), time)
        async with one.running():
            await one.pass_hours(1)
        assert len(place.catalog().bases) == 2
        await store.create("/k/later", b"v")
        async with one.running():
            await one.settled()
            assert len(place.catalog().bases) == 2
            await one.pass_hours(1)
            assert len(place.catalog().bases) == 3


async def test_what_is_older_than_the_wanted_time_is_removed(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    async with opened("memory://") as store:
        one = Scheduled(store, place, Schedule(every_s=HOUR, keep_s=1.5 * HOUR), FakeClock())
        async with one.running():
            await one.pass_hours(6)
            # The newest one that is older than an hour and a half is needed for the moments after it.
            assert len(place.catalog().bases) == 3


async def test_a_failure_is_tried_again_and_the_first_one_is_reported(tmp_path: Path) -> None:
    place = Full(tmp_path)
    async with opened("memory://") as store:
        one = Scheduled(store, place, Schedule(every_s=HOUR), FakeClock())
        async with one.running():
            await one.settled()
            place.fails = True
            await one.pass_hours(1)
            assert one.metrics.value("errors_total", what="base") == 1.0
            assert len(place.catalog().bases) == 1
            place.fails = False
            await one.time.advance(60.0)
            await one.settled()
            assert len(place.catalog().bases) == 2
        full = Full(tmp_path / "other")
        full.fails = True
        schedule = ScheduledBackups(
            store, full, Schedule(every_s=HOUR), time=FakeClock(), metrics=ShippingMetrics(Metrics("backup"))
        )
        with pytest.raises(errors.StoreError, match="check the disk"):
            await schedule.run()
