"""The follower: writes a store's log to a folder as it grows, with base backups on a schedule.

A change is *confirmed* when its segment is synced; a kill at any time loses nothing that was confirmed. When the
follower cannot write (a full disk, for example) it holds the history that it has not shipped, and tries again. When
history was compacted nevertheless, it begins a new base backup: the moments in between cannot be restored, and the log
says so.
"""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from rota.kit import clock, logs
from rota.store import archive, errors, holds
from rota.store.shipping import catalog
from rota.store.shipping.segments import SegmentWriter, sync_folder
from rota.store.store_interface import Batch, Store

log = logs.get(__name__)

_LOCK: Final = ".follower.lock"
_NEW_BASE: Final = ".base.new"
_RETRY_S: Final = 2.0
_BASE_RETRY_S: Final = 60.0
_PROBE: Final = ".probe"
#: A usual batch fits into this much.
_PROBE_BYTES: Final = 64 * 1024


class Settings(Struct, frozen=True, kw_only=True):
    """When to begin new files, and how long to keep them."""

    base_every_s: float = 24 * 3600.0
    #: None keeps everything.
    keep_s: float | None = None
    segment_bytes: int = 64 * 1024 * 1024


class Confirmed(Struct, frozen=True):
    """What the folder now holds for certain."""

    revision: int
    at: float


def _ignore(confirmed: Confirmed) -> None:
    """A callback that does nothing."""


class Follower:
    """Ships one store to one folder. `run` it until it is cancelled."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        *,
        time: clock.Clock,
        settings: Settings | None = None,
        on_confirmed: Callable[[Confirmed], None] = _ignore,
    ) -> None:
        self._store: Final = store
        self._folder: Final = folder
        self._time: Final = time
        self._settings: Final = settings or Settings()
        self._on_confirmed: Final = on_confirmed
        self._shipped = 0
        #: When the newest base backup was taken; minus infinity if there is none.
        self._base_at = float("-inf")
        self._base_retry_at = float("-inf")

    async def run(self) -> None:
        """Follow the store. Raises StoreError if the folder or the store cannot be used at the start."""
        with _locked(self._folder):
            await self._resume()
            if not self._shipped:
                self._shipped = await self._take_base()
                self._on_confirmed(Confirmed(self._shipped, self._base_at))
            while True:
                try:
                    await self._follow()
                    return  # the store was closed
                except (errors.Expired, errors.SlowWatcher) as problem:
                    await self._begin_again(problem)
                except (errors.Unavailable, OSError) as problem:
                    await self._wait_out(problem)

    async def _resume(self) -> None:
        found = await asyncio.to_thread(catalog.read, self._folder)
        self._shipped = found.shipped
        if found.bases:
            self._base_at = found.bases[-1].taken_at
        newest = (await self._store.revision_range()).revision
        if self._shipped > newest:
            raise errors.StoreError(
                f"{self._folder} holds the log up to revision {self._shipped}, and the store is only at {newest}",
                "the folder belongs to another store: name an empty folder",
            )

    async def _follow(self) -> None:
        writer: SegmentWriter | None = None
        base: asyncio.Task[None] | None = None
        try:
            async with self._store.watch("", after=self._shipped) as watch:
                async for batch in watch:
                    if batch.revision > self._shipped:
                        if writer is None:
                            writer = await asyncio.to_thread(self._begin_segment)
                        await self._ship(writer, batch)
                        if writer.size >= self._settings.segment_bytes:
                            await asyncio.to_thread(writer.complete)
                            writer = None
                    if (base is None or base.done()) and self._is_base_due():
                        base = asyncio.create_task(self._take_scheduled_base())
        finally:
            if base is not None:
                base.cancel()
                await asyncio.wait([base])
            if writer is not None:
                with contextlib.suppress(OSError):
                    writer.complete()

    def _begin_segment(self) -> SegmentWriter:
        return SegmentWriter.create(catalog.segment_path(self._folder, self._shipped), after=self._shipped)

    async def _ship(self, writer: SegmentWriter, batch: Batch) -> None:
        at = self._time.now()
        await asyncio.to_thread(writer.append, batch, at)
        self._shipped = batch.revision
        self._on_confirmed(Confirmed(batch.revision, at))

    async def _begin_again(self, problem: errors.StoreError) -> None:
        """Continue from the last confirmed revision if history still has it; else from a new base backup."""
        floor = (await self._store.revision_range()).floor
        if floor <= self._shipped:
            return
        log.warning("history was compacted before it was shipped", shipped=self._shipped, floor=floor, why=str(problem))
        self._shipped = await self._take_base()
        self._on_confirmed(Confirmed(self._shipped, self._base_at))

    async def _wait_out(self, problem: Exception) -> None:
        """Wait until the store answers and the folder can be written, with a hold on what is not shipped yet."""
        log.warning("cannot ship the log, trying again", shipped=self._shipped, problem=str(problem))
        hold = holds.Hold(self._store, self._shipped, self._time)
        try:
            while True:
                await self._time.sleep(_RETRY_S)
                await hold.keep()
                with contextlib.suppress(errors.Unavailable, OSError):
                    await self._store.revision_range()
                    await asyncio.to_thread(_probe, self._folder)
                    log.info("shipping the log again", shipped=self._shipped)
                    return
        finally:
            await hold.release()

    # Base backups

    def _is_base_due(self) -> bool:
        now = self._time.now()
        return now - self._base_at >= self._settings.base_every_s and now >= self._base_retry_at

    async def _take_scheduled_base(self) -> None:
        try:
            await self._take_base()
        except errors.StoreError as problem:
            # The log goes on, and with it every moment can still be restored from the older base backup.
            self._base_retry_at = self._time.now() + _BASE_RETRY_S
            log.warning("cannot write a base backup, trying again later", problem=str(problem))

    async def _take_base(self) -> int:
        """Write a base backup under its own name, and remove what is no longer needed; returns its revision."""
        at = self._time.now()
        unready = self._folder / _NEW_BASE
        summary = await archive.backup(self._store, unready, time=self._time)
        await asyncio.to_thread(unready.replace, catalog.base_path(self._folder, summary.revision))
        await asyncio.to_thread(sync_folder, self._folder)
        self._base_at = at
        log.info("wrote a base backup", revision=summary.revision, entries=summary.entries)
        await asyncio.to_thread(self._remove_obsolete)
        return summary.revision

    def _remove_obsolete(self) -> None:
        if self._settings.keep_s is None:
            return
        found = catalog.read(self._folder)
        for path in catalog.obsolete(found.bases, found.segments, before=self._time.now() - self._settings.keep_s):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create the folder, readable by its owner only, and keep other followers out of it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as problem:
        raise errors.StoreError(f"cannot use {folder}: {problem.strerror}", "check the path and its mode") from problem
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as problem:
            raise errors.StoreError(
                f"another `rota backup --follow` writes to {folder}", "end it first, or name another folder"
            ) from problem
        yield
    finally:
        os.close(lock)


def _probe(folder: Path) -> None:
    """Raise OSError if nothing can be written."""
    path = folder / _PROBE
    try:
        with path.open("wb") as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    finally:
        path.unlink(missing_ok=True)
