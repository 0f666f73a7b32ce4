"""A store whose file is deleted, or whose disk is full, reports it."""

import errno
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytest_asyncio

from rota.kit import system
from rota.store import errors, store_factory
from rota.store.backends.sqlite import faults
from rota.store.store_interface import Put, Store, Transaction


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    folder = tmp_path / "data"
    folder.mkdir()
    opened = await store_factory.open_store(
        f"sqlite:///{folder}/rota.db", time=system.SystemClock(), rng=system.rng(), create=True
    )
    yield opened
    await opened.close()


async def test_a_deleted_folder_is_noticed(store: Store, tmp_path: Path) -> None:
    await store.commit(Transaction((Put("/a", b"1"),)))
    await store.check()
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(errors.Lost):
        await store.check()
    with pytest.raises(errors.Lost, match="deleted or replaced"):
        await store.commit(Transaction((Put("/b", b"1"),)))


async def test_a_replaced_file_is_noticed(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "data" / "rota.db"
    shutil.copy(path, tmp_path / "copy")
    (tmp_path / "copy").replace(path)
    with pytest.raises(errors.Lost):
        await store.commit(Transaction((Put("/b", b"1"),)))


async def test_a_store_that_could_not_write_is_not_fit_until_it_can(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = store._engine  # type: ignore[attr-defined]  # a disk cannot be filled in a test
    apply = engine.apply

    async def full(_: object) -> None:
        raise errors.NoSpace("no space left", "free some")

    monkeypatch.setattr(store._committer, "_apply", full)  # type: ignore[attr-defined]
    with pytest.raises(errors.NoSpace):
        await store.commit(Transaction((Put("/a", b"1"),)))
    with pytest.raises(errors.NoSpace):
        await store.check()
    monkeypatch.setattr(store._committer, "_apply", apply)  # type: ignore[attr-defined]
    await store.commit(Transaction((Put("/a", b"1"),)))
    await store.check()


@pytest.mark.parametrize(("free", "expected"), [(0, errors.NoSpace), (1 << 30, errors.StoreError)])
def test_an_input_output_error_on_a_full_disk_is_for_want_of_space(
    monkeypatch: pytest.MonkeyPatch, free: int, expected: type[errors.StoreError]
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1))
    problem = sqlite3.OperationalError("disk I/O error")
    problem.sqlite_errorcode = sqlite3.SQLITE_IOERR
    with pytest.raises(errors.StoreError) as raised, faults.translated(Path("/x/rota.db")):
        raise problem
    assert type(raised.value) is expected
    with pytest.raises(errors.NoSpace), faults.translated(Path("/x/rota.db")):
        raise OSError(errno.ENOSPC, "No space left on device")
