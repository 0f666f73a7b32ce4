"""Fan-out of committed changes to watchers in this process.

Changes enter once, in revision order (`publish`), and are kept for a while in one ring buffer. Watchers of the same
prefix share a *channel*, a queue of batches that each of them reads at its own cursor, so a change costs the same for
one watcher as for a thousand, plus a wake-up each. No watcher is waited for: one whose cursor falls off the end of the
ring gets `SlowWatcher`. Not thread-safe; runs on the event loop. Knows no database: `rota.store.store_watch` reads
older history.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct

from rota.store.metrics import StoreMetrics
from rota.store.store_interface import Batch, Event


class Limits(Struct, frozen=True, kw_only=True):
    """How much recent history is kept in memory for watchers that lag or resume."""

    events: int = 16_384
    value_bytes: int = 64 * 1024 * 1024
    #: Wake-ups are the main cost of fan-out, so with many watchers changes are batched for this long per watcher ...
    gather_s_per_watcher: float = 20e-6
    #: ... but never longer than this.
    gather_s_most: float = 0.02


class Channel:
    """Batches for the watchers of one prefix; each reader keeps its own cursor, an absolute batch number."""

    def __init__(self) -> None:
        self._batches: deque[Batch] = deque()
        #: The number of the oldest batch kept; a cursor below it has missed changes.
        self.base = 0
        #: How many changes were ever dropped at the old end.
        self.dropped = 0
        self.readers = 0
        #: Waiting readers, in order of arrival; a reader that stops waiting removes itself.
        self._waiting: dict[asyncio.Future[None], None] = {}

    @property
    def end(self) -> int:
        """The number that the next batch will get."""
        return self.base + len(self._batches)

    @property
    def waiting(self) -> int:
        """How many readers wait for the next `wake`."""
        return len(self._waiting)

    def push(self, batch: Batch) -> None:
        """Add a batch and wake every waiting reader."""
        self._batches.append(batch)
        self.wake()

    def wake(self) -> None:
        """Wake every waiting reader."""
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def trim(self, oldest: int) -> None:
        """Drop batches that end at or before revision `oldest`."""
        while self._batches and self._batches[0].revision <= oldest:
            self.dropped += len(self._batches.popleft().events)
            self.base += 1

    def read(self, cursor: int) -> list[Batch]:
        """The batches from number `cursor`, which must not be below `base`, to the end."""
        return [self._batches[number] for number in range(cursor - self.base, len(self._batches))]

    def join(self) -> asyncio.Future[None]:
        """Wait: the future is done at the next `wake`; `leave` must follow."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        return future

    def leave(self, future: asyncio.Future[None]) -> None:
        """Stop waiting."""
        self._waiting.pop(future, None)


class WatchBroadcaster:
    """The ring of recent changes and the channels fed from it."""

    def __init__(self, revision: int, limits: Limits | None = None, *, metrics: StoreMetrics | None = None) -> None:
        self._limits = limits or Limits()
        self.metrics = metrics or StoreMetrics()
        self.metrics.watches.set_function(lambda: self.watchers)
        #: When the oldest undelivered change came in, by the event loop's clock.
        self._pending_since = 0.0
        self._ring: deque[Event] = deque()
        self._ring_bytes = 0
        self._channels: dict[str, Channel] = {}
        self._pending: list[Event] = []
        self._flush_handle: asyncio.Handle | None = None
        #: Every change up to here has been published.
        self.revision = revision
        #: The ring holds every change above this revision.
        self.oldest = revision
        #: Every change up to here has been handed to the channels.
        self.flushed = revision
        #: Counts resets and the final close: a watch that began before the last one has lost its position.
        self.epoch = 0
        self.closed = False
        #: How many watches are attached.
        self.watchers = 0

    def publish(self, events: Sequence[Event], revision: int) -> None:
        """Accept every change up to `revision`; known ones are ignored."""
        if revision <= self.revision:
            return
        fresh = [event for event in events if event.revision > self.revision]
        self._pending += fresh
        self._ring.extend(fresh)
        self._ring_bytes += sum(map(_weight, fresh))
        self.revision = revision
        if self._flush_handle is None:
            loop = asyncio.get_running_loop()
            self._pending_since = loop.time()
            delay = min(self.watchers * self._limits.gather_s_per_watcher, self._limits.gather_s_most)
            self._flush_handle = loop.call_later(delay, self._flush) if delay > 0.001 else loop.call_soon(self._flush)

    def reset(self, revision: int) -> None:
        """Start again at `revision` after changes were lost; every watch must list again."""
        self._ring.clear()
        self._ring_bytes = 0
        self._pending.clear()
        self.revision = self.oldest = self.flushed = revision
        self.epoch += 1
        self._wake_all()

    def close(self) -> None:
        """End every watch."""
        self.closed = True
        if self._flush_handle:
            self._flush_handle.cancel()
        self._wake_all()

    def since(self, prefix: str, after: int) -> list[Event]:
        """Changes under `prefix` above revision `after`, which must not be below `oldest`."""
        return [event for event in self._ring if event.revision > after and event.key.startswith(prefix)]

    def attach(self, prefix: str) -> Channel:
        """The channel of `prefix`, with one more reader."""
        channel = self._channels.get(prefix)
        if channel is None:
            channel = self._channels[prefix] = Channel()
        channel.readers += 1
        self.watchers += 1
        return channel

    def detach(self, prefix: str, channel: Channel) -> None:
        """One reader less; a channel without readers is dropped."""
        channel.readers -= 1
        self.watchers -= 1
        if not channel.readers and self._channels.get(prefix) is channel:
            del self._channels[prefix]

    def _flush(self) -> None:
        """Sort pending changes into channels and wake their readers."""
        self._flush_handle = None
        self.metrics.delivery_s.observe(asyncio.get_running_loop().time() - self._pending_since)
        pending, self._pending = self._pending, []
        self.flushed = self.revision
        self._evict()
        sorted_in: dict[str, list[Event]] = {}
        for event in pending:
            for prefix in prefixes(event.key):
                if prefix in self._channels:
                    sorted_in.setdefault(prefix, []).append(event)
        for prefix, events in sorted_in.items():
            self._channels[prefix].push(Batch(events, self.flushed))

    def _evict(self) -> None:
        """Keep the ring within its limits, whole revisions at a time, and the channels within the ring."""
        oldest = self.oldest
        while self._ring and (
            len(self._ring) > self._limits.events
            or self._ring_bytes > self._limits.value_bytes
            or self._ring[0].revision == oldest
        ):
            event = self._ring.popleft()
            self._ring_bytes -= _weight(event)
            oldest = event.revision
        if oldest != self.oldest:
            self.oldest = oldest
            for channel in self._channels.values():
                channel.trim(oldest)

    def _wake_all(self) -> None:
        for channel in self._channels.values():
            channel.wake()


def prefixes(key: str) -> Iterator[str]:
    """Every prefix that a watch of `key` may have: the empty one, and one after each ``/``."""
    yield ""
    at = key.find("/")
    while at >= 0:
        yield key[: at + 1]
        at = key.find("/", at + 1)


def _weight(event: Event) -> int:
    return len(event.value or b"") + len(event.previous or b"")
