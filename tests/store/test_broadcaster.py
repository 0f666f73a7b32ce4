"""The broadcaster: bounded, ordered, and no watcher waits for another."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.store.broadcaster import Limits, WatchBroadcaster, prefixes
from rota.store.store_interface import Batch, Event, RevisionRange
from rota.store.store_watch import BroadcastWatch, Tail


def event(revision: int, key: str = "/a/x", size: int = 1) -> Event:
    return Event(key, revision, bytes(size), revision, None)


async def flushed(broadcaster: WatchBroadcaster) -> None:
    while broadcaster.flushed != broadcaster.revision:  # noqa: ASYNC110 - the broadcaster wakes its channels only
        await asyncio.sleep(0)


async def test_what_is_published_twice_is_handed_out_once() -> None:
    broadcaster = WatchBroadcaster(0)
    channel = broadcaster.attach("")
    broadcaster.publish([event(1), event(2)], 2)
    broadcaster.publish([event(2), event(3)], 3)
    broadcaster.publish([event(1)], 1)
    await flushed(broadcaster)
    assert [item.revision for batch in channel.read(0) for item in batch.events] == [1, 2, 3]


@pytest.mark.parametrize("limit", [3, 4])
async def test_the_ring_keeps_within_its_limits_by_whole_revisions(limit: int) -> None:
    broadcaster = WatchBroadcaster(0, Limits(events=limit))
    broadcaster.publish([event(1, "/a/x"), event(1, "/a/y"), event(2), event(3), event(3)], 3)
    await flushed(broadcaster)
    assert broadcaster.oldest == 1
    assert [item.revision for item in broadcaster.since("", 1)] == [2, 3, 3]


async def test_the_ring_keeps_within_its_bytes() -> None:
    broadcaster = WatchBroadcaster(0, Limits(value_bytes=1000))
    broadcaster.publish([event(number, size=300) for number in range(1, 11)], 10)
    await flushed(broadcaster)
    assert broadcaster.oldest == 7


async def test_a_channel_forgets_with_the_ring_even_when_it_is_quiet_itself() -> None:
    broadcaster = WatchBroadcaster(0, Limits(events=5))
    quiet = broadcaster.attach("/quiet/")
    broadcaster.publish([event(1, "/quiet/x")], 1)
    await flushed(broadcaster)
    for revision in range(2, 12):
        broadcaster.publish([event(revision)], revision)
        await flushed(broadcaster)
    assert (quiet.base, quiet.end, quiet.dropped) == (1, 1, 1)


async def test_with_many_watchers_changes_are_gathered_before_they_are_woken() -> None:
    broadcaster = WatchBroadcaster(0)
    channel = broadcaster.attach("")
    for _ in range(499):
        broadcaster.attach("")
    for revision in range(1, 6):
        broadcaster.publish([event(revision)], revision)
        await asyncio.sleep(0)
    assert channel.end == 0
    await flushed(broadcaster)
    assert channel.end == 1


def test_a_channel_without_readers_is_dropped() -> None:
    broadcaster = WatchBroadcaster(0)
    one, two = broadcaster.attach("/a/"), broadcaster.attach("/a/")
    assert one is two
    broadcaster.detach("/a/", one)
    broadcaster.detach("/a/", two)
    assert broadcaster.watchers == 0
    assert broadcaster.attach("/a/") is not one


@given(st.text(alphabet="/ab", max_size=12))
def test_the_prefixes_of_a_key_are_those_that_a_watch_of_it_may_have(key: str) -> None:
    expected = {""} | {key[: at + 1] for at, letter in enumerate(key) if letter == "/"}
    assert set(prefixes(key)) == expected
    assert len(list(prefixes(key))) == len(expected)


async def test_readers_that_give_up_waiting_leave_nothing_behind() -> None:
    """A reader of a quiet prefix that wakes up now and then, to send a bookmark, does so for weeks."""
    broadcaster = WatchBroadcaster(0)
    async with BroadcastWatch(broadcaster, _NoHistory(), "", 0) as watch:
        for _ in range(100):
            waiting = asyncio.create_task(watch.__anext__())
            await asyncio.sleep(0)
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting
        assert broadcaster.attach("").waiting == 0


async def test_a_reader_that_is_nudged_comes_back_with_nothing_and_misses_nothing() -> None:
    broadcaster = WatchBroadcaster(1)
    async with BroadcastWatch(broadcaster, _NoHistory(), "", 1) as watch:
        waiting = asyncio.create_task(watch.__anext__())
        await asyncio.sleep(0)
        watch.nudge()
        assert await waiting == Batch((), 1)
        watch.nudge()
        broadcaster.publish([event(2)], 2)
        await flushed(broadcaster)
        told = [await watch.__anext__(), await watch.__anext__()]
        assert [item.revision for batch in told for item in batch.events] == [2]
        assert broadcaster.attach("").waiting == 0


class _NoHistory:
    async def revision_range(self) -> RevisionRange:
        return RevisionRange(1, 0)

    async def tail(self, after: int, limit: int) -> Tail:
        raise AssertionError("the hub reaches back far enough")
