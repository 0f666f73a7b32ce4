"""The files of an SQLite store: modes, sizes and cleanup."""

import asyncio
import fcntl
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.kit import system
from rota.store import errors, store_factory
from rota.store.backends.sqlite import schema
from rota.store.logstore import Settings
from rota.store.store_interface import Put, Transaction
from rota.testing.store_contract import opened, revision_of


@pytest.fixture
def generous_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("generous_umask")
@pytest.mark.parametrize("prepared", [False, True])
async def test_what_holds_secrets_is_for_its_owners_eyes(tmp_path: Path, prepared: bool) -> None:
    """The write-ahead log as well, which holds the latest writes."""
    if prepared:
        (tmp_path / "store.db").touch(0o666)
    async with opened(f"sqlite:///{tmp_path}/store.db") as store:
        await store.create("/secrets/x", b"hidden")
        files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert files.pop("store.db.peers") == 0o700
    assert files == dict.fromkeys(["store.db", "store.db-wal", "store.db-shm", "store.db.lock"], 0o600)


async def test_the_mode_of_an_existing_store_is_kept(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/store.db"):
        pass
    (tmp_path / "store.db").chmod(0o660)
    async with opened(f"sqlite:///{tmp_path}/store.db"):
        assert stat.S_IMODE((tmp_path / "store.db").stat().st_mode) == 0o660


async def test_an_empty_file_is_no_store_where_one_should_exist(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    with pytest.raises(errors.BadAddress, match="there is no store"):
        await store_factory.open_store(
            f"sqlite:///{tmp_path}/store.db", time=system.SystemClock(), rng=system.rng(), create=False
        )
    assert [(path.name, path.stat().st_size) for path in tmp_path.iterdir()] == [("store.db", 0)]


async def test_nothing_stays_open_behind_a_closed_store(tmp_path: Path) -> None:
    def ours() -> list[str]:
        found = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
        return [target for target in found if target.startswith(str(tmp_path))]

    url = f"sqlite:///{tmp_path}/store.db"
    async with opened(url) as store, opened(url) as other:
        await store.create("/a/x", b"")
        await other.list("")
        assert ours()
    assert ours() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store.db", "store.db.lock"]


async def test_closing_waits_for_a_commit_without_holding_up_the_event_loop(tmp_path: Path) -> None:
    store = await store_factory.open_store(
        f"sqlite:///{tmp_path}/store.db", time=system.SystemClock(), rng=system.rng()
    )
    # Another process commits.
    turn = os.open(tmp_path / "store.db.lock", os.O_RDWR)
    fcntl.flock(turn, fcntl.LOCK_EX)
    granting = asyncio.create_task(store.grant(60.0))
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.close())
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not closing.done()
    os.close(turn)
    await asyncio.wait_for(asyncio.gather(closing, granting), 10)


async def test_pages_of_a_long_past_list_count_what_follows_exactly(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/store.db") as store:
        await store.commit(Transaction(tuple(Put(f"/a/{number:02}", b"old") for number in range(100))))
        first = await store.list("/a/", limit=10)
        for number in (5, 15, 15, 25):
            entry = await store.get(f"/a/{number:02}")
            assert entry is not None
            await store.update(entry.key, b"new", expected=entry.revision)
        for number in (35, 45):
            entry = await store.get(f"/a/{number:02}")
            assert entry is not None
            await store.delete(entry.key, expected=entry.revision)
        # Made again, made and changed, made and deleted since.
        await store.create("/a/45", b"again")
        made = revision_of(await store.create("/a/500", b"new"))
        await store.update("/a/500", b"newer", expected=made)
        made = revision_of(await store.create("/a/600", b"new"))
        await store.delete("/a/600", expected=made)
        remaining = []
        page = first
        while page.remaining:
            remaining.append(page.remaining)
            page = await store.list("/a/", limit=10, after=page.entries[-1].key, revision=first.revision)
        assert remaining == list(range(90, 0, -10))
        assert (await store.list("/a/", limit=10)).remaining == 90


@pytest.mark.slow
async def test_the_write_ahead_log_stays_bounded_under_constant_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "WAL_BYTES", 1_000_000)
    wal = tmp_path / "store.db-wal"
    async with opened(f"sqlite:///{tmp_path}/store.db") as store:
        for start in range(0, 1000, 100):
            await store.commit(Transaction(tuple(Put(f"/a/{start + n}", bytes(2000)) for n in range(100))))
        stop = asyncio.Event()

        async def read() -> None:
            while not stop.is_set():
                assert len((await store.list("/a/")).entries) == 1000

        reading = [asyncio.create_task(read()) for _ in range(3)]
        largest = 0
        for number in range(60):
            await store.commit(Transaction(tuple(Put(f"/b/{number}/{n}", bytes(2000)) for n in range(100))))
            largest = max(largest, wal.stat().st_size)
        stop.set()
        await asyncio.gather(*reading)
    # 12 MB were written and more than that logged.
    assert largest < 4_000_000


async def test_compacted_history_leaves_the_file_in_small_steps(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    def look(query: str) -> int:
        connection = sqlite3.connect(path)
        try:
            found: int = connection.execute(query).fetchone()[0]
        finally:
            connection.close()
        return found

    async with opened(f"sqlite:///{path}", Settings(trim_step=30)) as store:
        revision = revision_of(await store.create("/a/x", b""))
        for _ in range(60):
            revision = revision_of(await store.update("/a/x", os.urandom(5000), expected=revision))
        last = revision_of(await store.create("/a/last", b""))
        pages = look("PRAGMA page_count")
        await store.compact(revision)
        assert look("SELECT count(*) FROM log") == last - revision
        assert look("PRAGMA page_count") < pages * 0.6


def test_an_acknowledged_write_is_on_the_disk() -> None:
    """SQLite's default in this mode may lose the last commits in a power failure."""
    connection = sqlite3.connect(":memory:")
    schema.tune(connection)
    full = 2
    assert connection.execute("PRAGMA synchronous").fetchone() == (full,)
    connection.close()
