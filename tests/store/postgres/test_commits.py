"""Commits under contention, over broken connections, and on a stalled server: in order, once, without gaps."""

import asyncio
import contextlib
import itertools
import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from rota.kit import backoff
from rota.store import errors, write_plan
from rota.store.backends.postgres import sessions, statements
from rota.store.backends.postgres.engine import PostgresEngine
from rota.store.logstore import Settings
from rota.store.store_interface import Committed, Precondition, Put, Store, Transaction
from rota.store.write_plan import Work
from rota.testing.servers.postgres import PostgresServer
from rota.testing.store_contract import gather_to, opened, revision_of

pytestmark = pytest.mark.slow

Session = psycopg.AsyncConnection[tuple[Any, ...]]
Engines = Callable[..., Awaitable[PostgresEngine]]
#: Short patience, enough for a test.
BRISK = Settings(patience_s=4.0, retry=backoff.Policy(initial_s=0.01, cap_s=0.1))


def put(*keys: str) -> list[Work]:
    return [Transaction((Put(key, b"v"),)) for key in keys]


async def half_commit(session: Session, key: str) -> None:
    """Run a commit of another process up to, but not including, its COMMIT."""
    work = put(key)
    state = await statements.read_state(session, work)
    assert state is not None
    plan = write_plan.plan(work, state.rows, state.leases, head=state.head.revision, floor=state.head.floor)
    await session.execute("BEGIN")
    assert await statements.commit(session, plan, state.head, writer="other", batch=1)


async def waiting(session: Session) -> None:
    """Wait until some session waits for a lock."""
    locked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(60):
        while (await (await session.execute(locked)).fetchone()) == (0,):
            await session.execute("SELECT pg_sleep(0.01)")


@pytest.mark.parametrize("last_word", ["COMMIT", "ROLLBACK"])
async def test_a_transaction_that_began_first_and_ends_late_leaves_no_gap(
    last_word: str, postgres_url: str, session: Session
) -> None:
    async with opened(postgres_url) as store, opened(postgres_url) as other:
        start = revision_of(await store.create("/a/0", b""))
        observer = await psycopg.AsyncConnection.connect(postgres_url, autocommit=True)
        async with observer, store.watch("/a/", after=start) as watch:
            await half_commit(session, "/a/held")
            writes = [
                asyncio.create_task(writer.create(f"/a/{number}", b""))
                for number, writer in enumerate((store, other), 1)
            ]
            await waiting(observer)
            assert not any(write.done() for write in writes)
            assert (await store.revision_range()).revision == start
            await session.execute(last_word)
            revisions = [revision_of(outcome) for outcome in await asyncio.gather(*writes)]
            held = 1 if last_word == "COMMIT" else 0
            assert sorted(revisions) == [start + held + 1, start + held + 2]
            events = await gather_to(watch, start + held + 2)
    assert [event.revision for event in events] == list(range(start + 1, start + held + 3))
    assert ("/a/held" in {event.key for event in events}) == bool(held)


async def test_a_slow_writer_does_not_starve_beside_a_faster_one(engines: Engines) -> None:
    """A distant process plans slowly; it takes the lock after losing twice."""
    slow, fast = await engines(), await engines()
    stop = asyncio.Event()

    async def hurry() -> int:
        for number in itertools.count():
            if stop.is_set():
                return number
            await fast.apply(put(f"/fast/{number}"))
        return 0

    class Distant(list[Work]):
        """Work whose planning takes as long as over a slow connection."""

    hurrying = asyncio.create_task(hurry())
    original = statements.read_state

    async def slowly(session: Session, work: Any) -> Any:
        state = await original(session, work)
        if isinstance(work, Distant):
            await asyncio.sleep(0.1)
        return state

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "read_state", slowly)
        async with asyncio.timeout(60):
            for number in range(3):
                await slow.apply(Distant(put(f"/slow/{number}")))
    stop.set()
    assert await hurrying > 10
    assert len((await fast.scan("/slow/", limit=0, after="", revision=0)).entries) == 3


async def test_a_process_that_stalls_within_a_transaction_holds_others_up_only_for_a_while(
    engines: Engines, postgres_url: str
) -> None:
    engine = await engines()
    stalled = await sessions.connect(sessions.Address.parse(postgres_url, answer_s=5.0))
    try:
        await stalled.execute("SET idle_in_transaction_session_timeout = '500ms'")
        await half_commit(stalled, "/a/stalled")
        applied = await engine.apply(put("/a/x"))
        assert not sessions.is_usable(stalled)
    finally:
        await stalled.close()
    assert isinstance(applied.verdicts[0], Committed)
    assert await engine.get("/a/stalled") is None


async def test_creates_need_no_reading_and_still_see_what_others_made(engines: Engines) -> None:
    ours, theirs = await engines(), await engines()

    def create(key: str) -> list[Work]:
        return [Transaction((Put(key, b""),), (Precondition(key, revision=0),))]

    first = await ours.apply(create("/a/0"))
    assert isinstance(first.verdicts[0], Committed)
    # A key that we made, one that they made, and one of two that are made together.
    assert not isinstance((await ours.apply(create("/a/0"))).verdicts[0], Committed)
    await ours.apply(create("/a/1"))
    await theirs.apply(create("/a/2"))
    refused = (await ours.apply(create("/a/2"))).verdicts[0]
    assert not isinstance(refused, Committed)
    both = await ours.apply([*create("/a/3"), *create("/a/3"), *create("/a/4")])
    assert [isinstance(verdict, Committed) for verdict in both.verdicts] == [True, False, True]
    assert (await ours.revision_range()).revision == 6


@pytest.mark.parametrize("rival", [False, True])
@pytest.mark.parametrize("seed", range(3))
async def test_every_change_happens_once_however_often_the_line_breaks(
    seed: int, rival: bool, breaking_line: Any, postgres_url: str
) -> None:
    """Writes without preconditions: done twice, they would appear twice in history."""
    line, url = await breaking_line(seed)
    acknowledged: dict[str, int] = {}

    async def write(store: Store, name: str) -> None:
        for number in range(60):
            key = f"/a/{name}/{number}"
            acknowledged[key] = revision_of(await store.commit(Transaction((Put(key, b"v"),))))

    async with opened(postgres_url) as witness:
        start = (await witness.revision_range()).revision
        async with opened(url, Settings(retry=BRISK.retry)) as store:
            line.one_in = 10
            rivals = [write(witness, f"rival{number}") for number in range(3)] if rival else []
            await asyncio.gather(*(write(store, str(name)) for name in range(3)), *rivals)
            line.one_in = 0
        end = (await witness.revision_range()).revision
        async with witness.watch("/a/", after=start) as watch:
            events = await gather_to(watch, end)
    assert min(line.harmed.values()) >= 3
    assert [event.revision for event in events] == list(range(start + 1, end + 1))
    assert {event.key: event.revision for event in events} == acknowledged
    assert len(events) == len(acknowledged)


async def test_a_session_that_is_ended_during_a_commit_counts_once(engines: Engines, session: Session) -> None:
    """An administrator terminates the very process that commits, at moments spread over the commit."""
    engine = await engines(settings=BRISK)
    ended = 0
    for number in range(60):
        work = put(f"/a/{number}")
        applying = asyncio.create_task(engine.apply(work))
        await asyncio.sleep(number % 20 * 0.0001)
        pid = engine._writer.pid
        if pid:
            await session.execute("SELECT pg_terminate_backend(%s)", [pid])
            ended += 1
        outcome = (await asyncio.gather(applying, return_exceptions=True))[0]
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, errors.Unavailable)
            assert not outcome.uncertain
            assert await engine.get(f"/a/{number}") is None
            await engine.apply(work)
    assert ended > 30
    tail = await engine.tail(1, 1000)
    assert [event.key for event in tail.events] == [f"/a/{number}" for number in range(60)]


async def test_a_commit_with_an_unknown_outcome_is_uncertain(
    private_postgres: Callable[[], PostgresServer], engines: Engines
) -> None:
    server = private_postgres()
    settings = Settings(patience_s=0.8, retry=BRISK.retry)
    engine = await engines(f"{await asyncio.to_thread(server.create_database)}?connect_timeout=2", settings)
    await engine.apply(put("/a/0"))
    await engine.apply(put("/a/1"))
    with pytest.MonkeyPatch.context() as patch:
        original = statements.commit

        async def pause_first(*words: Any, **more: Any) -> bool:
            server.pause()
            return await original(*words, **more)

        patch.setattr(statements, "commit", pause_first)
        with pytest.raises(errors.Unavailable, match="its outcome is unknown") as caught:
            await engine.apply(put("/a/2"))
    assert caught.value.uncertain
    server.resume()
    await engine.apply(put("/a/3"))
    assert (await engine.revision_range()).revision in (4, 5)


async def test_a_server_that_stalls_is_given_up_and_used_again_when_it_is_back(
    private_postgres: Callable[[], PostgresServer],
) -> None:
    server = private_postgres()
    url = f"{await asyncio.to_thread(server.create_database)}?connect_timeout=2"
    async with opened(url, Settings(patience_s=1.0, retry=BRISK.retry)) as store:
        revision = revision_of(await store.create("/a/x", b"1"))
        server.pause()
        with pytest.raises(errors.Unavailable):
            await store.get("/a/x")
        with pytest.raises(errors.Unavailable):
            await store.update("/a/x", b"2", expected=revision)
        server.resume()
        async with asyncio.timeout(60):
            while True:
                with contextlib.suppress(errors.Unavailable):
                    entry = await store.get("/a/x")
                    break
    assert entry is not None


def run(*command: str) -> None:
    subprocess.run(command, check=True)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system with little space; needs root."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    # Not in pytest's folders: those are private, and the server is another user.
    with tempfile.TemporaryDirectory(prefix="rota-disk-") as folder:
        Path(folder).chmod(0o755)
        run("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder)
        yield Path(folder)
        run("umount", folder)


async def test_a_full_disk_is_named_and_loses_nothing_acknowledged(
    small_disk: Path, private_postgres: Callable[[], PostgresServer]
) -> None:
    server = private_postgres()
    server.own(small_disk)
    async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as session:
        location = sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(str(small_disk)))
        await session.execute(location)
        await session.execute("CREATE DATABASE small TABLESPACE small")
    kept: dict[str, int] = {}
    async with opened(server.url_of("small")) as store:

        async def fill() -> None:
            for number in range(10_000):
                kept[f"/a/{number}"] = revision_of(await store.create(f"/a/{number}", os.urandom(20_000)))

        with pytest.raises(errors.NoSpace, match="free disk space"):
            await fill()
        assert {entry.key: entry.revision for entry in (await store.list("")).entries} == kept
        run("mount", "-o", "remount,size=32m", str(small_disk))
        kept["/a/more"] = revision_of(await store.create("/a/more", bytes(10_000)))
        assert {entry.key: entry.revision for entry in (await store.list("")).entries} == kept
    await asyncio.to_thread(server.close)
