"""History is kept for a limited time."""

from pathlib import Path

from rota.kit import system
from rota.store import archive, holds, store_factory
from rota.store.compaction import Compactor
from rota.testing.clocks import FakeClock


async def test_history_older_than_wanted_is_given_up_and_no_younger() -> None:
    clock = FakeClock()
    store = await store_factory.open_store("memory://", time=clock, rng=system.rng())
    compactor = Compactor(store, time=clock, keep_s=300, every_s=30)
    floors = []
    for step in range(15):
        await compactor.step()
        floors.append((await store.revision_range()).floor)
        await store.create(f"/a/{step}", b"")
        await clock.advance(30)
    # At step n the newest revision was n + 1; it is given up once 300 s, ten steps, have passed.
    assert floors == [0] * 10 + [1, 2, 3, 4, 5]
    await store.close()


async def test_a_backup_that_takes_longer_than_history_lasts_is_whole(tmp_path: Path) -> None:
    clock = FakeClock()
    store = await store_factory.open_store("memory://", time=clock, rng=system.rng())
    compactor = Compactor(store, time=clock, keep_s=300, every_s=30)
    for number in range(3000):
        await store.create(f"/a/{number:04}", b"")
    listing = store.list

    async def slow_list(prefix: str, **options: object) -> object:
        if not prefix and options.get("revision"):
            for step in range(3):  # ninety seconds for each page, in which others write and history is compacted
                await store.create(f"/b/{(await store.revision_range()).revision}-{step}", b"")
                await clock.advance(30)
                await compactor.step()
        return await listing(prefix, **options)  # type: ignore[arg-type]

    store.list = slow_list  # type: ignore[method-assign,assignment]
    summary = await archive.backup(store, tmp_path / "b", time=clock)
    assert summary.entries == 3000
    assert (await store.revision_range()).floor <= summary.revision
    assert await holds.held(store) == {}
    for _ in range(12):
        await clock.advance(30)
        await compactor.step()
    assert (await store.revision_range()).floor > summary.revision
    await store.close()


async def test_a_reader_does_not_hold_history_for_ever() -> None:
    clock = FakeClock()
    store = await store_factory.open_store("memory://", time=clock, rng=system.rng())
    compactor = Compactor(store, time=clock, keep_s=300, every_s=30)
    await store.create("/a", b"")
    hold = holds.Hold(store, 1, clock)
    for minute in range(90):
        await clock.advance(60)
        await hold.keep()
        await store.create(f"/b/{minute}", b"")
        await compactor.step()
        if minute == 50:
            assert (await store.revision_range()).floor <= 1
    assert (await store.revision_range()).floor > 1
    await store.close()
