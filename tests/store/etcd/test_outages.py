"""A store whose etcd is down, disconnected, compacted by others or full."""

import asyncio
import shutil
from collections.abc import Callable, Iterator

import pytest

from rota.kit import system
from rota.store import errors, store_factory
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd import methods
from rota.store.backends.etcd.connection import Connection
from rota.store.logstore import Settings
from rota.store.store_interface import Committed, Delete, Entry, Event, Transaction, Watch
from rota.testing.servers.etcd import EtcdServer
from rota.testing.servers.processes import free_port
from rota.testing.store_contract import gather_events, gather_to, opened, revision_of

pytestmark = [pytest.mark.etcd, pytest.mark.slow]


async def test_watches_outlive_a_killed_server_without_a_gap(server: EtcdServer) -> None:
    """Also one that began before the kill and one that resumes after it, with writes before, between and after."""
    async with opened(server.url) as store:
        start = (await store.revision_range()).revision
        async with store.watch("/a/", after=start) as watch:
            seen: list[Event] = []
            for round_ in range(3):
                before = [revision_of(await store.create(f"/a/{round_}/{number}", b"")) for number in range(20)]
                if round_ == 1:
                    seen += await gather_to(watch, before[-1])
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            last = revision_of(await store.create("/a/last", b""))
            seen += await gather_to(watch, last)
        async with store.watch("/a/", after=start) as watch:
            assert await gather_to(watch, last) == seen
    assert [event.key for event in seen] == [f"/a/{n}/{m}" for n in range(3) for m in range(20)] + ["/a/last"]


async def test_a_compaction_during_an_outage_makes_watches_list_again(
    server: EtcdServer, neighbour: Connection
) -> None:
    """History during the disconnection is gone: the watch must report that."""
    async with opened(server.url) as store, opened(server.url) as other:
        revision = revision_of(await store.create("/a/x", b"0"))
        async with store.watch("/a/", after=revision) as watch:
            # The store's watch feed is blocked where it cannot resume by itself, as by a network that drops all
            # packets.
            await store._supervisor.stop("feed")  # type: ignore[attr-defined]
            for number in range(5):
                revision = revision_of(await other.update("/a/x", b"%d" % number, expected=revision))
            await neighbour.call(methods.COMPACT, pb.CompactionRequest(revision=revision))
            store._supervisor.start("feed", store._feed.follow)  # type: ignore[attr-defined]
            with pytest.raises(errors.Expired):
                await gather_events(watch, lambda _: False)
        page = await store.list("/a/")
        async with store.watch("/a/", after=page.revision) as watch:
            last = revision_of(await store.update("/a/x", b"last", expected=revision))
            assert [event.value for event in await gather_to(watch, last)] == [b"last"]


async def test_an_older_state_of_etcd_put_back_makes_watches_list_again(server: EtcdServer) -> None:
    data, copy = server.folder / "data", server.folder / "copy"
    async with opened(server.url, Settings(look_every_s=0.05)) as store:
        start = (await store.revision_range()).revision
        await store.create("/a/kept", b"")
        await asyncio.to_thread(server.stop)
        shutil.copytree(data, copy)
        await asyncio.to_thread(server.start)
        last = revision_of(await store.create("/a/lost", b""))
        for number in range(20):
            last = revision_of(await store.create(f"/a/{number}", b""))
        async with store.watch("/a/", after=start) as watch:
            await gather_to(watch, last)
            await asyncio.to_thread(server.stop)
            shutil.rmtree(data)
            copy.rename(data)
            for path in (data, *data.rglob("*")):
                server.own(path)
            await asyncio.to_thread(server.start)
            with pytest.raises(errors.Expired):
                await gather_events(watch, lambda _: False)
        page = await store.list("/a/")
        assert [entry.key for entry in page.entries] == ["/a/kept"]
        async with store.watch("/a/", after=start) as watch:
            anew = revision_of(await store.create("/a/anew", b""))
            assert [event.key for event in await gather_to(watch, anew)] == ["/a/kept", "/a/anew"]
            # And no marks are written to catch up with revisions that no longer exist.
            await asyncio.sleep(0.3)
            assert (await store.revision_range()).revision <= anew + 1


async def test_compactions_race_resuming_watches_and_no_watch_misses_a_change_silently(server: EtcdServer) -> None:
    """A watch either sees every change or must list again."""
    async with opened(server.url) as store, opened(server.url) as other:
        stop = asyncio.Event()

        async def write() -> None:
            revision = revision_of(await store.create("/a/x", b"0"))
            number = 0
            while not stop.is_set():
                number += 1
                revision = revision_of(await store.update("/a/x", b"%d" % number, expected=revision))

        async def compact() -> None:
            while not stop.is_set():
                await other.compact((await other.revision_range()).revision)

        async def follow() -> tuple[int, int]:
            whole = expired = 0
            while whole < 20:
                page = await other.list("/a/")
                value = int(page.entries[0].value) if page.entries else -1
                await asyncio.sleep(0.002)
                try:
                    async with other.watch("/a/", after=page.revision) as watch:
                        events = await gather_events(watch, lambda events: len(events) >= 3)
                except errors.Expired:
                    expired += 1
                    continue
                values = [int(event.value or b"-9") for event in events]
                assert values == list(range(value + 1, value + 1 + len(values)))
                for event in events:
                    assert event.is_create or event.previous == b"%d" % (int(event.value or b"") - 1)
                whole += 1
            return whole, expired

        working = [asyncio.create_task(write()), asyncio.create_task(compact())]
        async with asyncio.timeout(60):
            results = await asyncio.gather(*(follow() for _ in range(4)))
        stop.set()
        await asyncio.gather(*working)
    assert [whole for whole, _ in results] == [20] * 4


async def test_a_write_that_got_no_answer_is_called_uncertain_and_a_read_is_repeated(server: EtcdServer) -> None:
    async with opened(server.url) as store:
        writing = [asyncio.create_task(store.create(f"/a/{number}", b"")) for number in range(50)]
        await asyncio.wait(writing, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(server.kill)
        outcomes = await asyncio.gather(*writing, return_exceptions=True)
        reading = asyncio.create_task(store.list("/a/"))
        created = asyncio.create_task(store.create("/a/never sent before", b""))
        await asyncio.sleep(0.2)
        await asyncio.to_thread(server.start)
        keys = {entry.key for entry in (await reading).entries}
        assert isinstance(await created, Committed)
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, Committed):
            assert f"/a/{number}" in keys
        else:
            assert isinstance(outcome, errors.Unavailable)
            assert outcome.uncertain or f"/a/{number}" not in keys


async def test_patience_ends_with_one_clear_line(server: EtcdServer) -> None:
    async with opened(server.url, Settings(patience_s=0.3)) as store:
        await asyncio.to_thread(server.kill)
        for call in (store.get("/a"), store.list(""), store.grant(5), store.renew(7)):
            with pytest.raises(
                errors.Unavailable, match=r"etcd at 127.0.0.1:\d+ does not answer .*refused.*check"
            ) as caught:
                await call
            assert not caught.value.uncertain


async def test_another_member_takes_over(server: EtcdServer) -> None:
    """The first address of the URL is not reachable; later the working connection is lost."""
    url = server.url.replace("etcd://", f"etcd://127.0.0.1:{free_port()},")
    async with opened(url) as store:
        revision = revision_of(await store.create("/a/x", b""))
        async with store.watch("/a/", after=revision) as watch:
            await asyncio.to_thread(server.restart)
            last = revision_of(await store.create("/a/y", b""))
            assert [event.revision for event in await gather_to(watch, last)] == [last]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("etcd://127.0.0.1:{port}", "does not answer .*refused"),
        ("etcd://127.0.0.1:{port},127.0.0.1:{port}", "does not answer .*refused"),
        ("etcd://no-such-host.invalid", "does not answer"),
    ],
)
async def test_an_unreachable_etcd_is_reported_soon(url: str, words: str) -> None:
    async with asyncio.timeout(30):
        with pytest.raises(errors.Unavailable, match=words):
            await store_factory.open_store(url.format(port=free_port()), time=system.SystemClock(), rng=system.rng())


async def test_another_service_behind_the_address_is_reported(server: EtcdServer) -> None:
    with pytest.raises(errors.Unavailable, match="speaks TLS"):
        async with opened(server.url.replace("etcd:", "etcds:")):
            pass


@pytest.fixture
def full_etcd() -> Iterator[EtcdServer]:
    with EtcdServer(quota_backend_bytes=2 * 1024 * 1024) as server:
        yield server


async def test_a_full_etcd_says_so_and_loses_nothing(full_etcd: EtcdServer) -> None:
    acknowledged: list[str] = []
    async with opened(full_etcd.url) as store:
        start = (await store.revision_range()).revision
        lease = await store.grant(60)

        async def fill() -> None:
            for number in range(100):
                revision_of(await store.create(f"/a/{number:03}", bytes(100_000)))
                acknowledged.append(f"/a/{number:03}")

        # etcd may apply the write that makes it full; its response is the same.
        with pytest.raises((errors.NoSpace, errors.Unavailable), match="space exceeded") as caught:
            await fill()
        assert len(acknowledged) > 5
        kept = [entry.key for entry in (await store.list("/a/")).entries]
        assert kept[: len(acknowledged)] == acknowledged
        uncertain = isinstance(caught.value, errors.Unavailable) and caught.value.uncertain
        assert len(kept) <= len(acknowledged) + uncertain
        for number in range(10):
            with pytest.raises(errors.NoSpace, match="quota-backend-bytes"):
                await store.create(f"/b/{number}", bytes(100_000))
        assert [entry.key for entry in (await store.list("")).entries] == kept
        # Space can be freed: deletions, compactions and renewals go on.
        assert await store.renew(lease)
        assert isinstance(await store.commit(Transaction((Delete("/a/000"),))), Committed)
    async with opened(full_etcd.url) as store:
        # Nothing has changed since it was opened, and the mark cannot be written: the watch must list again.
        with pytest.raises(errors.Expired):
            async with store.watch("/a/", after=start) as watch:
                await anext(watch)
        await store.compact((await store.revision_range()).revision)
        assert [entry.key for entry in (await store.list("/a/")).entries] == kept[1:]


async def test_a_restore_that_does_not_fit_leaves_nothing(full_etcd: EtcdServer) -> None:
    async with opened(full_etcd.url) as store:
        # Many times the quota: etcd measures itself ten times a second, and takes in a few megabytes meanwhile.
        with pytest.raises(errors.NoSpace):
            await store.load((Entry(f"/a/{number:03}", bytes(100_000), 5, 5) for number in range(900)), revision=7)
        assert (await store.list("")).entries == []


async def test_closing_leaves_nothing_behind(server: EtcdServer, watches: Callable[[], int]) -> None:
    """Also with calls, watches and retries under way."""
    for gone in (False, True):
        store = await store_factory.open_store(server.url, time=system.SystemClock(), rng=system.rng())
        start = (await store.revision_range()).revision
        async with store.watch("", after=start) as watch:
            if gone:
                await asyncio.to_thread(server.kill)
            reading = asyncio.create_task(_drain(watch))
            calls: list[asyncio.Task[object]] = []
            for number in range(10):
                calls += [
                    asyncio.create_task(store.create(f"/{gone}/{number}", b"")),
                    asyncio.create_task(store.get("/x")),
                ]
            await asyncio.sleep(0.05 if gone else 0)
            async with asyncio.timeout(30):
                await store.close()
                await reading
                outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, Committed | errors.StoreError) for outcome in outcomes)
        with pytest.raises(errors.Closed):
            await store.get("/x")
        assert asyncio.all_tasks() == {asyncio.current_task()}
    await asyncio.to_thread(server.start)
    assert watches() == 0


async def _drain(watch: Watch) -> None:
    async for _ in watch:
        pass
