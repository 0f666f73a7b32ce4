"""Notifies the other processes on one SQLite file of commits.

Every process has a FIFO in a folder beside the file; a process that commits writes one byte into each of the others.
That wakes them at once, costs nothing while there are no commits, and removes the FIFOs of killed processes: a FIFO
without a reader refuses the byte and is removed. The byte is only a hint: the changes are read from the log.
"""

import asyncio
import contextlib
import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path


class CommitNotifier:
    """This process's FIFO and the write ends of the others'.

    `listen` and `close` run on the event loop, `announce` in the writer's thread, which must have ended before `close`:
    a file descriptor that it still writes to could belong to another file by then.
    """

    def __init__(self, database: Path) -> None:
        self._folder = database.with_name(database.name + ".peers")
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._inbox: int | None = None
        #: Write ends of the others' FIFOs, as of the folder's time stamp `_seen_ns`.
        self._others: dict[str, int] = {}
        self._seen_ns = -1

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` on the running event loop whenever another process announces a commit."""
        inbox = self._inbox = self._join()

        def drain() -> None:
            with contextlib.suppress(BlockingIOError):
                while os.read(inbox, 4096):
                    pass
            wake()

        asyncio.get_running_loop().add_reader(inbox, drain)

    def announce(self) -> None:
        """Wake the other processes.

        Never fails: the announced change is committed, and a process that misses the byte polls the log after a
        while.
        """
        with contextlib.suppress(OSError):
            self._look_around()
        for name, outbox in list(self._others.items()):
            try:
                os.write(outbox, b"!")
            except BlockingIOError:
                continue  # its reader has not read the earlier bytes yet, so it is woken already
            except OSError:
                os.close(self._others.pop(name))
                self._remove(name)

    def close(self) -> None:
        """Stop listening and remove the FIFO, and the folder if it is empty."""
        if self._inbox is not None:
            asyncio.get_running_loop().remove_reader(self._inbox)
            (self._folder / self._name).unlink(missing_ok=True)
            os.close(self._inbox)
            self._inbox = None
        for outbox in self._others.values():
            os.close(outbox)
        self._others.clear()
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _join(self) -> int:
        """Put our FIFO into the folder; returns its read end."""
        # Created under a temporary name and opened before it is renamed: a process that finds it finds a reader.
        unready = self._folder / f".{self._name}"
        while True:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            try:
                os.mkfifo(unready, 0o600)
                break
            except FileNotFoundError:
                continue  # the last process to leave removed the folder between these two steps
        try:
            inbox = os.open(unready, os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            unready.unlink()
            raise
        unready.rename(self._folder / self._name)
        # The kernel's time stamps have a resolution of some milliseconds. A process that looked within this tick would
        # not notice the change, so the folder gets a time stamp that it did not have before.
        stamp_ns = self._folder.stat().st_mtime_ns + 1 + secrets.randbelow(1_000_000)
        os.utime(self._folder, ns=(stamp_ns, stamp_ns))
        return inbox

    def _look_around(self) -> None:
        """Open the FIFOs of new processes, close those of processes that left."""
        changed_ns = self._folder.stat().st_mtime_ns
        if changed_ns == self._seen_ns:
            return
        present = {item.name for item in self._folder.iterdir() if not item.name.startswith(".")} - {self._name}
        for name in self._others.keys() - present:
            os.close(self._others.pop(name))
        for name in present - self._others.keys():
            try:
                self._others[name] = os.open(self._folder / name, os.O_WRONLY | os.O_NONBLOCK)
            except FileNotFoundError:
                continue  # it left just now
            except OSError as problem:
                # Any other error, such as too many open files, says nothing about the other process: try again next
                # time.
                if problem.errno != errno.ENXIO:
                    raise
                # No reader: its process was killed.
                self._remove(name)
        self._seen_ns = changed_ns

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()
