"""The switch of a watch from history to the broadcaster: no change twice, none lost."""

import asyncio

from rota.store.broadcaster import WatchBroadcaster
from rota.store.store_interface import Event, RevisionRange
from rota.store.store_watch import BroadcastWatch, Tail


class NoHistory:
    """A history that must not be read: the broadcaster holds everything."""

    def __init__(self, revision: int) -> None:
        self._revision = revision

    async def revision_range(self) -> RevisionRange:
        return RevisionRange(self._revision, 0)

    async def tail(self, after: int, limit: int) -> Tail:
        raise AssertionError((after, limit))


def event(revision: int) -> Event:
    return Event(f"/a/{revision}", revision, b"", revision, None)


async def test_a_watch_that_joins_before_a_flush_sees_what_waits_for_it_once() -> None:
    broadcaster = WatchBroadcaster(0)
    async with (
        BroadcastWatch(broadcaster, NoHistory(0), "/a/", 0) as first,
        BroadcastWatch(broadcaster, NoHistory(2), "/a/", 0) as second,
    ):
        joining = asyncio.ensure_future(anext(first))
        await asyncio.sleep(0)
        broadcaster.publish([event(1), event(2)], 2)
        # Nothing is flushed yet: this one finds both in the ring, and they are on their way to its channel.
        early = await anext(second)
        broadcaster.publish([event(3)], 3)
        assert [each.revision for each in early.events] == [1, 2]
        assert [each.revision for each in (await anext(second)).events] == [3]
        assert [each.revision for each in (await joining).events] == [1, 2, 3]
        assert second.revision == 3


async def test_a_watch_ahead_of_the_broadcaster_gets_no_event_twice() -> None:
    """Its list may have shown another process's commit that the broadcaster does not have yet."""
    broadcaster = WatchBroadcaster(0)
    async with BroadcastWatch(broadcaster, NoHistory(2), "/a/", 2) as watch:
        reading = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        broadcaster.publish([event(1), event(2), event(3)], 3)
        assert [each.revision for each in (await reading).events] == [3]
