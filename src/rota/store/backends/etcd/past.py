"""History that the hub no longer holds, read by short-lived etcd watches.

Such a watch says nothing when it has caught up. So it is read up to a change that is known to exist at or behind the
hub's oldest revision; if there has been none since the store was opened, the store's `mark` is written to make one.
Readers take turns, and one that comes while another read the same stretch gets that: a hundred watches that resume
after a restart are one or two watches for etcd.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from rota.store import errors
from rota.store.backends.etcd import connection, faults, feed
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd.connection import Connection
from rota.store.backends.etcd.feed import Feed
from rota.store.backends.etcd.keyspace import Keyspace
from rota.store.contract import Event, Extent
from rota.store.hub import Hub
from rota.store.watching import Tail


class _Stretch(Struct, frozen=True):
    """Every change above `after` up to `revision`."""

    after: int
    events: list[Event]
    revision: int


class Past:
    """Reads history for the watches of one store."""

    def __init__(self, etcd: Connection, keyspace: Keyspace, hub: Hub, follower: Feed) -> None:
        self._etcd = etcd
        self._keyspace = keyspace
        self._hub = hub
        self._feed = follower
        self._turn = asyncio.Lock()
        self._readers = 0
        #: What was read while somebody waited; forgotten when nobody does.
        self._stretches: list[_Stretch] = []

    async def tail(self, after: int, limit: int) -> Tail:
        """See `watching.History.tail`."""
        self._readers += 1
        try:
            async with self._turn:
                stretch = self._at_hand(after)
                if stretch is None:
                    stretch = await self._etcd.patiently(lambda: self._read(after, limit))
                    self._stretches.append(stretch)
        except errors.Closed:
            # The watch looks at the hub next, and ends.
            return Tail([], after)
        finally:
            self._readers -= 1
            if not self._readers:
                self._stretches.clear()
        return Tail([event for event in stretch.events if event.revision > after], stretch.revision)

    async def check(self, after: int) -> None:
        """Raise the floor if history above `after` is gone, as etcd's operator may compact without asking us."""
        note = self._keyspace.note("format")
        # Revision 0 would mean the newest; 1 is where etcd begins.
        request = pb.RangeRequest(key=note, revision=max(1, self._keyspace.theirs(after)), count_only=True)
        try:
            await self._etcd.call(connection.RANGE, request)
        except faults.Compacted:
            await self.learn_floor(after)
        except faults.Ahead:
            return  # the caller, who knows the newest revision, says so

    async def learn_floor(self, compacted: int) -> None:
        """Find out how far etcd is compacted, which it tells only to a watch from a revision that is."""

        async def ask() -> None:
            request = feed.watch_request(self._keyspace, compacted - 1)
            async with self._etcd.stream(connection.WATCH, request, timeout=connection.CALL_S) as read:
                while not (answer := await read()).canceled:
                    pass
                feed.refusal(answer, self._keyspace, self._etcd)

        await self._etcd.patiently(ask)

    def _at_hand(self, after: int) -> _Stretch | None:
        for stretch in self._stretches:
            if stretch.after <= after < stretch.revision:
                return stretch
        return None

    async def _read(self, after: int, limit: int) -> _Stretch:
        goal = self._hub.oldest
        if after >= goal:
            return _Stretch(after, [], after)
        if after < self._keyspace.floor:
            raise errors.Expired(after, self._keyspace.floor)
        if self._feed.last_change < goal:
            await self._make_goal(after)
        events: list[Event] = []
        try:
            request = feed.watch_request(self._keyspace, after)
            async with self._etcd.stream(connection.WATCH, request, timeout=connection.CALL_S) as read:
                while True:
                    answer = await read()
                    if answer.canceled:
                        raise feed.refusal(answer, self._keyspace, self._etcd)
                    if not answer.events:
                        continue
                    events += self._keyspace.events(answer.events)
                    revision = self._keyspace.ours(answer.events[-1].kv.mod_revision)
                    if revision >= goal or len(events) >= limit:
                        return _Stretch(after, events, revision)
        except faults.Compacted:
            raise errors.Expired(after, max(self._keyspace.floor, after + 1)) from None

    async def _make_goal(self, after: int) -> None:
        """See that there is a change at or behind the hub's oldest revision."""
        try:
            self._feed.last_change = max(self._feed.last_change, await self._feed.mark())
        except (errors.NoSpace, errors.AccessDenied):
            # May not write: then history ends where the store was opened, and the reader lists again.
            raise errors.Expired(after, self._hub.oldest) from None


class Resumption:
    """History as one watch sees it, which begins at `after`. Fills `watching.History`."""

    def __init__(
        self, past: Past, keyspace: Keyspace, hub: Hub, *, after: int, extent: Callable[[], Awaitable[Extent]]
    ) -> None:
        self._past = past
        self._keyspace = keyspace
        self._hub = hub
        self._after = after
        self._extent = extent

    async def extent(self) -> Extent:
        """How far history reaches; looks closely where the watch begins."""
        extent = await self._extent()
        if extent.floor <= self._after < self._hub.oldest:
            await self._past.check(self._after)
        return Extent(extent.revision, max(extent.floor, self._keyspace.floor))

    async def tail(self, after: int, limit: int) -> Tail:
        """See `watching.History.tail`."""
        return await self._past.tail(after, limit)
