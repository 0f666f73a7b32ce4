"""Backups of a store for the command line: single files, and folders that are written continuously."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

from rota.api import times
from rota.kit import errors, system
from rota.store import archive, sealing, store_factory
from rota.store.shipping import catalog, recovery
from rota.store.shipping.follower import Confirmed, Follower, Settings
from rota.store.store_interface import Store

#: From the begin of a second to its last microsecond.
_REST_OF_SECOND_S: Final = 0.999999


async def backup(
    url: str, path: Path, *, progress: Callable[[int], None], key_file: Path | None = None
) -> dict[str, int]:
    """Write the store at `url` to a file; returns the number of entries, their revision and the file's size.

    With a key file, the backup is encrypted.
    """
    key = None if key_file is None else sealing.read_key(key_file)
    async with _opened(url, create=False) as store:
        return _as_dict(await archive.backup(store, path, time=system.SystemClock(), progress=progress, key=key))


async def restore(path: Path, url: str, *, key_file: Path | None = None) -> dict[str, int]:
    """Fill the store at `url` from a file; returns the number of entries, the store's new revision and the file's
    size."""
    key = None if key_file is None else sealing.read_key(key_file)
    # Checked before the store is opened, since opening may write to it.
    await asyncio.to_thread(archive.verify, path, key=key)
    async with _opened(url) as store:
        return _as_dict(await archive.restore(store, path, key=key))


async def follow(
    url: str,
    folder: Path,
    *,
    base_every_s: float,
    keep_s: float | None,
    on_confirmed: Callable[[int, float], None],
) -> None:
    """Ship the log of the store at `url` to a folder until a signal ends it.

    `on_confirmed` gets each revision, and when it was taken, as soon as the folder holds it durably.
    """

    def report(confirmed: Confirmed) -> None:
        on_confirmed(confirmed.revision, confirmed.at)

    settings = Settings(base_every_s=base_every_s, keep_s=keep_s)
    async with _opened(url, create=False) as store:
        follower = Follower(store, folder, time=system.SystemClock(), settings=settings, on_confirmed=report)
        running = asyncio.create_task(follower.run())
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def restore_moment(folder: Path, url: str, *, revision: int | None, at: float | None) -> dict[str, Any]:
    """Fill the store at `url` with the state at a moment of a continuous backup."""
    found = await asyncio.to_thread(catalog.read, folder)
    wanted = await asyncio.to_thread(recovery.moment, found, revision=revision, at=at)
    # Checked before the store is opened, since opening may write to it.
    await asyncio.to_thread(archive.verify, wanted.base.path)
    entries = await asyncio.to_thread(recovery.state, found, wanted)
    async with _opened(url) as store:
        now = await store.load(entries, revision=found.shipped)
    return {"entries": len(entries), "restored_revision": wanted.revision, "revision": now.revision}


def windows(folder: Path) -> list[dict[str, Any]]:
    """The parts of history that a continuous backup can restore."""
    return [
        {
            "first_revision": window.first_revision,
            "last_revision": window.last_revision,
            "first_time": times.format_micro_time(window.first_at),
            "last_time": times.format_micro_time(window.last_at),
        }
        for window in catalog.read(folder).windows()
    ]


def moment_time(text: str) -> float:
    """Seconds since 1970 of a time that a user wrote.

    A time without a fraction, as `date` prints it, means the end of its second: what happened in it is included.
    """
    try:
        return times.parse(text) + (0.0 if "." in text else _REST_OF_SECOND_S)
    except times.TimeError as problem:
        raise errors.UserError(
            f"{text!r} is no time", "write it as 2026-05-01T12:30:00Z or with an offset"
        ) from problem


@contextlib.asynccontextmanager
async def _opened(url: str, *, create: bool = True) -> AsyncIterator[Store]:
    store = await store_factory.open_store(url, time=system.SystemClock(), rng=system.rng(), create=create)
    try:
        yield store
    finally:
        await store.close()


def _as_dict(summary: archive.Summary) -> dict[str, int]:
    return {"entries": summary.entries, "revision": summary.revision, "size_bytes": summary.size_bytes}
