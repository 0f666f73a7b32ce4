"""Standbys for the command line: following a primary, promotion, and the roles of stores."""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec

from rota import backups
from rota.api import times
from rota.kit import diagnostics, logs, system, tasks
from rota.kit.metrics import Metrics
from rota.store import errors, roles, standby
from rota.store.compaction import Compactor
from rota.store.standby import Standby, StandbyMetrics
from rota.store.standby_sources import PlaceSource, Source, StoreSource
from rota.store.store_interface import Store

log = logs.get(__name__)


def is_store(source: str) -> bool:
    """Whether a user named a store, and not a continuous backup."""
    return "://" in source and not backups.is_place(source)


async def follow(
    source: str,
    url: str,
    *,
    on_position: Callable[[int], None],
    key_file: Path | None = None,
    http: diagnostics.Address | None = None,
) -> None:
    """Keep the store at `url` equal to a primary until a signal, or until it is promoted."""
    time, metrics = system.SystemClock(), Metrics("standby", process=True)
    async with contextlib.AsyncExitStack() as parts:
        primary, _ = await parts.enter_async_context(_source(source, key_file))
        target = await parts.enter_async_context(backups.opened(url))
        supervisor = await parts.enter_async_context(tasks.Supervisor("standby", clock=time, rng=system.rng()))
        # No master works on a standby, so nothing else removes its history.
        supervisor.start("compactor", Compactor(target, time=time).run)
        following = Standby(target, primary, time=time, on_position=on_position, metrics=StandbyMetrics(metrics))
        await backups.run_served(following.run(), metrics, http)


async def promote(
    url: str, source: str | None, *, without_primary: bool, key_file: Path | None = None
) -> dict[str, Any]:
    """Make the standby at `url` the primary.

    With a `source`, its last changes are applied first, and a store is fenced off. Without `without_primary` the source
    must be a store.
    """
    async with contextlib.AsyncExitStack() as parts:
        target = await parts.enter_async_context(backups.opened(url, create=False))
        found: tuple[Source, Store | None] | None = None
        if source is not None:
            found = await parts.enter_async_context(_source(source, key_file))
        primary = found[1] if found is not None and not without_primary else None
        if primary is None and not without_primary:
            raise errors.StoreError(
                "nothing would keep the masters of the old primary from writing to it",
                "name its store with --from, or end those masters and give --without-primary",
            )
        done = await standby.promote(
            target, time=system.SystemClock(), primary=primary, source=None if found is None else found[0]
        )
    return {"epoch": done.epoch, "position": done.position, "time": times.format_micro_time(done.at)}


async def fence(url: str, *, epoch: int) -> None:
    """Mark the store at `url`, a primary that was unreachable at a promotion, as superseded by that epoch."""
    async with backups.opened(url, create=False) as store:
        before = await roles.read(store)
        if before.role.role == roles.SUPERSEDED:
            return
        if before.role.role != roles.PRIMARY or before.role.epoch >= epoch:
            raise errors.StoreError(
                f"that store is a {before.role.role} of epoch {before.role.epoch}",
                "name the old primary, and the epoch that `rota standby promote` printed",
            )
        superseded = msgspec.structs.replace(before.role, role=roles.SUPERSEDED, epoch=epoch)
        if await roles.write(store, superseded, before) is None:
            raise errors.StoreError("the role of that store has just been changed", "look with: rota standby status")


async def status(url: str) -> dict[str, Any]:
    """The role of the store at `url`."""
    async with backups.opened(url, create=False) as store:
        role = (await roles.read(store)).role
    shown: dict[str, Any] = {"role": role.role, "epoch": role.epoch}
    if role.role == roles.STANDBY:
        shown |= {"position": role.position, "time": times.format_micro_time(role.at), "syncing": role.syncing}
    return shown


@contextlib.asynccontextmanager
async def _source(source: str, key_file: Path | None) -> AsyncIterator[tuple[Source, Store | None]]:
    """What a user named, and the store if it is one."""
    time = system.SystemClock()
    if not is_store(source):
        with backups.place_of(source, key_file) as place:
            yield PlaceSource(place, time), None
        return
    if key_file is not None:
        raise errors.StoreError("a store has no key file", "leave --key out, or name a continuous backup")
    async with backups.opened(source, create=False) as store:
        yield StoreSource(store, time), store
