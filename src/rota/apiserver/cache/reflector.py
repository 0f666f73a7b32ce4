"""Keeping something in memory in step with the store: list, watch, and list again when history is lost.

What is kept is the business of a `Sink`; that it sees every change once and in order, and how far it has come, is
settled here. A follower lags behind the store, by little: `revision` says where it is, `reach` waits for it.
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

#: What a sink raises of a value that is no object.
_DAMAGE: Final = (Damaged, msgspec.MsgspecError)
#: How many entries are read at once: many, because the store counts what remains after each page.
_PAGE: Final = 5000
#: How many of them are taken in at once, so that others get their turn in between.
_PORTION: Final = 500
#: How long `reach` waits.
_PATIENCE_S: Final = 2.0
#: How long it waits for a list that is under way: whoever listed everything instead would not be done before.
_LIST_PATIENCE_S: Final = 20.0
#: A watch that has nothing to tell moves on without a sound, so it is looked at.
_LOOK_EVERY_S: Final = 0.01


class Sink(Protocol):
    """What is kept. Its methods run on the event loop, one at a time, and must not raise."""

    def begin(self) -> None:
        """A list begins, for the first time or anew; until `begun`, readers see what they saw before."""
        ...

    def add(self, entry: Entry, /) -> None:
        """One entry of the list."""
        ...

    def begun(self, revision: int, /) -> None:
        """The list is complete: what was added is all there was at a revision."""
        ...

    def take(self, batch: Batch, /) -> None:
        """What changed since."""
        ...

    def lost(self) -> None:
        """Nobody follows any more."""
        ...


class StoreReflector:
    """Feeds a sink with everything under a prefix. It knows nothing until `run` does."""

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
        """Follow until cancelled or the store is closed."""
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
        """Whether what is in the sink is up to date but for moments."""
        return self._watch is not None

    @property
    def revision(self) -> int:
        """Everything up to this revision is in the sink; -1 while nobody follows."""
        return max(self._taken, self._watch.revision) if self._watch is not None else self._taken

    async def ready(self) -> None:
        """Until the first list is in."""
        await self._listed.wait()

    async def reach(self, revision: int) -> bool:
        """Wait until everything up to a revision is in; False if that does not come to pass soon."""
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
            log.error("a damaged object is not followed", key=entry.key, problem=str(problem))

    def _take(self, batch: Batch) -> None:
        try:
            self._sink.take(batch)
        except _DAMAGE:
            for event in batch.events:  # again, one by one: taking a change twice changes nothing
                try:
                    self._sink.take(Batch((event,), batch.revision))
                except _DAMAGE as problem:
                    log.error("a change of a damaged object is not followed", key=event.key, problem=str(problem))


async def listed(store: Store, prefix: str) -> AsyncIterator[tuple[Entry | None, int]]:
    """All entries as of one revision, each with that revision; a single None if there are none."""
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
