"""The level of a cluster in its store: which masters it stops, and that copies of the store have it."""

import asyncio
import random
from pathlib import Path

import msgspec
import pytest
from tests.store.standby.test_standby import CLOCK, newest, reaches, standing_by

from rota import backups
from rota.kit import levels
from rota.kit.levels import Levels
from rota.store import errors, roles, standby
from rota.store.roles import FencedStore, OtherLevel, Role
from rota.store.standby_sources import StoreSource
from rota.store.store_interface import Committed, Put, Refused, Store, Transaction
from rota.testing.store_contract import opened


class RoleOfTheFirstRelease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What releases of level 1 decode."""

    role: str = "primary"
    epoch: int = 0
    position: int = 0

    def __post_init__(self) -> None:
        if self.role not in {"primary", "standby", "superseded"}:
            raise ValueError(self.role)


async def raised(store: Store, level: int) -> None:
    assert await roles.raise_level(store, level, await roles.read(store))


async def test_an_empty_store_begins_at_the_newest_level_and_another_keeps_its_level() -> None:
    async with opened("memory://") as new, opened("memory://") as old:
        await roles.begin(new)
        begun = (await roles.read(new)).role
        assert begun == Role(level=levels.OWN.newest, identity=begun.identity)
        assert begun.identity
        await roles.begin(new)
        assert (await roles.read(new)).role == begun
        assert (await FencedStore.of(new)).level == levels.OWN.newest
        await old.create("/k", b"1")
        await roles.begin(old)
        assert (await FencedStore.of(old)).level == levels.FIRST


async def test_two_masters_that_begin_at_the_same_time_agree() -> None:
    async with opened("memory://") as store:
        await asyncio.gather(*(roles.begin(store) for _ in range(5)))
        assert (await roles.read(store)).role.level == levels.OWN.newest


async def test_a_running_master_goes_on_when_the_level_is_raised() -> None:
    async with opened("memory://") as store:
        await store.create("/k", b"1")
        master = await FencedStore.of(store)

        async def write(number: int) -> None:
            for turn in range(20):
                outcome = await master.commit(Transaction((Put(f"/k/{number}", b"%d" % turn),)))
                assert isinstance(outcome, Committed)

        writing = asyncio.gather(*(write(number) for number in range(10)))
        await asyncio.sleep(0)
        await raised(store, 2)
        await writing
        await master.create("/last", b"1")
        assert master.level == 2
        # A precondition of the caller is still reported as before.
        assert isinstance(await master.create("/last", b"2"), Refused)


async def test_a_running_master_that_does_not_know_the_new_level_writes_nothing_more() -> None:
    async with opened("memory://") as store:
        await roles.begin(store)
        master = await FencedStore.of(store)
        await raised(store, levels.OWN.newest + 1)
        with pytest.raises(OtherLevel, match=r"knows levels up to \d+; use a release of level"):
            await master.create("/late", b"1")
        with pytest.raises(OtherLevel):
            await master.check()
        assert await store.get("/late") is None
        with pytest.raises(OtherLevel):
            await FencedStore.of(store)


async def test_a_record_of_another_epoch_stops_a_master() -> None:
    async with opened("memory://") as store:
        master = await FencedStore.of(store)
        assert await roles.write(store, Role(epoch=7), await roles.read(store)) is not None
        with pytest.raises(roles.Superseded, match="was changed"):
            await master.create("/late", b"1")


async def test_a_master_whose_release_needs_a_newer_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened("memory://") as store:
        await store.create("/k", b"1")
        monkeypatch.setattr(levels.master_fault, "__defaults__", (Levels(2, 3),))
        with pytest.raises(OtherLevel, match="upgrade to a release of level 2 first"):
            await FencedStore.of(store)


@pytest.mark.parametrize("role", ["primary", "standby", "superseded"])
def test_releases_without_levels_read_the_record_of_level_1_and_refuse_others(role: str) -> None:
    first = msgspec.convert({"role": role, "epoch": 3, "rest": [["/a", "MQ=="]]}, Role)
    assert msgspec.json.decode(roles.encode(first), type=RoleOfTheFirstRelease).role == role
    second = msgspec.structs.replace(first, level=2)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(roles.encode(second), type=RoleOfTheFirstRelease)
    assert roles.decode(roles.encode(first)) == first
    assert roles.decode(roles.encode(second)) == second


@pytest.mark.parametrize("value", [b"", b"[]", b'{"role": 7}', b'{"role": "king"}', b'{"role": "primary/x"}'])
def test_a_damaged_record_is_reported(value: bytes) -> None:
    with pytest.raises(errors.Corrupt, match="damaged"):
        roles.decode(value)


async def test_a_standby_has_the_level_of_its_primary_also_after_its_promotion() -> None:
    async with opened("memory://") as primary, opened("memory://") as target:
        await primary.create("/k", b"1")
        async with standing_by(target, primary):
            await reaches(target, await newest(primary))
            assert (await roles.read(target)).role.level == 1
            await raised(primary, 2)
            await primary.create("/l", b"1")
            await reaches(target, await newest(primary))
            assert (await roles.read(target)).role.level == 2
        await standby.promote(target, time=CLOCK, primary=primary, source=StoreSource(primary, CLOCK))
        promoted, former = (await roles.read(target)).role, (await roles.read(primary)).role
        assert promoted == Role(epoch=1, level=2, identity=promoted.identity)
        assert former == Role(role="superseded", epoch=1, level=2, identity=former.identity)
        # Another store, with revisions of its own: its backups go to another place.
        assert len({"", promoted.identity, former.identity}) == 3
        async with opened("memory://") as third, standing_by(third, target):
            await reaches(third, await newest(target))
            assert (await roles.read(third)).role.level == 2


async def test_a_standby_that_missed_the_raising_has_the_level_when_it_is_equal_again() -> None:
    rng = random.Random(1)
    async with opened("memory://") as primary, opened("memory://") as target:
        await primary.create("/k", b"1")
        async with standing_by(target, primary):
            await reaches(target, await newest(primary))
        await raised(primary, 2)
        await primary.create("/l", rng.randbytes(3))
        await primary.compact(await newest(primary))
        async with standing_by(target, primary):
            await reaches(target, await newest(primary))
        assert (await roles.read(target)).role.level == 2


async def test_a_restored_backup_has_the_level_of_its_store(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/old.db") as old:
        await roles.begin(old)
        await old.create("/k", b"1")
        superseded = Role(role="superseded", epoch=1, level=2)
        assert await roles.write(old, superseded, await roles.read(old)) is not None
    await backups.backup(f"sqlite:///{tmp_path}/old.db", tmp_path / "a.backup", progress=lambda _: None)
    await backups.restore(tmp_path / "a.backup", f"sqlite:///{tmp_path}/new.db")
    async with opened(f"sqlite:///{tmp_path}/new.db") as new:
        assert (await roles.read(new)).role == Role(epoch=1, level=2)
