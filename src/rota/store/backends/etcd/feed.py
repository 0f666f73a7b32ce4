"""The one etcd watch of a store: every change under its prefix, in order, into the hub.

How far the hub is complete (`Hub.revision`) follows from two signals only, both of which etcd sends through the same
queue as the changes, so that neither can overtake one:

* the last change of an answer: etcd never splits a revision between answers unless asked to;
* an answer without changes, which etcd sends from time to time to a watch that is up to date (`progress_notify`).

The revision in the header of other answers says what the member knew, not what it has sent. Nor is progress asked
for (`WatchProgressRequest`): before etcd 3.4.25 and 3.5.8 the answer to that may overtake changes
(etcd-io/etcd#15220). Where nothing of ours changes while others use the same etcd, the hub falls behind etcd's count
without having missed anything; then the store writes its `mark`, a change like any other, and so catches up.
"""

import asyncio

from rota.kit import backoff, clock, logs
from rota.store import errors
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd import faults, methods, survey
from rota.store.backends.etcd.connection import Connection
from rota.store.backends.etcd.keyspace import Keyspace
from rota.store.backends.etcd.survey import Survey
from rota.store.hub import Hub
from rota.store.logstore import Settings

log = logs.get(__name__)


class Feed:
    """Feeds a hub; `follow` and `keep_up` run as tasks for as long as the store is open."""

    def __init__(
        self,
        etcd: Connection,
        keyspace: Keyspace,
        hub: Hub,
        looking: Survey,
        *,
        time: clock.Clock,
        chance: backoff.Chance,
        settings: Settings,
    ) -> None:
        self._etcd = etcd
        self._keyspace = keyspace
        self._hub = hub
        self._time = time
        self._chance = chance
        self._settings = settings
        self._survey = looking
        #: The base by which the hub's revisions are numbered.
        self._base = keyspace.base
        #: Changes were missed for good: the hub begins anew.
        self._lost = False
        #: The revision of the last change seen, of a key or of a note: one that history surely holds.
        self.last_change = 0
        #: Set while etcd watches for us.
        self.connected = asyncio.Event()
        self._moved = asyncio.Event()

    async def follow(self) -> None:
        """Watch; when the watch is lost, take it up where it ended."""
        pause = backoff.Backoff(self._settings.retry, self._chance)
        while True:
            try:
                await self._find_place()
                await self._watch(pause)
            except errors.Closed:
                return
            except faults.Compacted as problem:
                log.warning("history ran ahead of the watches, they list again", problem=problem)
                self._lost = True
            except errors.StoreError as problem:
                delay = pause.next()
                log.warning("watches wait for etcd", problem=problem, delay_s=round(delay, 3))
                await self._time.sleep(delay)
            finally:
                self.connected.clear()

    async def keep_up(self) -> None:
        """Write the mark when others' changes have moved etcd's revision on and nothing of ours happened since."""
        while True:
            before = self._hub.revision
            await self._time.sleep(self._settings.look_every_s)
            if self._hub.watchers and before == self._hub.revision < self._keyspace.seen:
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
        while self._hub.revision < revision:
            await self._moved.wait()

    def renumber(self) -> None:
        """Begin anew if a restore has given every revision a new number."""
        if self._base != self._keyspace.base:
            log.warning("the store was restored, watches list again", revision=self._keyspace.floor)
            self._base = self._keyspace.base
            self._hub.reset(self._keyspace.floor)

    async def _find_place(self) -> None:
        """See that the hub's revision is one to go on from."""
        extent = await self._survey.extent()
        self.renumber()
        if extent.revision < self._hub.revision:
            # Somebody put back an older state of etcd itself: what we handed out never happened.
            log.warning("etcd went back in time, watches list again", revision=extent.revision)
            self._keyspace.forget()
            self.last_change = 0
            extent = await self._survey.extent()
            self._lost = True
        if self._lost:
            self._hub.reset(extent.revision)
            self._lost = False

    async def _watch(self, pause: backoff.Backoff) -> None:
        request = survey.watch_request(self._keyspace, self._hub.revision)
        async with self._etcd.stream(methods.WATCH, request) as read:
            while True:
                answer = await read()
                if answer.canceled:
                    raise self._survey.refusal(answer)
                if answer.created:
                    pause.reset()
                    self.connected.set()
                else:
                    self._take(answer)

    def _take(self, answer: pb.WatchResponse) -> None:
        self._keyspace.heed(answer.events)
        self.renumber()
        if answer.events:
            revision = self._keyspace.ours(answer.events[-1].kv.mod_revision)
            self.last_change = max(self.last_change, revision)
        else:
            revision = self._keyspace.ours(answer.header.revision)
        self._hub.publish(self._keyspace.events(answer.events), revision)
        self._moved.set()
        self._moved.clear()
