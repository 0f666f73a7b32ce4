"""A standby equals its primary at its position, whatever is cut off; a promotion loses nothing that can be had."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from tests.store.shipping.test_following import following, write

from rota import backups
from rota.kit import system
from rota.kit.metrics import Metrics
from rota.store import errors, roles, standby
from rota.store.roles import FencedStore, Role, Superseded
from rota.store.shipping.folder import Folder
from rota.store.standby import Promoted, Standby, StandbyMetrics
from rota.store.standby_sources import PlaceSource, Step, StoreSource
from rota.store.store_interface import Committed, Outcome, Put, Store, Transaction
from rota.testing.clocks import FakeClock
from rota.testing.databases import BACKENDS, FreshDatabase, fresh_database
from rota.testing.store_contract import PATIENCE_S, opened

CLOCK = system.SystemClock()


async def content(store: Store) -> dict[str, bytes]:
    entries = (await store.list("")).entries
    return {entry.key: entry.value for entry in entries if not entry.key.startswith(roles.PREFIX)}


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - the condition changes in a store
            await asyncio.sleep(0.01)


async def reaches(target: Store, revision: int) -> None:
    async def reached() -> bool:
        try:
            return (await roles.read(target)).role.position >= revision
        except errors.Corrupt:
            return False  # etcd refuses reads while the standby is being filled

    await until(reached)


@contextlib.asynccontextmanager
async def standing_by(
    target: Store, source: Store, metrics: Metrics | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    one = Standby(target, StoreSource(source, CLOCK), time=CLOCK, metrics=StandbyMetrics(metrics))
    running = asyncio.create_task(one.run())
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.wait([running])


async def newest(store: Store) -> int:
    return (await store.revision_range()).revision


async def test_a_standby_follows_its_primary_also_after_it_was_away() -> None:
    rng = random.Random(1)
    async with opened("memory://") as primary, opened("memory://") as target:
        await write(primary, rng, 20)
        for _ in range(3):
            async with standing_by(target, primary):
                history = await write(primary, rng, 30)
                await reaches(target, max(history))
                assert await content(target) == history[max(history)]
            await write(primary, rng, 10)
        assert (await newest(target)) > (await newest(primary)) + 1000  # clients of the primary list again
        role = (await roles.read(target)).role
        assert (role.role, role.epoch) == (roles.STANDBY, 0)


async def test_the_standby_is_at_each_moment_the_primary_at_its_position() -> None:
    """Whatever is read in one transaction is the state of one revision of the primary."""
    rng = random.Random(2)
    async with opened("memory://") as primary, opened("memory://") as target:
        history = await write(primary, rng, 5)
        async with standing_by(target, primary):
            await reaches(target, max(history))
            writing = asyncio.create_task(write(primary, rng, 300))
            seen: list[tuple[int, dict[str, bytes]]] = []
            while not writing.done():
                entries = {entry.key: entry.value for entry in (await target.list("")).entries}
                seen.append((roles.decode(entries.pop(roles.KEY)).position, entries))
                await asyncio.sleep(0)
            history |= await writing
            await reaches(target, max(history))
    for position, entries in seen:
        assert entries == history[position]


async def test_a_standby_that_is_started_again_beside_a_quiet_primary_shows_its_position() -> None:
    async with opened("memory://") as primary, opened("memory://") as target:
        async with standing_by(target, primary):
            history = await write(primary, random.Random(9), 3)
            await reaches(target, max(history))
        before, metrics, positions = await newest(target), Metrics("standby"), list[int]()
        one = Standby(
            target,
            StoreSource(primary, CLOCK),
            time=CLOCK,
            on_position=positions.append,
            metrics=StandbyMetrics(metrics),
        )
        running = asyncio.create_task(one.run())

        async def shown() -> bool:
            return bool(positions)

        try:
            await until(shown)
        finally:
            running.cancel()
            await asyncio.wait([running])
        assert positions == [max(history)]
        assert metrics.value("lag_seconds") == 0.0
        assert await newest(target) == before  # it wrote nothing


async def test_the_lag_grows_as_long_as_the_primary_does_not_answer() -> None:
    class Away(StoreSource):
        async def steps(self, after: int) -> AsyncGenerator[Step]:
            raise errors.Unavailable("the primary does not answer", "wait")
            yield Step([], after, 0.0)

    time, metrics = FakeClock(), Metrics("standby")
    async with opened("memory://") as primary, opened("memory://") as target:
        async with standing_by(target, primary):
            await reaches(target, 1)
        one = Standby(target, Away(primary, time), time=time, metrics=StandbyMetrics(metrics))
        running = asyncio.create_task(one.run())

        async def failed_again() -> bool:
            await time.advance(1.0)
            return (metrics.value("errors_total") or 0.0) >= 5.0

        try:
            await until(failed_again)
            assert (metrics.value("lag_seconds") or 0.0) >= 4.0
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_a_standby_that_missed_history_is_made_equal_again() -> None:
    rng, metrics = random.Random(3), Metrics("standby")
    async with opened("memory://") as primary, opened("memory://") as target:
        async with standing_by(target, primary):
            history = await write(primary, rng, 10)
            await reaches(target, max(history))
        history = await write(primary, rng, 40)
        await primary.compact(max(history))
        async with standing_by(target, primary, metrics):
            await reaches(target, max(history))
            assert await content(target) == history[max(history)]
            history = await write(primary, rng, 10)
            await reaches(target, max(history))
            assert await content(target) == history[max(history)]
    assert metrics.value("syncs_total") == 1.0
    assert metrics.value("position") == max(history)
    assert metrics.value("lag_seconds") == 0.0


async def test_a_standby_that_missed_history_goes_on_when_its_own_database_did_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng, metrics = random.Random(8), Metrics("standby")
    async with opened("memory://") as primary, opened("memory://") as target:
        async with standing_by(target, primary):
            history = await write(primary, rng, 10)
            await reaches(target, max(history))
        history = await write(primary, rng, 10)
        await primary.compact(max(history))
        answering, silent = target.commit, [True]

        async def commit(transaction: Transaction) -> Outcome:
            if silent:
                silent.clear()
                raise errors.Unavailable("the database does not answer", "wait")
            return await answering(transaction)

        monkeypatch.setattr(target, "commit", commit)
        async with standing_by(target, primary, metrics):
            await reaches(target, max(history))
        assert await content(target) == history[max(history)]
        assert metrics.value("errors_total") == 1.0


async def test_a_transaction_as_large_as_the_store_takes_is_followed() -> None:
    keys = [f"/big/{number:03}" for number in range(128)]
    async with opened("memory://") as primary, opened("memory://") as target, standing_by(target, primary):
        await primary.commit(Transaction(tuple(Put(key, b"1") for key in keys)))
        await reaches(target, await newest(primary))

        async def nothing_left() -> bool:
            return not (await roles.read(target)).role.rest

        await until(nothing_left)
        assert sorted(await content(target)) == keys


async def test_a_transaction_of_the_standby_is_no_larger_than_every_database_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Revisions that were missed are gathered, and etcd refuses a request of more than 1.5 MiB."""
    async with opened("memory://") as primary, opened("memory://") as target:
        async with standing_by(target, primary):
            await reaches(target, 1)
        sizes: list[int] = []
        answering = target.commit

        async def commit(transaction: Transaction) -> Outcome:
            sizes.append(sum(len(one.value) for one in transaction.writes if isinstance(one, Put)))
            return await answering(transaction)

        monkeypatch.setattr(target, "commit", commit)
        for round_ in ("followed", "compared"):
            for number in range(40):
                await primary.create(f"/{round_}/{number:02}", bytes(100_000))
            if round_ == "compared":
                await primary.compact(await newest(primary))
            async with standing_by(target, primary):
                await reaches(target, await newest(primary))
        assert await content(target) == await content(primary)
        assert max(sizes) < 1024 * 1024


async def test_a_promotion_between_the_halves_of_a_large_transaction_completes_it() -> None:
    async with opened("memory://") as primary, opened("memory://") as target:
        rest = (roles.Change("/big/127", b"1"),)
        async with standing_by(target, primary):
            await reaches(target, 1)
        recorded = await roles.read(target)
        role = Role(role=roles.STANDBY, position=7, at=1.0, rest=rest)
        assert await roles.write(target, role, recorded, writes=[Put("/big/000", b"1")]) is not None
        done = await standby.promote(target, time=CLOCK, primary=None, source=None)
        assert (done.epoch, done.position) == (1, 7)
        assert sorted(await content(target)) == ["/big/000", "/big/127"]


async def test_the_rest_of_a_position_of_another_process_is_applied_before_the_next_position() -> None:
    """A standby process and a promotion may move the position by turns."""
    async with opened("memory://") as primary, opened("memory://") as target:
        async with standing_by(target, primary) as running:
            await primary.create("/k/1", b"1")
            await reaches(target, position := await newest(primary))
            recorded = await roles.read(target)
            rest = (roles.Change("/big/127", b"1"),)
            role = Role(role=roles.STANDBY, position=position, at=1.0, rest=rest)
            assert await roles.write(target, role, recorded, writes=[Put("/big/000", b"1")]) is not None
            await primary.create("/k/2", b"1")
            await reaches(target, await newest(primary))
            assert not running.done()
        assert sorted(await content(target)) == ["/big/000", "/big/127", "/k/1", "/k/2"]


async def test_a_change_over_loses_nothing_and_the_old_primary_takes_no_write() -> None:
    rng = random.Random(4)
    async with opened("memory://") as primary, opened("memory://") as target:
        master = await FencedStore.of(primary)
        accepted: dict[str, bytes] = {}

        async def write_until_refused() -> None:
            for number in range(100_000):
                key, value = f"/w/{rng.randrange(50)}", b"%d" % number
                outcome: Outcome = await master.commit(Transaction((Put(key, value),)))
                assert isinstance(outcome, Committed)
                accepted[key] = value

        async with standing_by(target, primary) as running:
            await reaches(target, 1)
            writing = asyncio.create_task(write_until_refused())
            while len(accepted) < 30:  # noqa: ASYNC110 - another task writes
                await asyncio.sleep(0)
            done = await standby.promote(target, time=CLOCK, primary=primary, source=StoreSource(primary, CLOCK))
            with pytest.raises(Superseded, match="superseded by the promotion of a standby"):
                await writing
            with pytest.raises(Promoted):
                await running
        assert done.epoch == 1
        assert await content(target) == accepted
        with pytest.raises(Superseded):
            await FencedStore.of(primary)
        with pytest.raises(Superseded):
            await master.check()
        promoted = await FencedStore.of(target)
        assert isinstance(await promoted.create("/new", b"1"), Committed)
        with pytest.raises(Promoted, match="is a primary"):
            await standby.promote(target, time=CLOCK, primary=primary, source=None)


async def test_a_promotion_that_was_cut_off_is_completed_by_another() -> None:
    async with opened("memory://") as primary, opened("memory://") as target:
        async with standing_by(target, primary):
            await reaches(target, 1)
        await primary.create("/last", b"1")
        await standby.seal(primary, await roles.read(target))  # and then the process is killed
        done = await standby.promote(target, time=CLOCK, primary=primary, source=StoreSource(primary, CLOCK))
        assert done.epoch == 1
        assert await content(target) == {"/last": b"1"}


async def test_a_promoted_store_gets_a_standby_of_its_own() -> None:
    async with opened("memory://") as first, opened("memory://") as second, opened("memory://") as third:
        async with standing_by(second, first):
            await reaches(second, 1)
        await standby.promote(second, time=CLOCK, primary=first, source=StoreSource(first, CLOCK))
        async with standing_by(third, second):
            await reaches(third, await newest(second))
        with pytest.raises(errors.StoreError, match="is a superseded of epoch 1, and not the primary"):
            await standby.promote(third, time=CLOCK, primary=first, source=None)
        done = await standby.promote(third, time=CLOCK, primary=second, source=StoreSource(second, CLOCK))
        assert done.epoch == 2
        with pytest.raises(Superseded, match="epoch 2"):
            await FencedStore.of(second)


async def test_a_backup_of_a_superseded_store_is_restored_as_a_primary(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/old.db") as old:
        assert isinstance(await old.create("/a", b"1"), Committed)
        before = await roles.read(old)
        assert await roles.write(old, Role(role="superseded", epoch=3), before) is not None
    await backups.backup(f"sqlite:///{tmp_path}/old.db", tmp_path / "old.backup", progress=lambda _: None)
    restored = await backups.restore(tmp_path / "old.backup", f"sqlite:///{tmp_path}/new.db")
    async with opened(f"sqlite:///{tmp_path}/new.db") as new:
        role = (await roles.read(new)).role
        assert (role.role, role.epoch) == ("primary", 3)
        roles.check_writable(role)
        assert restored["revision"] == await newest(new)


async def test_masters_do_not_start_on_a_standby() -> None:
    async with opened("memory://") as primary, opened("memory://") as target:
        async with standing_by(target, primary):
            await reaches(target, 1)
        with pytest.raises(errors.ReadOnly, match="is a standby"):
            await FencedStore.of(target)
        with pytest.raises(errors.StoreError, match="this store is no standby"):
            await standby.promote(primary, time=CLOCK, primary=None, source=None)


async def test_a_standby_that_is_being_made_equal_is_not_promoted_as_it_is() -> None:
    async with opened("memory://") as primary, opened("memory://") as target:
        async with standing_by(target, primary):
            await reaches(target, 1)
        recorded = await roles.read(target)
        await roles.write(target, Role(role=roles.STANDBY, position=1, syncing=True), recorded)
        with pytest.raises(errors.StoreError, match="holds no whole state"):
            await standby.promote(target, time=CLOCK, primary=None, source=None)
        await primary.create("/k", b"1")
        await standby.promote(target, time=CLOCK, primary=primary, source=StoreSource(primary, CLOCK))
        assert await content(target) == {"/k": b"1"}


async def test_a_primary_that_was_restored_to_an_older_state_is_refused() -> None:
    async with opened("memory://") as primary, opened("memory://") as older, opened("memory://") as target:
        await write(primary, random.Random(5), 10)
        async with standing_by(target, primary):
            await reaches(target, await newest(primary))
        with pytest.raises(errors.StoreError, match="the primary is older than its standby"):
            await Standby(target, StoreSource(older, CLOCK), time=CLOCK).run()


@pytest.mark.parametrize("key", [None, b"k" * 32])
async def test_a_standby_follows_a_continuous_backup(tmp_path: Path, key: bytes | None) -> None:
    rng = random.Random(6)
    place = Folder(tmp_path, key=key, part_bytes=500)
    async with opened("memory://") as primary, opened("memory://") as target:
        async with following(primary, place) as shipped:
            history = await write(primary, rng, 20)
            await shipped.reaches(max(history))
            running = asyncio.create_task(Standby(target, PlaceSource(place, CLOCK), time=CLOCK).run())
            try:
                await reaches(target, max(history))
                for _ in range(3):
                    history = await write(primary, rng, 20)
                    await reaches(target, max(history))
                    assert await content(target) == history[max(history)]
            finally:
                running.cancel()
                await asyncio.wait([running])
            history = await write(primary, rng, 20)
            await shipped.reaches(max(history))
        done = await standby.promote(target, time=CLOCK, primary=None, source=PlaceSource(place, CLOCK))
        assert done.position == max(history)
        assert await content(target) == history[max(history)]


@pytest.fixture(params=BACKENDS)
def database(request: pytest.FixtureRequest) -> FreshDatabase:
    return fresh_database(request.param, request)


@pytest.mark.slow
async def test_every_backend_can_be_a_standby_and_be_promoted(database: FreshDatabase) -> None:
    rng = random.Random(7)
    async with opened("memory://") as primary, opened(database.url) as target:
        history = await write(primary, rng, 20)
        async with standing_by(target, primary):
            await primary.commit(Transaction(tuple(Put(f"/big/{number:03}", b"1") for number in range(128))))
            history = await write(primary, rng, 50)
            await reaches(target, max(history))
            done = await standby.promote(target, time=CLOCK, primary=primary, source=StoreSource(primary, CLOCK))
        assert done.epoch == 1
        assert await content(target) == history[max(history)]
        fenced = await FencedStore.of(target)
        assert isinstance(await fenced.create("/new", b"1"), Committed)
        await standby.seal(target, roles.Recorded(Role(role=roles.STANDBY, epoch=1), 0))
        with pytest.raises(Superseded):
            await fenced.create("/late", b"1")
