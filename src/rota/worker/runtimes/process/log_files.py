"""Reads the logs of containers as the shim writes them: rotated files of `<time> <stream> F|P <line>`.

The last lines are searched from the end of the newest file, so that their cost does not grow with the log. Files are
read in pieces on the event loop: they are on a local disk and mostly in the page cache. After each piece, other tasks
of the event loop run.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from rota.kit.clock import Clock
from rota.worker.runtimes.runtime_interface import LogOptions

_PIECE: Final = 64 * 1024
#: The polling interval of a followed file.
_LOOK_S: Final = 0.1


class Line(NamedTuple):
    """A line, or a part of one."""

    time: str
    stream: str
    whole: bool
    text: bytes


def parse(raw: bytes) -> Line | None:
    """Parse a line of the file; None if it is invalid."""
    parts = raw.split(b" ", 3)
    if len(parts) != 4:
        return None
    time, stream = (part.decode("ascii", "replace") for part in parts[:2])
    return Line(time, stream, parts[2] == b"F", parts[3])


async def read(path: Path, options: LogOptions, *, clock: Clock, ended: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The log, with or without timestamps; with `follow`, until the run has `ended`."""
    left = options.limit_bytes
    with contextlib.closing(_Follower(path)) as reader:
        if options.tail_lines is not None:
            await reader.skip_to_last(options.tail_lines, options)
        begins = True
        while True:
            over = ended()
            found = False
            for lines in reader.rest():
                found = True
                parts: list[bytes] = []
                for line in lines:
                    if _is_wanted(line, options):
                        parts.append(_shown(line, options, begins=begins))
                        begins = line.whole
                data = b"".join(parts)
                if left is not None:
                    data = data[:left]
                    left -= len(data)
                if data:
                    yield data
                if left == 0:
                    return
                await asyncio.sleep(0)
            if not options.follow or (over and not found):
                return
            if not found:
                await clock.sleep(_LOOK_S)


class _Follower:
    """Reads on from its position, through rotations; the newest file may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        #: Files that are still to be read, the oldest first; the last one may grow.
        self._files: Final = _open_all(path)
        self._half = b""

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    async def skip_to_last(self, count: int, options: LogOptions) -> None:
        """Skip everything before the last lines; a last line without a newline counts as a line."""
        newest = True
        for number in reversed(range(len(self._files))):
            begin: int | None = None
            for lines in _backwards(self._files[number]):
                for offset, raw in lines:
                    if begin is None:
                        begin = offset + len(raw) + 1
                    line = parse(raw)
                    if line is None or (options.stream and line.stream != options.stream):
                        continue
                    count -= line.whole or newest
                    newest = False
                    if count < 0:
                        self._begin_at(number, begin)
                        return
                    begin = offset
                await asyncio.sleep(0)
            self._files[number].seek(0)

    def _begin_at(self, number: int, offset: int) -> None:
        for file in self._files[:number]:
            file.close()
        del self._files[:number]
        self._files[0].seek(offset)

    def rest(self) -> Iterator[list[Line]]:
        """Every line since the last call, in portions."""
        while True:
            while self._files:
                yield from self._present()
                if len(self._files) == 1:
                    break
                self._files.pop(0).close()
            try:
                newest = self._path.open("rb")
            except FileNotFoundError:
                return
            if self._files and _is_same(self._files[0], newest):
                newest.close()
                return
            # Rotated; lines written before the rotation are still in the old file, which is read to its end first.
            self._files.append(newest)

    def _present(self) -> Iterator[list[Line]]:
        while piece := self._files[0].read(_PIECE):
            *whole, self._half = (self._half + piece).split(b"\n")
            yield [line for raw in whole if (line := parse(raw)) is not None]


def _open_all(path: Path) -> list[BinaryIO]:
    """The files of a log, the oldest first."""
    found: list[BinaryIO] = []
    for one in (*_older(path), path):
        with contextlib.suppress(FileNotFoundError):
            file = one.open("rb")
            if found and _is_same(found[-1], file):  # rotated meanwhile
                file.close()
            else:
                found.append(file)
    return found


def _older(path: Path) -> list[Path]:
    """The rotated files, oldest first."""
    found = [one for one in path.parent.glob(f"{path.name}.*") if one.suffix[1:].isdecimal()]
    return sorted(found, key=lambda one: -int(one.suffix[1:]))


def _is_same(one: BinaryIO, other: BinaryIO) -> bool:
    return os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))


def _backwards(file: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """The complete lines of a file with their offsets, the last one first, in portions."""
    position = file.seek(0, os.SEEK_END)
    #: The end of a line that begins before the position; None as long as no newline was found.
    carried: bytes | None = None
    while position > 0:
        size = min(_PIECE, position)
        position -= size
        file.seek(position)
        piece = file.read(size)
        if carried is None:
            # What follows the last newline is still being written.
            if (end := piece.rfind(b"\n")) < 0:
                continue
            piece, carried = piece[:end], b""
        lines, offset = [], position
        for raw in (piece + carried).split(b"\n"):
            lines.append((offset, raw))
            offset += len(raw) + 1
        if position > 0:
            carried = lines.pop(0)[1]
        yield lines[::-1]


def _is_wanted(line: Line, options: LogOptions) -> bool:
    if options.stream and line.stream != options.stream:
        return False
    return options.since is None or _seconds(line.time) >= options.since


def _shown(line: Line, options: LogOptions, *, begins: bool) -> bytes:
    head = f"{line.time} ".encode() if options.timestamps and begins else b""
    return head + line.text + (b"\n" if line.whole else b"")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
