"""The output of a run: stored in a log, and sent to attached readers. Only the standard library, as in the shim."""

import contextlib
import os
import select
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

#: Longer lines are stored in parts.
_LINE_BYTES: Final = 16 * 1024


class OutputLog:
    """The output of one run, rotated by size: `x.log` is the newest, `x.log.1` the previous one."""

    def __init__(self, path: str, *, most_bytes: int, files: int) -> None:
        self._path: Final = path
        self._most: Final = most_bytes
        self._files: Final = files
        #: None before the first line: most short runs write nothing, and need no file.
        self._fd: int | None = None
        self._size = 0
        self._rest: dict[str, bytes] = {}

    def write(self, stream: str, data: bytes) -> None:
        """Store output; a line is written when it is complete, or too long to wait for the rest."""
        head = self._head(stream)
        *whole, rest = (self._rest.pop(stream, b"") + data).split(b"\n")
        lines = []
        for line in whole:
            while len(line) > _LINE_BYTES:
                lines.append(head + b" P " + line[:_LINE_BYTES])
                line = line[_LINE_BYTES:]  # noqa: PLW2901 - the rest of it
            lines.append(head + b" F " + line)
        while len(rest) > _LINE_BYTES:
            lines.append(head + b" P " + rest[:_LINE_BYTES])
            rest = rest[_LINE_BYTES:]
        if rest:
            self._rest[stream] = rest
        if lines:
            self._append(b"\n".join(lines) + b"\n")

    def close(self) -> None:
        """The output has ended: a last line without a newline is stored."""
        for stream, rest in self._rest.items():
            self._append(self._head(stream) + b" P " + rest + b"\n")
        if self._fd is not None:
            os.close(self._fd)

    @staticmethod
    def _head(stream: str) -> bytes:
        now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: TID251
        return f"{now} {stream}".encode()

    def _append(self, data: bytes) -> None:
        # A full disk loses output, but must not affect the process.
        with contextlib.suppress(OSError):
            if self._fd is None:
                Path(self._path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                self._size = os.fstat(self._fd).st_size
            if self._size + len(data) > self._most and self._size:
                self._rotate(self._fd)
            self._size += len(data)
            while data:
                data = data[os.write(self._fd, data) :]

    def _rotate(self, opened: int) -> None:
        for number in range(self._files - 1, 0, -1):
            older = Path(f"{self._path}.{number - 1}") if number > 1 else Path(self._path)
            if older.exists():
                older.rename(f"{self._path}.{number}")
        newest = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(newest, opened, inheritable=False)
        os.close(newest)
        self._size = 0


def send_to_readers(listeners: list[int], data: bytes) -> None:
    """Send output to attached readers; a reader that is too slow, or gone, is dropped."""
    for listener in list(listeners):
        try:
            whole = os.write(listener, data) == len(data)
        except OSError:
            whole = False
        if not whole:
            listeners.remove(listener)
            os.close(listener)


def with_reader(listeners: list[int]) -> list[int]:
    """The pipes that still have a reader; the others are closed."""
    poll = select.poll()
    for listener in listeners:
        poll.register(listener, 0)
    gone = {listener for listener, _ in poll.poll(0)}
    for listener in gone:
        os.close(listener)
    return [one for one in listeners if one not in gone]


def has_more(fd: int) -> bool:
    """Whether a pipe has data to read."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(event & select.POLLIN for _, event in poll.poll(0))
