"""Reads history that the broadcaster no longer holds through short-lived etcd watches.

Such a watch does not report that it has caught up. So it is read up to a change that is known to exist at or above the
broadcaster's oldest revision; if there has been none since the store was opened, the store writes its meta key `mark`.
Reads are serialized, and a reader that waited reuses what another one read of the same range: a hundred watches that
resume after a restart cost one or two etcd watches.
"""

import asyncio

from msgspec import Struct

from rota.store import errors
from rota.store.backends.etcd import connection, faults, methods, store_status
from rota.store.backends.etcd.connection import Connection
from rota.store.backends.etcd.keyspace import Keyspace
from rota.store.backends.etcd.store_status import StoreStatus
from rota.store.backends.etcd.watch_feed import WatchFeed
from rota.store.broadcaster import WatchBroadcaster
from rota.store.store_interface import Event
from rota.store.store_watch import Tail


class _HistoryRange(Struct, frozen=True):
    """Every change above `after` up to `revision`."""

    after: int
    events: list[Event]
    revision: int


class EtcdHistory:
    """Reads history for the watches of one store."""

    def __init__(
        self,
        etcd: Connection,
        keyspace: Keyspace,
        broadcaster: WatchBroadcaster,
        looking: StoreStatus,
        feeding: WatchFeed,
    ) -> None:
        self._etcd = etcd
        self._keyspace = keyspace
        self._broadcaster = broadcaster
        self._survey = looking
        self._feed = feeding
        self._turn = asyncio.Lock()
        self._readers = 0
        #: Ranges that were read while readers waited; dropped when no reader waits.
        self._stretches: list[_HistoryRange] = []

    async def tail(self, after: int, limit: int) -> Tail:
        """See `store_watch.History.tail`."""
        self._readers += 1
        try:
            async with self._turn:
                stretch = self._at_hand(after)
                if stretch is None:
                    stretch = await self._etcd.patiently(lambda: self._read(after, limit))
                    self._stretches.append(stretch)
        except errors.Closed:
            # The watch reads the broadcaster next, and ends.
            return Tail([], after)
        finally:
            self._readers -= 1
            if not self._readers:
                self._stretches.clear()
        return Tail([event for event in stretch.events if event.revision > after], stretch.revision)

    def _at_hand(self, after: int) -> _HistoryRange | None:
        for stretch in self._stretches:
            if stretch.after <= after < stretch.revision:
                return stretch
        return None

    async def _read(self, after: int, limit: int) -> _HistoryRange:
        goal = self._broadcaster.oldest
        if after >= goal:
            return _HistoryRange(after, [], after)
        if after < self._keyspace.floor:
            raise errors.Expired(after, self._keyspace.floor)
        if self._feed.last_change < goal:
            await self._make_goal(after)
        events: list[Event] = []
        try:
            request = store_status.watch_request(self._keyspace, after)
            async with self._etcd.stream(methods.WATCH, request, timeout=connection.CALL_S) as read:
                while True:
                    answer = await read()
                    if answer.canceled:
                        raise self._survey.refusal(answer)
                    if not answer.events:
                        continue
                    events += self._keyspace.events(answer.events, after=after)
                    revision = self._keyspace.ours(answer.events[-1].kv.mod_revision)
                    if revision >= goal or len(events) >= limit:
                        return _HistoryRange(after, events, revision)
        except faults.Compacted:
            raise errors.Expired(after, max(self._keyspace.floor, after + 1)) from None

    async def _make_goal(self, after: int) -> None:
        """Ensure that there is a change at or above the broadcaster's oldest revision."""
        try:
            self._feed.last_change = max(self._feed.last_change, await self._feed.mark())
        except (errors.NoSpace, errors.AccessDenied):
            # Without write access history ends where the store was opened, and the reader lists again.
            raise errors.Expired(after, self._broadcaster.oldest) from None
