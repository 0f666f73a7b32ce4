"""The follower: writes a store's log to a folder or a bucket as it grows, with base backups on a schedule.

A change is *confirmed* when the place holds it durably; a kill at any time loses nothing that was confirmed. When the
follower cannot write (a full disk, for example) it holds the history that it has not shipped, and tries again. When
history was compacted nevertheless, it begins a new base backup: the moments in between cannot be restored, and the log
says so.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from rota.kit import clock, logs
from rota.store import errors, holds
from rota.store.shipping import bases, places
from rota.store.shipping.metrics import ShippingMetrics
from rota.store.shipping.places import LogWriter, Place, PlaceRefused
from rota.store.store_interface import Batch, Store

log = logs.get(__name__)

_RETRY_S: Final = 2.0
_BASE_RETRY_S: Final = 60.0


class Settings(Struct, frozen=True, kw_only=True):
    """When to begin new files, and how long to keep them."""

    base_every_s: float = 24 * 3600.0
    #: None keeps everything.
    keep_s: float | None = None


class Confirmed(Struct, frozen=True):
    """What the place now holds for certain."""

    revision: int
    at: float


def _ignore(confirmed: Confirmed) -> None:
    """A callback that does nothing."""


class Follower:
    """Ships one store to one place. `run` it until it is cancelled."""

    def __init__(
        self,
        store: Store,
        place: Place,
        *,
        time: clock.Clock,
        settings: Settings | None = None,
        on_confirmed: Callable[[Confirmed], None] = _ignore,
        metrics: ShippingMetrics | None = None,
    ) -> None:
        self._store: Final = store
        self._place: Final = place
        self._time: Final = time
        self._settings: Final = settings or Settings()
        self._on_confirmed: Final = on_confirmed
        self._metrics: Final = metrics or ShippingMetrics()
        self._metrics.base_every_s.set(self._settings.base_every_s)
        self._metrics.follow_lag(self._lag_s)
        #: Since when a change is known that is not confirmed; None if everything known is.
        self._behind_since: float | None = time.monotonic()
        #: The part of the log that is being written.
        self._writer: LogWriter | None = None
        self._shipped = 0
        #: When the newest base backup was taken; minus infinity if there is none.
        self._base_at = float("-inf")
        self._base_retry_at = float("-inf")

    async def run(self) -> None:
        """Follow the store. Raises StoreError if the place or the store cannot be used at the start."""
        async with places.claimed(self._place, self._store):
            await self._resume()
            if not self._shipped:
                self._confirm(await self._take_base(), self._base_at)
            while True:
                try:
                    await self._cross_gap()
                    await self._follow()
                    return  # the store was closed
                except (errors.Expired, errors.SlowWatcher) as problem:
                    log.info("the watch of the log ended, continuing", shipped=self._shipped, why=str(problem))
                except (errors.Unavailable, PlaceRefused, OSError) as problem:
                    await self._wait_out(problem)

    async def _resume(self) -> None:
        found = await asyncio.to_thread(self._place.catalog)
        self._shipped = found.shipped
        if found.bases:
            self._base_at = found.bases[-1].taken_at
            self._metrics.base_at.set(self._base_at)
        newest = (await self._store.revision_range()).revision
        if self._shipped > newest:
            raise errors.StoreError(
                f"{self._place.name} holds the log up to revision {self._shipped}, and the store is only at {newest}",
                "it belongs to another store: name an empty place",
            )
        self._metrics.shipped.set(self._shipped)
        self._compare(newest)

    def _confirm(self, revision: int, at: float) -> None:
        self._shipped = revision
        self._behind_since = None
        self._metrics.shipped.set(revision)
        self._on_confirmed(Confirmed(revision, at))

    def _compare(self, newest: int) -> None:
        """Nothing waits if the place holds the newest revision of the store."""
        if newest == self._shipped:
            self._behind_since = None

    def _lag_s(self) -> float:
        return 0.0 if self._behind_since is None else self._time.monotonic() - self._behind_since

    def _fall_behind(self) -> None:
        if self._behind_since is None:
            self._behind_since = self._time.monotonic()

    async def _follow(self) -> None:
        base: asyncio.Task[None] | None = None
        try:
            async with self._store.watch("", after=self._shipped) as watch:
                async for batch in watch:
                    if batch.revision > self._shipped:
                        self._fall_behind()
                        at = self._time.now()
                        await places.to_its_end(self._append, batch, at)
                        self._confirm(batch.revision, at)
                        if self._writer is not None and self._writer.size >= self._place.part_bytes:
                            await places.to_its_end(self._complete)
                    if (base is None or base.done()) and self._is_base_due():
                        base = asyncio.create_task(self._take_scheduled_base())
                    if self._place.pause_s:
                        await self._time.sleep(self._place.pause_s)  # changes gather in the watch
        finally:
            if base is not None:
                base.cancel()
                await asyncio.wait([base])
            with contextlib.suppress(OSError):
                self._complete()

    def _append(self, batch: Batch, at: float) -> None:
        if self._writer is None:
            self._writer = self._place.begin(self._shipped)
        self._writer.append(batch, at)

    def _complete(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.complete()

    async def _cross_gap(self) -> None:
        """Begin with a new base backup if history after the last confirmed revision is gone."""
        floor = (await self._store.revision_range()).floor
        if floor <= self._shipped:
            return
        log.warning("history was compacted before it was shipped", shipped=self._shipped, floor=floor)
        self._metrics.gaps.inc()
        self._confirm(await self._take_base(), self._base_at)

    async def _wait_out(self, problem: Exception) -> None:
        """Wait until the store answers and the place can be written, with a hold on what is not shipped yet."""
        self._fall_behind()
        self._metrics.errors.labels("log").inc()
        log.warning("cannot ship the log, trying again", shipped=self._shipped, problem=str(problem))
        hold = holds.Hold(self._store, self._shipped, self._time)
        try:
            while True:
                await self._time.sleep(_RETRY_S)
                await hold.keep()
                with contextlib.suppress(errors.Unavailable, PlaceRefused, OSError):
                    newest = (await self._store.revision_range()).revision
                    await asyncio.to_thread(self._place.probe)
                    self._compare(newest)
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
        except (errors.StoreError, OSError) as problem:
            self._metrics.errors.labels("base").inc()
            # The log goes on, and with it every moment can still be restored from the older base backup.
            self._base_retry_at = self._time.now() + _BASE_RETRY_S
            log.warning("cannot write a base backup, trying again later", problem=str(problem))

    async def _take_base(self) -> int:
        """Write a base backup under its own name, and remove what is no longer needed; returns its revision."""
        at = self._time.now()
        summary = await bases.take(self._store, self._place, time=self._time, metrics=self._metrics)
        self._base_at = at
        if self._settings.keep_s is not None:
            before = self._time.now() - self._settings.keep_s
            await asyncio.to_thread(bases.remove_obsolete, self._place, before=before)
        return summary.revision
