"""The one etcd watch of a store: feeds every change under its prefix, in order, to the broadcaster.

The revision up to which the broadcaster is complete (`WatchBroadcaster.revision`) follows from three signals only. Two
of them etcd sends through the same queue as the changes, so that neither can overtake a change:

* the last change of a response: etcd never splits a revision between responses unless asked to;
* a response without changes, which etcd sends from time to time to a watch that is up to date (`progress_notify`).

The third one is a transaction of this process: etcd counts without gaps, so if its revision is the next one, nothing
else happened there. The changes of a single process reach its watches in this way, and etcd's watch is read lazily.

The revision in the header of other responses is the member's, not that of what it has sent. Progress is not requested
either (`WatchProgressRequest`): before etcd 3.4.25 and 3.5.8 the response may overtake changes (etcd-io/etcd#15220). If
no key of the store changes while other clients use the same etcd, the broadcaster's revision falls behind etcd's
without having missed anything; then the store writes its meta key `mark`, and so catches up.
"""

import asyncio

from rota.kit import backoff, clock, logs
from rota.store import errors
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd import faults, methods, store_status
from rota.store.backends.etcd.connection import Connection
from rota.store.backends.etcd.keyspace import Keyspace
from rota.store.backends.etcd.store_status import StoreStatus
from rota.store.broadcaster import WatchBroadcaster
from rota.store.logstore import Settings
from rota.store.store_interface import Event

log = logs.get(__name__)

#: How many own changes wait for earlier ones; further ones arrive by etcd's watch alone.
_MOST_OWN = 1000
#: After a response without news, and with no reader waiting, the next one is read this much later.
_LEISURE_S = 0.005
#: A watch that is this many revisions behind is restarted at the broadcaster's revision: etcd then sends many changes
#: at once ...
_BACKLOG = 200
#: ... but not more often than this.
_ANEW_S = 0.25


class WatchFeed:
    """Feeds a broadcaster; `follow` and `keep_up` run as tasks while the store is open."""

    def __init__(
        self,
        etcd: Connection,
        keyspace: Keyspace,
        broadcaster: WatchBroadcaster,
        looking: StoreStatus,
        *,
        time: clock.Clock,
        rng: backoff.Rng,
        settings: Settings,
    ) -> None:
        self._etcd = etcd
        self._keyspace = keyspace
        self._broadcaster = broadcaster
        self._time = time
        self._rng = rng
        self._settings = settings
        self._survey = looking
        #: The base by which the broadcaster's revisions are numbered.
        self._base = keyspace.base
        #: Changes were lost: the broadcaster must be reset.
        self._lost = False
        #: The revision of the last change seen, of a key or a meta key: history certainly holds it.
        self.last_change = 0
        #: Own changes, by revision, that wait for earlier ones.
        self._own: dict[int, list[Event]] = {}
        #: Set while etcd's watch is established.
        self.connected = asyncio.Event()
        self._moved = asyncio.Event()

    async def follow(self) -> None:
        """Watch; resume a lost watch where it ended."""
        pause = backoff.Backoff(self._settings.retry, self._rng)
        while True:
            try:
                await self._find_place()
                await self._watch(pause)
            except errors.Closed:
                return
            except faults.Compacted as problem:
                # Unless the broadcaster had all of it before the watch did.
                if self._lost or self._broadcaster.revision < self._keyspace.floor:
                    log.warning("etcd compacted history before it was read, watches must list again", problem=problem)
                    self._lost = True
            except errors.Unavailable as problem:
                self._etcd.outage.failed(problem)
                await self._time.sleep(pause.next())
            except errors.StoreError as problem:
                delay = pause.next()
                log.warning("etcd watch failed, trying again", problem=problem, delay_s=round(delay, 3))
                await self._time.sleep(delay)
            finally:
                self.connected.clear()

    async def keep_up(self) -> None:
        """Write the mark when other clients have advanced etcd's revision and no key of the store has changed since."""
        while True:
            before = self._broadcaster.revision
            await self._time.sleep(self._settings.look_every_s)
            if self._broadcaster.watchers and before == self._broadcaster.revision < self._keyspace.seen:
                try:
                    await self.mark()
                except errors.StoreError as problem:
                    log.warning("cannot write the mark key, bookmarks fall behind", problem=problem)

    async def mark(self) -> int:
        """Write the mark, so that there is a change at or above every known revision; returns its revision."""
        request = pb.PutRequest(key=self._keyspace.note("mark"))
        return self._keyspace.ours((await self._etcd.call(methods.PUT, request)).header.revision)

    async def reached(self, revision: int) -> None:
        """Wait until the broadcaster is complete up to `revision`."""
        while self._broadcaster.revision < revision:
            await self._moved.wait()

    def offer(self, events: list[Event]) -> None:
        """Accept an own change: at once if it directly follows the last one, else when those in between have
        arrived.
        """
        if events and events[0].revision > self._broadcaster.revision and len(self._own) < _MOST_OWN:
            self.renumber()
            self._own[events[0].revision] = events
            self._publish_own()

    def renumber(self) -> bool:
        """Reset if a restore has changed the numbers of all revisions; returns whether it has."""
        if self._base == self._keyspace.base:
            return False
        log.warning("the store was restored, watches must list again", revision=self._keyspace.floor)
        self._base = self._keyspace.base
        self._reset(self._keyspace.floor)
        return True

    def _reset(self, revision: int) -> None:
        self._own.clear()
        self._broadcaster.reset(revision)

    async def _find_place(self) -> None:
        """Ensure that the watch can resume at the broadcaster's revision."""
        if await self._went_back():
            log.warning(
                "etcd was rolled back to an older state, watches must list again", before=self._broadcaster.revision
            )
            self._keyspace.forget()
            self.last_change = 0
            self._lost = True
        if self._lost:
            self._reset((await self._survey.revision_range()).revision)
            self._lost = False

    async def _went_back(self) -> bool:
        """Whether etcd itself was rolled back to an older state, so that changes that were delivered never happened."""
        known = revision = 0
        # The broadcaster may receive changes during a request, and many if etcd is slow; a second request decides.
        for _ in range(2):
            known = self._broadcaster.revision
            revision = (await self._survey.revision_range()).revision
            if self.renumber() or revision >= self._broadcaster.revision:
                return False
        return revision < known

    async def _watch(self, pause: backoff.Backoff) -> None:
        """Follow one etcd watch; returns when a new one should be started."""
        request = store_status.watch_request(self._keyspace, self._broadcaster.revision)
        began = self._time.monotonic()
        async with self._etcd.stream(methods.WATCH, request) as read:
            while True:
                answer = await read()
                if answer.canceled:
                    raise self._survey.refusal(answer)
                if answer.created:
                    pause.reset()
                    self.connected.set()
                    continue
                revision, known = self._revision(answer), self._broadcaster.revision
                self._take(answer, revision)
                if self._keyspace.seen - revision > _BACKLOG and self._time.monotonic() - began > _ANEW_S:
                    return
                if revision <= known and not self._own:
                    await self._time.sleep(_LEISURE_S)

    def _revision(self, answer: pb.WatchResponse) -> int:
        """The revision up to which a response completes the earlier ones."""
        return self._keyspace.ours(answer.events[-1].kv.mod_revision if answer.events else answer.header.revision)

    def _take(self, answer: pb.WatchResponse, revision: int) -> None:
        self._keyspace.heed(answer.events)
        self.renumber()
        try:
            events = self._keyspace.events(answer.events, after=self._broadcaster.revision)
        except faults.Compacted:
            self._lost = True
            raise
        self._advance(events, revision, changed=bool(answer.events))
        if self._own:
            self._own = {number: events for number, events in self._own.items() if number > self._broadcaster.revision}
            self._publish_own()

    def _publish_own(self) -> None:
        while (events := self._own.pop(self._broadcaster.revision + 1, None)) is not None:
            self._advance(events, events[0].revision, changed=True)

    def _advance(self, events: list[Event], revision: int, *, changed: bool) -> None:
        """Complete the broadcaster up to `revision`; `changed` says that there was a change, of a key or a meta key."""
        if changed:
            self.last_change = max(self.last_change, revision)
        self._broadcaster.publish(events, revision)
        self._moved.set()
        self._moved.clear()
