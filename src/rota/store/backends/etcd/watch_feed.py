"""The one etcd watch of a store: every change under its prefix, in order, into the hub.

How far the hub is complete (`WatchBroadcaster.revision`) follows from three signals only. Two of them etcd sends
through the same queue as the changes, so that neither can overtake one:

* the last change of an answer: etcd never splits a revision between answers unless asked to;
* an answer without changes, which etcd sends from time to time to a watch that is up to date (`progress_notify`).

The third one is a transaction of our own: etcd counts without gaps, so if its revision is the next one, it is all that
happened there. A lone process's changes come to its watches in this way, and etcd's watch is then read at leisure.

The revision in the header of other answers says what the member knew, not what it has sent. Nor is progress asked
for (`WatchProgressRequest`): before etcd 3.4.25 and 3.5.8 the answer to that may overtake changes
(etcd-io/etcd#15220). Where nothing of ours changes while others use the same etcd, the hub falls behind etcd's count
without having missed anything; then the store writes its `mark`, a change like any other, and so catches up.
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

#: How many of our own changes wait for others before them; those beyond come by etcd's watch alone.
_MOST_OWN = 1000
#: After an answer that told nothing new, and with nothing that waits for one, the next is read so much later.
_LEISURE_S = 0.005
#: A watch that is so many revisions behind is begun anew where the hub is: etcd then sends many changes at once ...
_BACKLOG = 200
#: ... but not more often than this.
_ANEW_S = 0.25


class WatchFeed:
    """Feeds a hub; `follow` and `keep_up` run as tasks for as long as the store is open."""

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
        #: The base by which the hub's revisions are numbered.
        self._base = keyspace.base
        #: Changes were missed for good: the hub begins anew.
        self._lost = False
        #: The revision of the last change seen, of a key or of a note: one that history surely holds.
        self.last_change = 0
        #: Changes of our own, by revision, that wait for those before them.
        self._own: dict[int, list[Event]] = {}
        #: Set while etcd watches for us.
        self.connected = asyncio.Event()
        self._moved = asyncio.Event()

    async def follow(self) -> None:
        """Watch; when the watch is lost, take it up where it ended."""
        pause = backoff.Backoff(self._settings.retry, self._rng)
        while True:
            try:
                await self._find_place()
                await self._watch(pause)
            except errors.Closed:
                return
            except faults.Compacted as problem:
                # Unless the hub had it all before the watch did.
                if self._lost or self._broadcaster.revision < self._keyspace.floor:
                    log.warning("history ran ahead of the watches, they list again", problem=problem)
                    self._lost = True
            except errors.Unavailable as problem:
                self._etcd.outage.failed(problem)
                await self._time.sleep(pause.next())
            except errors.StoreError as problem:
                delay = pause.next()
                log.warning("watches wait for etcd", problem=problem, delay_s=round(delay, 3))
                await self._time.sleep(delay)
            finally:
                self.connected.clear()

    async def keep_up(self) -> None:
        """Write the mark when others' changes have moved etcd's revision on and nothing of ours happened since."""
        while True:
            before = self._broadcaster.revision
            await self._time.sleep(self._settings.look_every_s)
            if self._broadcaster.watchers and before == self._broadcaster.revision < self._keyspace.seen:
                try:
                    await self.mark()
                except errors.StoreError as problem:
                    log.warning("bookmarks fall behind", problem=problem)

    async def mark(self) -> int:
        """Make a change that nobody notices, so that there is one at or behind every revision known; its revision."""
        request = pb.PutRequest(key=self._keyspace.note("mark"))
        return self._keyspace.ours((await self._etcd.call(methods.PUT, request)).header.revision)

    async def reached(self, revision: int) -> None:
        """Until the hub has everything up to `revision`."""
        while self._broadcaster.revision < revision:
            await self._moved.wait()

    def offer(self, events: list[Event]) -> None:
        """Take in a change of our own: at once if it follows on the last one, else when those between have come."""
        if events and events[0].revision > self._broadcaster.revision and len(self._own) < _MOST_OWN:
            self.renumber()
            self._own[events[0].revision] = events
            self._publish_own()

    def renumber(self) -> bool:
        """Begin anew if a restore has given every revision a new number; whether it has."""
        if self._base == self._keyspace.base:
            return False
        log.warning("the store was restored, watches list again", revision=self._keyspace.floor)
        self._base = self._keyspace.base
        self._reset(self._keyspace.floor)
        return True

    def _reset(self, revision: int) -> None:
        self._own.clear()
        self._broadcaster.reset(revision)

    async def _find_place(self) -> None:
        """See that the hub's revision is one to go on from."""
        if await self._went_back():
            log.warning("etcd went back in time, watches list again", before=self._broadcaster.revision)
            self._keyspace.forget()
            self.last_change = 0
            self._lost = True
        if self._lost:
            self._reset((await self._survey.revision_range()).revision)
            self._lost = False

    async def _went_back(self) -> bool:
        """Whether somebody put back an older state of etcd itself, so that what we handed out never happened."""
        known = revision = 0
        # The hub may learn of changes during a look, and of many where that has to wait for etcd; a second one tells.
        for _ in range(2):
            known = self._broadcaster.revision
            revision = (await self._survey.revision_range()).revision
            if self.renumber() or revision >= self._broadcaster.revision:
                return False
        return revision < known

    async def _watch(self, pause: backoff.Backoff) -> None:
        """Follow one watch of etcd's; returns when it is better to begin another."""
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
        """Up to where an answer completes what came before it."""
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
        """The hub gets everything up to `revision`; `changed` says that there was a change, if only of a note."""
        if changed:
            self.last_change = max(self.last_change, revision)
        self._broadcaster.publish(events, revision)
        self._moved.set()
        self._moved.clear()
