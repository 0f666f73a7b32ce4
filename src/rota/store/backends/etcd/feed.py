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
from rota.store.backends.etcd import connection, faults
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd.connection import Connection
from rota.store.backends.etcd.keyspace import Keyspace
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
                await self._watch(pause)
            except faults.Compacted as problem:
                revision = await self.refresh()
                log.warning("history ran ahead of the watches, they list again", problem=problem)
                self._hub.reset(revision)
            except errors.Closed:
                return
            except errors.StoreError as problem:
                delay = pause.next()
                log.warning("watches wait for etcd", problem=problem, delay_s=round(delay, 3))
                self._etcd.turn_away()
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
        return self._keyspace.ours((await self._etcd.call(connection.PUT, request)).header.revision)

    async def reached(self, revision: int) -> None:
        """Until the hub has everything up to `revision`."""
        while self._hub.revision < revision:
            await self._moved.wait()

    async def refresh(self) -> int:
        """Read the notes as they stand; the newest revision."""
        notes = self._keyspace.notes
        answer = await self._etcd.call(connection.RANGE, pb.RangeRequest(key=notes.start, range_end=notes.end))
        return self._keyspace.read(answer)

    async def _watch(self, pause: backoff.Backoff) -> None:
        base = self._keyspace.base
        newest = await self.refresh()
        if self._keyspace.base != base:
            log.warning("the store was restored, watches list again", revision=newest)
            self._hub.reset(newest)
        elif newest < self._hub.revision:
            # Somebody put back an older state of etcd itself: what we handed out never happened.
            log.warning("etcd went back in time, watches list again", revision=newest, before=self._hub.revision)
            self._hub.reset(newest)
        async with self._etcd.stream(connection.WATCH, watch_request(self._keyspace, self._hub.revision)) as read:
            while True:
                answer = await read()
                if answer.canceled:
                    raise refusal(answer, self._keyspace, self._etcd)
                if answer.created:
                    pause.reset()
                    self.connected.set()
                else:
                    self._take(answer)

    def _take(self, answer: pb.WatchResponse) -> None:
        if self._keyspace.heed(answer.events):
            log.warning("the store was restored, watches list again", revision=self._keyspace.floor)
            self._hub.reset(self._keyspace.floor)
        if answer.events:
            revision = self._keyspace.ours(answer.events[-1].kv.mod_revision)
            self.last_change = max(self.last_change, revision)
        else:
            revision = self._keyspace.ours(answer.header.revision)
        self._hub.publish(self._keyspace.events(answer.events), revision)
        self._moved.set()
        self._moved.clear()


def watch_request(keyspace: Keyspace, after: int) -> pb.WatchRequest:
    """A watch over everything of ours above revision `after`."""
    return pb.WatchRequest(
        create_request=pb.WatchCreateRequest(
            key=keyspace.whole.start,
            range_end=keyspace.whole.end,
            # 0 would mean from now on; 1 is where etcd begins.
            start_revision=max(1, keyspace.theirs(after) + 1),
            progress_notify=True,
            prev_kv=True,
        )
    )


def refusal(answer: pb.WatchResponse, keyspace: Keyspace, etcd: Connection) -> errors.StoreError:
    """Why etcd ended a watch; takes in what it says about the floor."""
    if answer.compact_revision:
        keyspace.raise_floor(keyspace.ours(answer.compact_revision))
        return faults.Compacted(f"{keyspace.where} is compacted up to revision {keyspace.floor}")
    # A login that has run out shows itself as a lack of permission here.
    etcd.forget_login()
    return errors.Unavailable(f"{keyspace.where} ended a watch ({answer.cancel_reason})", "check the user's role")
