"""Traces on disk: text, or text in gzip. Reads line by line and names the line of every fault.

A recording is written as a row of complete gzip members, one per flush. A file that was cut off, by a crash or a full
disk, loses only what follows its last complete line: the reader returns what is there and says that the end is missing.
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final, cast

import msgspec

import rota
from rota.kit.errors import UserError
from rota.scheduler.recording import trace_lines
from rota.scheduler.recording.trace_lines import FORMAT, VERSION, AnyLine, Header

_GZIP: Final = b"\x1f\x8b"
_LEVEL: Final = 3


class NotATrace(UserError):
    """A file is not a trace that can be read."""


def header(*, about: str = "", began: float = 0.0, configuration: dict[str, Any] | None = None) -> Header:
    """The first line of a trace that this program writes."""
    return Header(
        format=FORMAT, version=VERSION, rota=rota.__version__, began=began, about=about, configuration=configuration
    )


def packed(lines: Iterable[AnyLine]) -> bytes:
    """Lines as one gzip member; slow, and safe in a thread. Equal lines give equal bytes."""
    return gzip.compress(b"".join(map(trace_lines.encoded, lines)), _LEVEL, mtime=0)


def looks_like(head: bytes) -> bool:
    """Whether a file that begins with these bytes may be a trace."""
    return head.startswith((_GZIP, b'{"entry":"header"', b'{"entry": "header"'))


class TraceReader:
    """Reads a trace from its beginning, any number of times."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        #: Whether the last read ended before the end of the file.
        self.cut_off = False

    def header(self) -> Header:
        """The first line; raises `NotATrace` if the file is none."""
        for _, line in self._lines():
            return self._checked(line)
        raise NotATrace(f"{self.path} is empty", "give a trace, as rota dump or --record write it")

    def lines(self) -> Iterator[tuple[int, AnyLine]]:
        """All complete lines after the header, with their numbers."""
        self.cut_off = False
        first = True
        for number, text in self._lines():
            if first:
                self._checked(text)
                first = False
                continue
            if not text.strip():
                continue
            try:
                line = trace_lines.decode(text)
            except msgspec.DecodeError as error:
                if self.cut_off:
                    return
                raise NotATrace(f"{self.path}, line {number}: {_told(error)}") from error
            if isinstance(line, Header):
                raise NotATrace(f"{self.path}, line {number}: a second header", "give one trace per file")
            yield number, line
        if first:
            raise NotATrace(f"{self.path} is empty", "give a trace, as rota dump or --record write it")

    def _checked(self, text: bytes) -> Header:
        try:
            found = trace_lines.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NotATrace(
                f"{self.path}, line 1: no header of a trace: {_told(error)}",
                'the first line must be {"entry": "header", "format": "rota-trace", "version": 2}',
            ) from error
        if not isinstance(found, Header) or found.format != FORMAT:
            raise NotATrace(f"{self.path}, line 1: no header of a trace")
        if found.version != VERSION:
            raise NotATrace(f"{self.path} has version {found.version} of traces, and this Rota reads {VERSION}")
        return found

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self._opened() as file:
                number = 0
                while True:
                    try:
                        text = file.readline()
                    except (EOFError, gzip.BadGzipFile, zlib.error):
                        self.cut_off = True
                        return
                    if not text:
                        return
                    number += 1
                    if not text.endswith(b"\n"):
                        # A last line without its end is complete if it can be read.
                        self.cut_off = not _complete(text)
                        if self.cut_off and number > 1:
                            return
                    yield number, text
        except OSError as error:
            raise NotATrace(f"cannot read {self.path}: {error.strerror or error}") from error

    def _opened(self) -> IO[bytes]:
        with self.path.open("rb") as file:
            zipped = file.read(2) == _GZIP
        return cast("IO[bytes]", gzip.open(self.path, "rb")) if zipped else self.path.open("rb")


def _complete(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _told(error: Exception) -> str:
    """The message of msgspec with the field in our words."""
    message, _, where = str(error).partition(" - at `")
    place = where.rstrip("`").removeprefix("$").lstrip(".")
    message = message.replace("`", '"')
    return f"{place}: {message}" if place else message
