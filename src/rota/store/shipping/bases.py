"""Complete backups in a place: taking one, and taking them on a schedule without the log in between."""

import asyncio
from typing import Final

from msgspec import Struct

from rota.kit import clock, logs
from rota.store import archive, errors
from rota.store.shipping import catalog, places
from rota.store.shipping.metrics import ShippingMetrics
from rota.store.shipping.places import ClaimLost, Place
from rota.store.store_interface import Store

log = logs.get(__name__)

_RETRY_S: Final = 60.0


async def take(store: Store, place: Place, *, time: clock.Clock, metrics: ShippingMetrics) -> archive.Summary:
    """Write a complete backup to the place under its own name."""
    at = time.now()
    draft = place.draft()
    summary = await archive.backup(store, draft, time=time, key=place.key)
    await places.to_its_end(place.keep_base, draft)
    metrics.base_at.set(at)
    log.info("wrote a base backup", revision=summary.revision, entries=summary.entries)
    return summary


def remove_obsolete(place: Place, *, before: float) -> None:
    """Delete the files that no moment since `before` needs."""
    found = place.catalog()
    for path in catalog.obsolete(found.bases, found.segments, before=before):
        place.remove(path)


class Schedule(Struct, frozen=True, kw_only=True):
    """How often to take backups, and which to keep: None keeps everything."""

    every_s: float
    keep_count: int | None = None
    keep_s: float | None = None


class ScheduledBackups:
    """Takes complete backups of one store. `run` it until it is cancelled."""

    def __init__(
        self, store: Store, place: Place, schedule: Schedule, *, time: clock.Clock, metrics: ShippingMetrics
    ) -> None:
        self._store: Final = store
        self._place: Final = place
        self._schedule: Final = schedule
        self._time: Final = time
        self._metrics: Final = metrics
        metrics.base_every_s.set(schedule.every_s)

    async def run(self) -> None:
        """Take a backup whenever the newest one is old enough, also across restarts.

        Raises the error of the first backup; later ones are tried again.
        """
        taken = 0
        async with places.claimed(self._place, self._store):
            found = await asyncio.to_thread(self._place.catalog)
            last = found.bases[-1].taken_at if found.bases else float("-inf")
            self._metrics.base_at.set(max(last, 0.0))
            while True:
                # A clock that was set back must not stop backups for longer than the interval.
                wait_s = min(last + self._schedule.every_s - self._time.now(), self._schedule.every_s)
                if wait_s > 0:
                    await self._time.sleep(wait_s)
                at = self._time.now()
                try:
                    summary = await take(self._store, self._place, time=self._time, metrics=self._metrics)
                    last, taken = at, taken + 1
                    self._metrics.shipped.set(summary.revision)
                    await asyncio.to_thread(self._remove_old)
                except ClaimLost:
                    raise
                except (errors.StoreError, OSError) as problem:
                    if not taken:
                        raise
                    self._metrics.errors.labels("base").inc()
                    log.warning("cannot write a backup, trying again", problem=str(problem))
                    await self._time.sleep(min(_RETRY_S, self._schedule.every_s))

    def _remove_old(self) -> None:
        if self._schedule.keep_s is not None:
            remove_obsolete(self._place, before=self._time.now() - self._schedule.keep_s)
        bases = self._place.catalog().bases
        if self._schedule.keep_count is not None and len(bases) > self._schedule.keep_count:
            remove_obsolete(self._place, before=bases[-self._schedule.keep_count].taken_at)
