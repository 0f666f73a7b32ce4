"""Segments: files with a part of a store's log.

A segment has a magic number and frames. A frame is a length with its checksum, a digest, and a compressed MessagePack
value: first the header, then records, and at the end of a completed segment the number of records. Each digest covers
the one before it, so a frame that was altered, removed or moved is noticed.

The writer syncs a frame before it writes the next. After a crash only the last frame can be incomplete; such a frame
was never confirmed, and readers stop before it. Damage anywhere else is an error.

With a key, the magic number is another one, a salt follows it, and each frame is encrypted (`sealing`). The digests
cover the encrypted frames: they show damage without the key.
"""

import errno
import hashlib
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Self

import msgspec
from msgspec import Struct

from rota.store import errors, sealing
from rota.store.sealing import Sealing
from rota.store.store_interface import Batch

#: The version of the layout; raised whenever an older Rota would misread it.
FORMAT: Final = 1
_MAGIC: Final = b"rota-log\n"
#: As long as the other.
_SEALED_MAGIC: Final = b"rota-slg\n"
_LENGTH_BYTES: Final = 8
#: Tells an altered length from a frame that was not written to its end.
_CHECK_BYTES: Final = 4
_DIGEST_BYTES: Final = hashlib.sha256().digest_size
#: No batch of a watch comes near this; a longer frame is damage.
_MOST_FRAME_BYTES: Final = 1 << 30


class Header(Struct, frozen=True, kw_only=True, tag="header"):
    """The header of a segment."""

    format: int
    #: The records continue the log after this revision.
    after: int


class Change(Struct, frozen=True, array_like=True, gc=False):
    """One change of one key."""

    key: str
    revision: int
    #: The new value; None if the key was deleted.
    value: bytes | None
    #: The revision that created this incarnation of the key.
    created: int


class Record(Struct, frozen=True, tag="changes"):
    """Changes that reached the follower together."""

    taken_at: float
    #: The log is complete up to this revision.
    revision: int
    changes: list[Change]


class End(Struct, frozen=True, tag="end"):
    """The last frame of a completed segment."""

    records: int


_FRAME: msgspec.msgpack.Decoder[Header | Record | End] = msgspec.msgpack.Decoder(Header | Record | End)


class SegmentWriter:
    """Writes one segment. A failed `append` leaves the file as it was before.

    An encrypted segment ends with a failure: the next frame would have the nonce of the one that failed, parts of which
    may be on the disk. So does any segment whose failed frame cannot be removed: a frame behind it would be damage.
    """

    def __init__(self, path: Path, file: BinaryIO, key: bytes | None) -> None:
        self.path: Final = path
        self._file: Final = file
        salt = b"" if key is None else sealing.salt()
        self._head: Final = _MAGIC if key is None else _SEALED_MAGIC + salt
        self._sealing: Final = None if key is None else Sealing(key, salt)
        self._failed = False
        self._digest = hashlib.sha256(self._head).digest()
        self._records = 0
        #: The size of the confirmed part.
        self.size = 0

    @classmethod
    def create(cls, path: Path, *, after: int, key: bytes | None = None) -> Self:
        """Begin a segment, durable with its name; a file of that name holds no confirmed record and is replaced."""
        # A log holds every secret of the cluster: only its owner may read it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        writer = cls(path, os.fdopen(descriptor, "wb", buffering=0), key)
        try:
            writer._file.write(writer._head)
            writer.size = len(writer._head)
            writer._write(Header(format=FORMAT, after=after))
            sync_folder(path.parent)
        except BaseException:
            writer._file.close()
            raise
        return writer

    def append(self, batch: Batch, taken_at: float) -> None:
        """Write a batch; it is durable when this returns."""
        changes = [Change(event.key, event.revision, event.value, event.created) for event in batch.events]
        self._write(Record(taken_at, batch.revision, changes))
        self._records += 1

    def complete(self) -> None:
        """Mark the segment as complete and close it."""
        try:
            if not self._failed:
                self._write(End(self._records))
        finally:
            self._file.close()

    def abandon(self) -> None:
        """Close the file as it is; its confirmed part stays readable."""
        self._file.close()

    def _write(self, content: Header | Record | End) -> None:
        if self._failed:
            raise OSError(errno.EIO, f"an earlier write to {self.path} failed")
        packed = zlib.compress(msgspec.msgpack.encode(content), level=1)
        if self._sealing is not None:
            packed = self._sealing.seal(packed)
        digest = hashlib.sha256(self._digest + packed).digest()
        length = len(packed).to_bytes(_LENGTH_BYTES, "big")
        frame = length + _check(length) + digest + packed
        try:
            written = 0
            while written < len(frame):
                written += self._file.write(frame[written:])
            os.fsync(self._file.fileno())
        except OSError:
            self._failed = True
            self._file.truncate(self.size)
            self._file.seek(self.size)
            self._failed = self._sealing is not None
            raise
        self._digest = digest
        self.size += len(frame)


class Segment(Struct, frozen=True):
    """What a segment's file says of itself."""

    path: Path
    after: int
    #: The log is complete up to this revision; `after` if there is no record.
    revision: int
    #: When its first and its last record were taken; None if there is none.
    first_at: float | None
    last_at: float | None
    complete: bool


def read(path: Path, *, key: bytes | None = None) -> Iterator[Record]:
    """The confirmed records of a segment, in order. Raises Corrupt for damage."""
    for content in _contents(path, key):
        if isinstance(content, Record):
            yield content


def inspect(path: Path, *, key: bytes | None = None) -> Segment | None:
    """Read the whole segment; None if not even its header was confirmed."""
    after: int | None = None
    revision, first_at, last_at, complete = 0, None, None, False
    for content in _contents(path, key):
        match content:
            case Header():
                after = revision = content.after
            case Record():
                revision, last_at = content.revision, content.taken_at
                first_at = content.taken_at if first_at is None else first_at
            case End():
                complete = True
    return None if after is None else Segment(path, after, revision, first_at, last_at, complete)


def _contents(path: Path, key: bytes | None) -> Iterator[Header | Record | End]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(len(_MAGIC))
        if start not in {_MAGIC, _SEALED_MAGIC}:
            if _MAGIC.startswith(start) or _SEALED_MAGIC.startswith(start):
                return
            raise errors.Corrupt(f"{path} is not a segment of Rota's log", "remove the file from the folder")
        opener = sealing.opening(path, file, sealed=start == _SEALED_MAGIC, key=key)
        digest = hashlib.sha256(start if opener is None else start + opener.salt).digest()
        records, first = 0, True
        while (packed := _frame(path, file, size, digest)) is not None:
            digest = hashlib.sha256(digest + packed).digest()
            content = _decode(path, packed if opener is None else opener.open(packed))
            if first is not isinstance(content, Header):
                raise _damaged(path, "its header is not at its beginning")
            if isinstance(content, End) and (content.records != records or file.tell() != size):
                raise _damaged(path, f"it holds {records} records and speaks of {content.records}")
            records += isinstance(content, Record)
            first = False
            yield content


def _frame(path: Path, file: BinaryIO, size: int, before: bytes) -> bytes | None:
    """The next frame, verified; None at the end of the confirmed part.

    What was appended after the file was opened, beyond `size`, is left to the next reader.
    """
    if size - file.tell() < _LENGTH_BYTES + _CHECK_BYTES + _DIGEST_BYTES:
        return None
    prefix = file.read(_LENGTH_BYTES + _CHECK_BYTES + _DIGEST_BYTES)
    length, check, digest = prefix[:_LENGTH_BYTES], prefix[_LENGTH_BYTES:-_DIGEST_BYTES], prefix[-_DIGEST_BYTES:]
    left = size - file.tell()
    if _check(length) != check:
        if file.read(left).strip(b"\0"):
            raise _damaged(path, "the length of a frame was altered")
        return None  # the file system had made room for a frame and not written it
    wanted = int.from_bytes(length, "big")
    packed = file.read(min(wanted, left, _MOST_FRAME_BYTES))
    if hashlib.sha256(before + packed).digest() == digest:
        return packed
    if wanted >= left:
        return None
    raise _damaged(path, "a frame in its middle was altered")


def _check(length: bytes) -> bytes:
    return zlib.crc32(length).to_bytes(_CHECK_BYTES, "big")


def _decode(path: Path, packed: bytes) -> Header | Record | End:
    unpacker = zlib.decompressobj()
    try:
        content = _FRAME.decode(unpacker.decompress(packed, _MOST_FRAME_BYTES))
    except (zlib.error, msgspec.DecodeError) as problem:
        raise _damaged(path, str(problem)) from problem
    if isinstance(content, Header) and content.format > FORMAT:
        raise errors.NewerFormat(str(path), content.format, FORMAT)
    return content


def _damaged(path: Path, why: str) -> errors.Corrupt:
    return errors.Corrupt(
        f"segment {path} is damaged: {why}", "restore to a moment before it, or use another copy; nothing was written"
    )


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names in it are as durable as the files."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
