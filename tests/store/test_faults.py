"""A store whose database goes away, fills up or is read-only."""

import asyncio
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.store import errors
from rota.store.store_interface import Event
from rota.testing.store_contract import gather_events, opened, revision_of

SERVERS = [pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("etcd", marks=pytest.mark.etcd)]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_lost_connection_is_retried_and_watches_resume_without_a_gap(
    kind: str, how: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue(f"private_{kind}")()
    url = server.create_database() if kind == "postgres" else server.url
    async with opened(url) as store, opened(url) as other:
        start = (await store.revision_range()).revision
        acknowledged: list[str] = []
        stop = asyncio.Event()

        async def write(name: int) -> None:
            number = 0
            while not stop.is_set():
                key = f"/a/{name}/{number}"
                number += 1
                try:
                    revision_of(await store.create(key, b""))
                except errors.Unavailable as problem:
                    if not problem.uncertain:
                        raise
                else:
                    acknowledged.append(key)

        async with other.watch("/a/", after=start) as watch:
            writing = [asyncio.create_task(write(name)) for name in range(4)]
            seen: list[Event] = []
            for _ in range(2):
                seen += await gather_events(watch, lambda events: len(events) > 50)
                await asyncio.to_thread(getattr(server, how))
                await asyncio.to_thread(server.start)
            stop.set()
            await asyncio.gather(*writing)
            last = revision_of(await store.create("/a/last", b""))
            while not seen or seen[-1].revision < last:
                seen += await gather_events(watch, bool)
        page = await store.list("/a/")
    assert {event.key for event in seen} == {entry.key for entry in page.entries}
    assert len(seen) == len(page.entries)
    revisions = [event.revision for event in seen]
    assert revisions == sorted(set(revisions))
    assert set(acknowledged) <= {entry.key for entry in page.entries}


def run(*command: str) -> None:
    subprocess.run(command, check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes; needs root."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder))
    yield folder
    run("umount", "-l", str(folder))


async def test_a_full_disk_is_named_and_loses_nothing_acknowledged(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/store.db"
    kept: dict[str, int] = {}
    async with opened(url) as store:

        async def fill() -> None:
            for number in range(10_000):
                kept[f"/a/{number}"] = revision_of(await store.create(f"/a/{number}", bytes(10_000)))

        with pytest.raises(errors.NoSpace, match="free disk space"):
            await fill()
        assert {entry.key: entry.revision for entry in (await store.list("")).entries} == kept
        assert (await store.revision_range()).revision == max(kept.values())
    async with opened(url) as store:
        assert {entry.key: entry.revision for entry in (await store.list("")).entries} == kept
        # With space again, it goes on.
        run("mount", "-o", "remount,size=16m", str(small_disk))
        kept["/a/more"] = revision_of(await store.create("/a/more", bytes(10_000)))
        assert {entry.key: entry.revision for entry in (await store.list("")).entries} == kept


async def test_a_disk_that_turns_read_only_is_named_and_loses_nothing_acknowledged(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/store.db"
    async with opened(url) as store:
        revision = revision_of(await store.create("/a/x", b"1"))
    run("mount", "-o", "remount,ro", str(small_disk))
    with pytest.raises(errors.StoreError, match=r"(?i)read-only"):
        async with opened(url):
            pass
    run("mount", "-o", "remount,rw", str(small_disk))
    async with opened(url) as store:
        entry = await store.get("/a/x")
        assert entry is not None
        assert entry.revision == revision


async def test_another_program_that_holds_the_file_is_waited_for(tmp_path: Path) -> None:
    """No caller ever gets "database is locked"."""
    async with opened(f"sqlite:///{tmp_path}/store.db") as store:
        other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(store.create("/a/x", b"1"))
        await asyncio.sleep(1.0)
        assert not writing.done()
        assert await store.get("/a/x") is None
        other.execute("ROLLBACK")
        other.close()
        revision_of(await writing)
