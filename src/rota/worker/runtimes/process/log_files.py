"""Reads the logs of containers as the shim writes them: rotated files of `<time> <stream> F|P <line>`.

Reads the newest part that was requested without reading all that is before it. Files are read in pieces on the event
loop: they are on a local disk and mostly in the page cache.
"""

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
        lines = _tail(_of_stream(reader.rest(), options), options)
        begins = True
        while True:
            for line in lines:
                if options.since is not None and _seconds(line.time) < options.since:
                    continue
                data = _shown(line, options, begins=begins)
                begins = line.whole
                if left is not None:
                    data = data[:left]
                    left -= len(data)
                yield data
                if left == 0:
                    return
            if not options.follow:
                return
            over = ended()
            lines = list(_of_stream(reader.rest(), options))
            if not lines:
                if over:
                    return
                await clock.sleep(_LOOK_S)


class _Follower:
    """Reads on from its position, through rotations; the file may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._file: BinaryIO | None = None
        self._started = False
        self._half = b""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def rest(self) -> Iterator[Line]:
        """Every line since the last call."""
        if not self._started:
            self._started = True
            for older in _older(self._path):
                yield from self._lines(older.read_bytes())
        while True:
            yield from self._present()
            try:
                newest = self._path.open("rb")
            except FileNotFoundError:
                return
            if self._file is not None:
                if os.path.samestat(os.fstat(self._file.fileno()), os.fstat(newest.fileno())):
                    newest.close()
                    return
                # Rotated; lines written before the rotation are still in the old file.
                yield from self._present()
                self._file.close()
            self._file = newest

    def _present(self) -> Iterator[Line]:
        while self._file is not None and (piece := self._file.read(_PIECE)):
            yield from self._lines(piece)

    def _lines(self, piece: bytes) -> Iterator[Line]:
        *whole, self._half = (self._half + piece).split(b"\n")
        for raw in whole:
            line = parse(raw)
            if line is not None:
                yield line


def _older(path: Path) -> list[Path]:
    """The rotated files, oldest first."""
    found = [one for one in path.parent.glob(f"{path.name}.*") if one.suffix[1:].isdecimal()]
    return sorted(found, key=lambda one: -int(one.suffix[1:]))


def _of_stream(lines: Iterator[Line], options: LogOptions) -> Iterator[Line]:
    return lines if not options.stream else (line for line in lines if line.stream == options.stream)


def _tail(lines: Iterator[Line], options: LogOptions) -> list[Line]:
    if options.tail_lines is None:
        return list(lines)
    kept: list[Line] = []
    every = list(lines)
    # A last line without a newline counts as a line.
    count = int(bool(every) and not every[-1].whole)
    for line in reversed(every):
        count += line.whole
        if count > options.tail_lines:
            break
        kept.append(line)
    return kept[::-1]


def _shown(line: Line, options: LogOptions, *, begins: bool) -> bytes:
    head = f"{line.time} ".encode() if options.timestamps and begins else b""
    return head + line.text + (b"\n" if line.whole else b"")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
