"""The reflector: lists and watches a prefix of the store, and lists again when history is lost.

A `Sink` keeps the data. The reflector passes every change to it once and in order, and tracks its revision. It lags
slightly behind the store: `revision` says where it is, `reach` waits for a revision.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec

from rota.apiserver.interfaces import Damaged
from rota.kit import logs
from rota.kit.clock import Clock
from rota.store import errors
from rota.store.store_interface import Batch, Entry, Store, Watch

log = logs.get(__name__)

#: Exceptions of a sink for a value that is not an object.
_DAMAGE: Final = (Damaged, msgspec.MsgspecError)
#: Entries per page: many, because the store counts what remains after each page.
_PAGE: Final = 5000
#: How many of them are processed at once, so that the event loop can run other tasks in between.
_PORTION: Final = 500
#: How long `reach` waits.
_PATIENCE_S: Final = 2.0
#: How long it waits for a list that is under way: reading everything from the store would take as long.
_LIST_PATIENCE_S: Final = 20.0
#: A watch without changes advances silently, so its revision is polled.
_LOOK_EVERY_S: Final = 0.01


class Sink(Protocol):
    """Keeps the data. Its methods run on the event loop, one at a time, and must not raise."""

    def begin(self) -> None:
        """A list begins, the first one or another; until `begun`, readers see the previous state."""
        ...

    def add(self, entry: Entry, /) -> None:
        """One entry of the list."""
        ...

    def begun(self, revision: int, /) -> None:
        """The list is complete: what was added is the state at a revision."""
        ...

    def take(self, batch: Batch, /) -> None:
        """Changes since then."""
        ...

    def lost(self) -> None:
        """The watch ended."""
        ...


class StoreReflector:
    """Feeds a sink with everything under a prefix, while `run` runs."""

    def __init__(self, store: Store, prefix: str, sink: Sink, *, clock: Clock) -> None:
        self._store: Final = store
        self._prefix: Final = prefix
        self._sink: Final = sink
        self._clock: Final = clock
        self._taken = -1
        self._watch: Watch | None = None
        self._listing = False
        self._moved: Final = asyncio.Event()
        self._listed: Final = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled or the store is closed."""
        try:
            while True:
                try:
                    await self._follow()
                except (errors.Expired, errors.SlowWatcher):
                    continue
                return
        finally:
            self._taken, self._watch, self._listing = -1, None, False
            self._sink.lost()

    @property
    def following(self) -> bool:
        """Whether the sink is up to date except for a short lag."""
        return self._watch is not None

    @property
    def revision(self) -> int:
        """Everything up to this revision is in the sink; -1 without a watch."""
        return max(self._taken, self._watch.revision) if self._watch is not None else self._taken

    async def ready(self) -> None:
        """Wait for the first list."""
        await self._listed.wait()

    async def reach(self, revision: int) -> bool:
        """Wait until everything up to a revision is in the sink; False on timeout."""
        began, listing = self._clock.monotonic(), self._listing
        while self.revision < revision:
            if listing and not self._listing:
                began, listing = self._clock.monotonic(), False
            patience_s = _LIST_PATIENCE_S if listing else 0.0 if self._watch is None else _PATIENCE_S
            if self._clock.monotonic() >= began + patience_s:
                return False
            self._moved.clear()
            with contextlib.suppress(TimeoutError):
                await self._clock.wait_for(self._moved.wait(), _LOOK_EVERY_S)
        return True

    async def _follow(self) -> None:
        self._sink.begin()
        self._listing = True
        revision = 0
        async for entry, as_of in listed(self._store, self._prefix):
            revision = as_of
            if entry is not None:
                self._add(entry)
        async with self._store.watch(self._prefix, after=revision) as watch:
            self._sink.begun(revision)
            self._taken, self._watch, self._listing = revision, watch, False
            self._listed.set()
            async for batch in watch:
                self._take(batch)
                self._taken = batch.revision
                self._moved.set()

    def _add(self, entry: Entry) -> None:
        try:
            self._sink.add(entry)
        except _DAMAGE as problem:
            log.error("a damaged object is left out of the cache", key=entry.key, problem=str(problem))

    def _take(self, batch: Batch) -> None:
        try:
            self._sink.take(batch)
        except _DAMAGE:
            for event in batch.events:  # again, one by one: applying a change twice has no effect
                try:
                    self._sink.take(Batch((event,), batch.revision))
                except _DAMAGE as problem:
                    log.error(
                        "a change of a damaged object is left out of the cache", key=event.key, problem=str(problem)
                    )


async def listed(store: Store, prefix: str) -> AsyncIterator[tuple[Entry | None, int]]:
    """All entries at one revision, each with that revision; a single None if there are none."""
    page = await store.list(prefix, limit=_PAGE)
    if not page.entries:
        yield None, page.revision
    while page.entries:
        for number, entry in enumerate(page.entries, 1):
            yield entry, page.revision
            if number % _PORTION == 0:
                await asyncio.sleep(0)
        if not page.remaining:
            return
        page = await store.list(prefix, limit=_PAGE, after=page.entries[-1].key, revision=page.revision)
