"""One watch: first history since its starting revision, then changes from the broadcaster.

The switch happens in one step of the event loop, at a revision that the broadcaster's ring covers, so no change is
missed and none is delivered twice.
"""

import asyncio
from typing import Protocol, Self

from msgspec import Struct

from rota.store import errors
from rota.store.broadcaster import Channel, WatchBroadcaster
from rota.store.store_interface import Batch, Event, RevisionRange


class Tail(Struct, frozen=True):
    """A range of history."""

    events: list[Event]
    #: The range is complete up to this revision.
    revision: int


class History(Protocol):
    """Where a watch reads changes that the broadcaster no longer holds."""

    async def revision_range(self) -> RevisionRange:
        """How far back history reaches."""
        ...

    async def tail(self, after: int, limit: int) -> Tail:
        """About `limit` changes above revision `after`, whole revisions only; raises `Expired` below the floor."""
        ...


class BroadcastWatch:
    """A watch fed by a `WatchBroadcaster` and, for older changes, by a history. Implements `store_interface.Watch`."""

    #: How many changes one read of history asks for.
    STRETCH = 1000

    def __init__(self, broadcaster: WatchBroadcaster, history: History, prefix: str, after: int) -> None:
        self._broadcaster = broadcaster
        self._history = history
        self._prefix = prefix
        #: Everything up to this revision has been delivered or did not match.
        self._position = after
        #: None while catching up from history.
        self._channel: Channel | None = None
        self._cursor = 0
        self._epoch = broadcaster.epoch
        self._waiting: asyncio.Future[None] | None = None
        self._nudged = False

    @property
    def revision(self) -> int:
        """Everything up to this revision was delivered or did not match."""
        if self._channel and self._cursor == self._channel.end and self._epoch == self._broadcaster.epoch:
            return max(self._position, self._broadcaster.flushed)
        return self._position

    async def __aenter__(self) -> Self:
        revision_range = await self._history.revision_range()
        if self._position < revision_range.floor:
            raise errors.Expired(self._position, revision_range.floor)
        if self._position > revision_range.revision:
            raise errors.FutureRevision(self._position, revision_range.revision)
        self._epoch = self._broadcaster.epoch
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._channel:
            self._broadcaster.detach(self._prefix, self._channel)
            self._channel = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        while True:
            try:
                batch = self._take() if self._channel else await self._catch_up()
            except errors.Closed:
                raise StopAsyncIteration from None
            if batch is not None:
                return batch
            if self._nudged:
                self._nudged = False
                return Batch((), self.revision)
            if self._channel:
                await self._wait(self._channel)

    def nudge(self) -> None:
        """Make the reader return with an empty batch."""
        self._nudged = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _wait(self, channel: Channel) -> None:
        self._waiting = channel.join()
        try:
            await self._waiting
        finally:
            channel.leave(self._waiting)
            self._waiting = None

    async def _catch_up(self) -> Batch | None:
        """Attach to the broadcaster if its ring reaches back far enough, otherwise read the next range of history."""
        self._check()
        if self._position >= self._broadcaster.oldest:
            events = self._broadcaster.since(self._prefix, self._position)
            self._channel = self._broadcaster.attach(self._prefix)
            self._cursor = self._channel.end
            # The broadcaster may lag behind a revision that the reader already knows from a list.
            self._position = max(self._position, self._broadcaster.revision)
        else:
            tail = await self._history.tail(self._position, self.STRETCH)
            events = [event for event in tail.events if event.key.startswith(self._prefix)]
            self._position = max(self._position, tail.revision)
        return Batch(events, self._position) if events else None

    def _take(self) -> Batch | None:
        """New batches of the channel; None if there are none."""
        self._check()
        channel = self._channel
        assert channel is not None
        if self._cursor < channel.base:
            self._broadcaster.metrics.slow_watches.inc()
            raise errors.SlowWatcher(channel.dropped)
        batches = channel.read(self._cursor)
        self._cursor = channel.end
        if not batches:
            return None
        last = batches[-1].revision
        if len(batches) == 1 and batches[0].events[0].revision > self._position:
            batch = batches[0]
        else:
            events = [event for batch in batches for event in batch.events if event.revision > self._position]
            batch = Batch(events, last)
        self._position = max(self._position, last)
        return batch if batch.events else None

    def _check(self) -> None:
        if self._broadcaster.closed:
            raise StopAsyncIteration
        if self._epoch != self._broadcaster.epoch:
            raise errors.Expired(self._position, self._broadcaster.oldest)
