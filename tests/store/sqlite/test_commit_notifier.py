"""Notifications between processes on one file: prompt, non-blocking, and removed with their process."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from rota.store.backends.sqlite.commit_notifier import CommitNotifier


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def folder_of(database: Path) -> Path:
    return database.with_name("store.db.peers")


class Listening:
    """Listens and records its wake-ups."""

    def __init__(self, database: Path) -> None:
        self.woken = asyncio.Event()
        self.peers = CommitNotifier(database)
        self.peers.listen(self.woken.set)

    async def hears(self, announcer: CommitNotifier) -> None:
        self.woken.clear()
        announcer.announce()
        await asyncio.wait_for(self.woken.wait(), 5)


@pytest.fixture
def standing_clock(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's time stamp does not change, as within a tick of the kernel's clock."""
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        moved = real(path, target)
        os.utime(folder_of(database), ns=(10**18, 10**18))
        return moved

    monkeypatch.setattr(Path, "rename", rename)


@pytest.mark.usefixtures("standing_clock")
async def test_one_that_joins_in_the_same_tick_of_the_clock_is_noticed(database: Path) -> None:
    announcer = CommitNotifier(database)
    listening: list[Listening] = []
    for _ in range(5):
        listening.append(Listening(database))
        for each in listening:
            await each.hears(announcer)
    for each in listening:
        each.peers.close()
    announcer.close()
    assert not folder_of(database).exists()


async def test_what_a_killed_process_left_behind_is_removed(database: Path) -> None:
    folder_of(database).mkdir()
    left = folder_of(database) / "4711-dead"
    os.mkfifo(left)
    announcer = CommitNotifier(database)
    announcer.announce()
    assert not left.exists()
    announcer.close()


async def test_running_out_of_files_harms_no_peer(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listening, announcer = Listening(database), CommitNotifier(database)
    real = os.open

    def full(*arguments: object, **more: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        announcer.announce()
    assert os.open is real
    await listening.hears(announcer)
    listening.peers.close()
    announcer.close()


@pytest.fixture
def vanishing(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that leaves removes the folder between the two steps of one that joins."""
    real, times = os.mkfifo, iter(range(2))

    def mkfifo(path: Path, mode: int) -> None:
        if next(times, None) is not None:
            folder_of(database).rmdir()
        real(path, mode)

    monkeypatch.setattr(os, "mkfifo", mkfifo)


@pytest.mark.usefixtures("vanishing")
async def test_one_may_leave_while_another_joins(database: Path) -> None:
    listening, announcer = Listening(database), CommitNotifier(database)
    await listening.hears(announcer)
    listening.peers.close()
    announcer.close()


async def test_an_announcement_never_fails(database: Path) -> None:
    """What it announces is committed: an error would say the opposite."""
    listening, announcer = Listening(database), CommitNotifier(database)
    await listening.hears(announcer)
    listening.peers.close()
    announcer.announce()
    folder_of(database).write_bytes(b"not a folder")
    announcer.announce()
    announcer.close()
