"""Recordings on disk: traces in gzip (version 2), or frames of entries in MessagePack (version 1, which is only read).

Truncation, by a crash or a full disk, loses only what follows the last complete line or frame: a reader returns what is
complete and reports that the end is missing.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from rota.kit.errors import UserError
from rota.scheduler.recording import trace_files
from rota.scheduler.recording.entries import VERSION, Beginning, Decided, Entry
from rota.scheduler.recording.line_codec import EntryReader
from rota.scheduler.recording.trace_files import TraceReader

MAGIC: Final = b"rota recording 1\n"
_HEAD: Final = struct.Struct(">II")
#: Upper limit of a frame's length; a larger value is corruption.
_LONGEST_FRAME: Final = 1 << 30

_decode: Final = msgspec.msgpack.Decoder(list[Entry]).decode


class NotARecording(UserError):
    """A file is not a recording that can be replayed."""


class Reader:
    """Reads a recording from its beginning, any number of times."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        #: Whether the last read ended before the end of the file.
        self.cut_off = False
        try:
            with path.open("rb") as file:
                head = file.read(len(MAGIC))
        except OSError as error:
            raise NotARecording(f"cannot read {path}: {error.strerror}") from error
        self._frames_inside: Final = head == MAGIC
        if not self._frames_inside and not trace_files.looks_like(head):
            raise NotARecording(f"{path} is no recording of a scheduler", "give a file that --record wrote")

    def entries(self) -> Iterator[Entry]:
        """All complete entries in order."""
        return self._framed() if self._frames_inside else self._lined()

    def _lined(self) -> Iterator[Entry]:
        """The entries of a trace; one without a decision is no recording."""
        reader = TraceReader(self.path)
        codec = EntryReader(reader.header())
        yield codec.beginning()
        decided = False
        for entry in codec.entries(line for _, line in reader.lines()):
            decided = decided or isinstance(entry, Decided)
            yield entry
        self.cut_off = reader.cut_off
        if not decided:
            raise NotARecording(f"{self.path} has no decision")

    def _framed(self) -> Iterator[Entry]:
        self.cut_off = False
        with self.path.open("rb") as file:
            file.seek(len(MAGIC))
            first = True
            for packed in self._frames(file):
                for entry in self._unpacked(packed):
                    if first:
                        self._check(entry)
                        first = False
                    yield entry
            if first:
                raise NotARecording(f"{self.path} ends before the first decision")

    def _frames(self, file: IO[bytes]) -> Iterator[bytes]:
        while head := file.read(_HEAD.size):
            if len(head) == _HEAD.size:
                length, checksum = _HEAD.unpack(head)
                packed = file.read(length) if length <= _LONGEST_FRAME else b""
                if len(packed) == length and zlib.crc32(packed) == checksum:
                    yield packed
                    continue
            self.cut_off = True
            return

    def _unpacked(self, packed: bytes) -> list[Entry]:
        try:
            return _decode(zlib.decompress(packed))
        except (zlib.error, msgspec.DecodeError) as error:
            raise NotARecording(f"{self.path} was written by another version of Rota: {error}") from error

    def _check(self, entry: Entry) -> None:
        if not isinstance(entry, Beginning):
            raise NotARecording(f"{self.path} does not begin with a snapshot")
        if entry.version != VERSION:
            raise NotARecording(f"{self.path} has version {entry.version} of recordings, and this Rota reads {VERSION}")


class Writer:
    """Appends lines to a file; a file that is full is renamed and a new one is begun."""

    def __init__(self, path: Path, *, longest: int) -> None:
        self._path: Final = path
        self._longest: Final = longest
        self._length = 0
        self._file: IO[bytes] | None = None

    @property
    def full(self) -> bool:
        """Whether the next lines belong in a new file, which must begin with a snapshot."""
        return self._file is None or self._length > self._longest

    def begin(self) -> None:
        """Start a new file; the previous one gets the suffix `.1`."""
        self.close()
        if self._path.exists():
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._file = self._path.open("xb")
        self._length = 0

    def append(self, packed: bytes) -> None:
        """Write packed lines and flush them to the operating system."""
        assert self._file is not None
        self._file.write(packed)
        self._file.flush()
        self._length += len(packed)

    def close(self) -> None:
        """Sync the file to disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
