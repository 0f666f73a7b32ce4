"""Recordings on disk: a line that says what it is, then frames, each with its length and its checksum.

A frame is a list of entries in MessagePack, compressed. Whatever is cut off, by a crash or by a full disk, costs the
frames from there on and nothing before: a reader gives what is whole and says that the end is missing.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from rota.kit.errors import UserError
from rota.scheduler.recording.entries import VERSION, Beginning, Entry

MAGIC: Final = b"rota recording 1\n"
_HEAD: Final = struct.Struct(">II")
#: No frame is longer; a length beyond it is not a length.
_LONGEST_FRAME: Final = 1 << 30
_LEVEL: Final = 3

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Entry]).decode


class NotARecording(UserError):
    """A file cannot be replayed."""


def frame(entries: Sequence[Entry]) -> bytes:
    """Pack entries; takes a while, and can be done in a thread."""
    packed = zlib.compress(_encode(list(entries)), _LEVEL)
    return _HEAD.pack(len(packed), zlib.crc32(packed)) + packed


class Reader:
    """Reads a recording from its beginning, as often as wanted."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        #: Whether the last reading ended before the end of the file.
        self.cut_off = False
        try:
            with path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise NotARecording(f"{path} is no recording of a scheduler", "give a file that --record wrote")
        except OSError as error:
            raise NotARecording(f"cannot read {path}: {error.strerror}") from error

    def entries(self) -> Iterator[Entry]:
        """Give all entries that are whole, in order."""
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
    """Appends frames to a file; when that has grown too long, it is put aside and a new one begun."""

    def __init__(self, path: Path, *, longest: int) -> None:
        self._path: Final = path
        self._longest: Final = longest
        self._length = 0
        self._file: IO[bytes] | None = None

    @property
    def full(self) -> bool:
        """Whether the next frame belongs into a new file, which must begin with a snapshot."""
        return self._file is None or self._length > self._longest

    def begin(self) -> None:
        """Start a new file; the one before is kept with `.1` behind its name."""
        self.close()
        if self._path.exists():
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        self._file = self._path.open("xb")
        self._file.write(MAGIC)
        self._length = len(MAGIC)

    def append(self, packed: bytes) -> None:
        """Write a frame, and see that it leaves this process."""
        assert self._file is not None
        self._file.write(packed)
        self._file.flush()
        self._length += len(packed)

    def close(self) -> None:
        """Make sure that everything is on the disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
