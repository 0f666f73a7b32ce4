"""The cached state equals that of the file."""

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from rota.kit import system
from rota.store import store_factory
from rota.store.backends.sqlite.read_cache import Generation
from rota.store.store_interface import Committed, Delete, Precondition, Put, Store, Transaction


async def _open(path: Path) -> Store:
    return await store_factory.open_store(f"sqlite:///{path}", time=system.SystemClock(), rng=system.rng())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.db"


@pytest_asyncio.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    opened = await _open(path)
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def other(store: Store, path: Path) -> AsyncIterator[Store]:
    opened = await _open(path)
    yield opened
    await opened.close()


async def _put(store: Store, key: str, value: bytes) -> None:
    assert isinstance(await store.commit(Transaction((Put(key, value),))), Committed)


async def _value(store: Store, key: str) -> bytes | None:
    entry = await store.get(key)
    (again,) = await store.get_many([key])
    assert again == entry
    return None if entry is None else entry.value


async def test_what_another_wrote_is_read_as_soon_as_that_is_acknowledged(store: Store, other: Store) -> None:
    for number in range(100):
        value = str(number).encode()
        await _put(other, "/a/x", value)
        assert await _value(store, "/a/x") == value
        await _put(store, "/a/y", value)
        assert await _value(other, "/a/y") == value
        assert await _value(other, "/a/x") == value


async def test_absence_is_remembered_no_longer_than_it_lasts(store: Store, other: Store) -> None:
    assert await _value(store, "/a/x") is None
    assert await _value(store, "/a/x") is None
    await _put(other, "/a/x", b"1")
    assert await _value(store, "/a/x") == b"1"
    entry = await other.get("/a/x")
    assert entry is not None
    await other.delete("/a/x", expected=entry.revision)
    assert await _value(store, "/a/x") is None


async def test_a_process_that_writes_beside_us_is_noticed(store: Store, path: Path) -> None:
    await _put(store, "/a/x", b"before")
    assert await _value(store, "/a/x") == b"before"
    program = f"""
import asyncio
from rota.kit import system
from rota.store import store_factory as opening
from rota.store.store_interface import Put, Transaction
async def main():
    store = await opening.open_store("sqlite:///{path}", time=system.SystemClock(), rng=system.rng())
    await store.commit(Transaction((Put("/a/x", b"after"),)))
    await store.close()
asyncio.run(main())
"""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stderr=subprocess.DEVNULL)
    assert await child.wait() == 0
    assert await _value(store, "/a/x") == b"after"


async def test_leases_that_end_take_their_keys_out_of_memory(store: Store) -> None:
    lease = await store.grant(30)
    await store.create("/a/x", b"1", lease=lease)
    assert await _value(store, "/a/x") == b"1"
    await store.revoke(lease)
    assert await _value(store, "/a/x") is None


async def test_a_refused_transaction_leaves_memory_as_it_was(store: Store) -> None:
    await _put(store, "/a/x", b"1")
    assert await _value(store, "/a/x") == b"1"
    await store.commit(Transaction((Put("/a/x", b"2"), Put("/a/y", b"2")), (Precondition("/a/z", revision=7),)))
    assert (await _value(store, "/a/x"), await _value(store, "/a/y")) == (b"1", None)


async def test_two_stores_agree_whatever_happens(store: Store, other: Store) -> None:
    """Random writes and reads on both, against a plain dict."""
    rng = random.Random(7)
    model: dict[str, bytes] = {}
    keys = [f"/a/{number}" for number in range(8)]
    for step in range(400):
        one = rng.choice((store, other))
        key = rng.choice(keys)
        match rng.randrange(4):
            case 0:
                model[key] = str(step).encode()
                await _put(one, key, model[key])
            case 1:
                model.pop(key, None)
                await one.commit(Transaction((Delete(key),)))
            case 2:
                assert await _value(one, key) == model.get(key)
            case _:
                found = await one.get_many(keys)
                assert [entry and entry.value for entry in found] == [model.get(key) for key in keys]


async def test_reads_while_others_write_never_go_back_in_time(store: Store, other: Store) -> None:
    await _put(store, "/a/x", b"0")
    done = asyncio.Event()

    async def write(one: Store) -> None:
        for _ in range(100):
            entry = await one.get("/a/x")
            assert entry is not None
            value = str(int(entry.value) + 1).encode()
            await one.update("/a/x", value, expected=entry.revision)

    async def read() -> None:
        newest = 0
        while not done.is_set():
            for one in (store, other):
                entry = await one.get("/a/x")
                assert entry is not None
                assert entry.revision >= newest
                newest = entry.revision
            await asyncio.sleep(0)

    reading = asyncio.create_task(read())
    await asyncio.gather(write(store), write(other))
    done.set()
    await reading


def test_a_commit_that_was_not_ended_disables_the_cache(tmp_path: Path) -> None:
    file = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    one, two = Generation(file), Generation(file)
    before = one.begin()
    assert (before, two.now()) == (0, 1)
    # the first process died here
    assert two.begin() == 2
    assert one.now() == 3
    two.end()
    assert one.now() == 4
    one.close()
    two.close()
    os.close(file)
