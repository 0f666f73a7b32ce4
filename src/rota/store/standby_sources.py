"""What a standby follows: its primary's store, or the continuous backup of it."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from rota.kit import clock
from rota.store import errors, holds, roles
from rota.store.shipping import recovery, segments
from rota.store.shipping.places import Place
from rota.store.store_interface import Entry, Store

_PAGE: Final = 500
_POLL_S: Final = 1.0


class Snapshot(Struct, frozen=True):
    """The whole state of a primary at one revision, in key order, without its own bookkeeping."""

    entries: list[Entry]
    revision: int
    at: float
    role: roles.Role


class Written(Struct, frozen=True, gc=False):
    """One change of one key in the primary."""

    revision: int
    key: str
    #: None if the key was deleted.
    value: bytes | None


class Step(Struct, frozen=True):
    """Changes in the order of revisions; everything up to `revision` is in this step or an earlier one.

    A step without changes, at the revision that was reached before, says that there is nothing newer.
    """

    changes: list[Written]
    revision: int
    at: float


class Source(Protocol):
    """A primary as its standby sees it. Raises `Unavailable` or OSError while it does not answer."""

    async def snapshot(self) -> Snapshot:
        """The newest state."""
        ...

    def steps(self, after: int) -> AsyncGenerator[Step]:
        """The changes after a revision, without end. Raises `Expired` if they are not all there any more."""
        ...


class StoreSource:
    """Follows a store directly."""

    def __init__(self, store: Store, time: clock.Clock) -> None:
        self._store: Final = store
        self._time: Final = time

    async def snapshot(self) -> Snapshot:
        """List the store at one revision, which it holds meanwhile."""
        page, at = await self._store.list("", limit=_PAGE), self._time.now()
        revision, entries = page.revision, list(page.entries)
        hold = holds.Hold(self._store, revision, self._time)
        try:
            while page.remaining:
                await hold.keep()
                page = await self._store.list("", limit=_PAGE, after=entries[-1].key, revision=revision)
                entries += page.entries
        finally:
            await hold.release()
        return _snapshot(entries, revision, at)

    async def steps(self, after: int) -> AsyncGenerator[Step]:
        """Watch the store."""
        async with self._store.watch("", after=after) as watch:
            if (await self._store.revision_range()).revision == after:
                yield Step([], after, self._time.now())
            async for batch in watch:
                changes = [Written(event.revision, event.key, event.value) for event in batch.events]
                yield Step(changes, batch.revision, self._time.now())


class PlaceSource:
    """Follows a continuous backup in a folder or a bucket."""

    def __init__(self, place: Place, time: clock.Clock) -> None:
        self._place: Final = place
        self._time: Final = time

    async def snapshot(self) -> Snapshot:
        """Compute the newest state that the backup holds."""
        return await asyncio.to_thread(self._read_newest)

    def _read_newest(self) -> Snapshot:
        found = self._place.catalog()
        wanted = recovery.moment(self._place, found)
        try:
            entries = recovery.state(self._place, found, wanted)
        finally:
            for path in (wanted.base.path, *(part.path for part in found.chain(wanted.base))):
                self._place.forget(path)
        return _snapshot(entries, wanted.revision, found.windows()[-1].last_at)

    async def steps(self, after: int) -> AsyncGenerator[Step]:
        """Read the parts of the log that appear."""
        while True:
            found = await asyncio.to_thread(self._read_after, after)
            for step in found:
                yield step
                after = step.revision
            if not found:
                yield Step([], after, self._time.now())
                await self._time.sleep(_POLL_S)

    def _read_after(self, after: int) -> list[Step]:
        """The next part of the log that has something new."""
        reached = after
        for begins, path in self._place.parts(after):
            if begins > reached:
                raise errors.Expired(after, begins)
            steps = self._read_part(path, after)
            self._place.forget(path)
            if steps:
                return steps
        return []

    def _read_part(self, path: Path, after: int) -> list[Step]:
        return [
            Step(
                [Written(change.revision, change.key, change.value) for change in record.changes],
                record.revision,
                record.taken_at,
            )
            for record in segments.read(self._place.local(path), key=self._place.key)
            if record.revision > after
        ]


def _snapshot(entries: list[Entry], revision: int, at: float) -> Snapshot:
    role = next((roles.decode(entry.value) for entry in entries if entry.key == roles.KEY), roles.Role())
    return Snapshot([entry for entry in entries if not is_bookkeeping(entry.key)], revision, at, role)


def is_bookkeeping(key: str) -> bool:
    """Whether a key is about its store and not about the cluster."""
    return key.startswith((roles.PREFIX, holds.PREFIX))
