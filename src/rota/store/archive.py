"""Backups: a store at one revision, in one file from which any backend can be restored.

The file has a magic number, frames, and a SHA-256 of both. A frame is a length and a compressed MessagePack value:
first the header, then lists of entries, then the number of entries. A backup is written to a temporary file and renamed
when complete, so a file of that name is always complete. A restore verifies the whole file before it writes
anything. With a key, the magic number is another one, a salt follows it, and each frame is encrypted (`sealing`).
"""

import asyncio
import contextlib
import hashlib
import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from msgspec import Struct

from rota.kit import clock
from rota.store import errors, holds, sealing
from rota.store.sealing import Sealing
from rota.store.store_interface import Entry, Page, Store

#: The version of the layout; raised whenever an older Rota would misread it.
FORMAT = 1
_MAGIC = b"rota-backup\n"
#: As long as the other.
_SEALED_MAGIC = b"rota-sealed\n"
_DIGEST_BYTES = hashlib.sha256().digest_size
#: At most this many entries in a frame: about a megabyte of usual objects ...
_PAGE = 500
#: ... and at most this many bytes of values, unless a single value is larger.
_FRAME_BYTES = 16 * 1024 * 1024
#: The largest frame that a backup writes; a longer one means that the file is not a backup.
_MOST_FRAME_BYTES = 1 << 30


class Header(Struct, frozen=True, kw_only=True):
    """The header of a backup."""

    format: int
    revision: int
    taken_at: float


class Summary(Struct, frozen=True, kw_only=True):
    """What a backup contains, or what a restore wrote."""

    entries: int
    revision: int
    size_bytes: int


class _Version(Struct):
    """The part of a header that every version has."""

    format: int


_T = TypeVar("_T")
_VERSION = msgspec.msgpack.Decoder(_Version)
_HEADER = msgspec.msgpack.Decoder(Header)
_BODY: msgspec.msgpack.Decoder[list[Entry] | int] = msgspec.msgpack.Decoder(list[Entry] | int)


def _ignore(entries: int) -> None:
    """A progress callback that does nothing."""


async def backup(
    store: Store,
    path: Path,
    *,
    time: clock.Clock,
    progress: Callable[[int], None] = _ignore,
    key: bytes | None = None,
) -> Summary:
    """Write the current state of `store` to `path` while it stays in use; `progress` gets the number of entries
    done. With a `key`, the file is encrypted.
    """
    unready = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with _translated(path):
            file = await asyncio.to_thread(_create, unready, path)
            with file:
                entries, revision = await _write(store, _Output(file, key), time, progress)
                await asyncio.to_thread(_finish, file)
            size = unready.stat().st_size
            unready.replace(path)
            await asyncio.to_thread(_keep_name, path)
    finally:
        unready.unlink(missing_ok=True)
    return Summary(entries=entries, revision=revision, size_bytes=size)


class _Output:
    """A backup that is being written: frames, and the digest of everything so far."""

    def __init__(self, file: BinaryIO, key: bytes | None) -> None:
        self._file = file
        salt = b"" if key is None else sealing.salt()
        self._sealing = None if key is None else Sealing(key, salt)
        head = _MAGIC if key is None else _SEALED_MAGIC + salt
        self._digest = hashlib.sha256(head)
        file.write(head)

    def frame(self, content: Header | list[Entry] | int) -> None:
        """Write a frame."""
        packed = zlib.compress(msgspec.msgpack.encode(content), level=1)
        if self._sealing is not None:
            packed = self._sealing.seal(packed)
        frame = len(packed).to_bytes(8, "big") + packed
        self._digest.update(frame)
        self._file.write(frame)

    def end(self) -> None:
        """Write the digest."""
        self._file.write(self._digest.digest())


async def _write(store: Store, file: _Output, time: clock.Clock, progress: Callable[[int], None]) -> tuple[int, int]:
    """Write all frames and the digest; returns the number of entries and their revision."""
    page, taken_at = await store.list("", limit=_PAGE), time.now()
    hold = holds.Hold(store, page.revision, time)
    try:
        return await _write_pages(store, file, page, taken_at, hold, progress)
    finally:
        await hold.release()


async def _write_pages(
    store: Store, file: _Output, page: Page, taken_at: float, hold: holds.Hold, progress: Callable[[int], None]
) -> tuple[int, int]:
    revision, count = page.revision, 0
    file.frame(Header(format=FORMAT, revision=revision, taken_at=taken_at))
    while page.entries:
        for entries in _frames_of(page.entries):
            await asyncio.to_thread(file.frame, entries)
        count += len(page.entries)
        progress(count)
        if not page.remaining:
            break
        await hold.keep()  # a backup of a large store can take longer than history is kept
        page = await store.list("", limit=_PAGE, after=page.entries[-1].key, revision=revision)
    file.frame(count)
    file.end()
    return count, revision


def _frames_of(entries: list[Entry]) -> Iterator[list[Entry]]:
    """Split a page into parts that each fit a frame."""
    frame: list[Entry] = []
    size = 0
    for entry in entries:
        if frame and size + len(entry.value) > _FRAME_BYTES:
            yield frame
            frame, size = [], 0
        frame.append(entry)
        size += len(entry.value)
    yield frame


def _create(unready: Path, path: Path) -> BinaryIO:
    if path.exists() and not path.is_file():
        # A device, for example: the finished backup would replace it.
        raise errors.StoreError(f"{path} is not an ordinary file", "name a file; it may be a new one")
    # A backup holds every secret of the cluster: only its owner may read it.
    return os.fdopen(os.open(unready, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _finish(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _keep_name(path: Path) -> None:
    """Sync the folder, so that the file's name is as durable as its content."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


async def restore(store: Store, path: Path, *, key: bytes | None = None) -> Summary:
    """Fill an empty store from a backup that `verify` accepted."""
    found = await asyncio.to_thread(verify, path, key=key)
    revision_range = await store.load(entries(path, key=key), revision=found.revision)
    return Summary(entries=found.entries, revision=revision_range.revision, size_bytes=found.size_bytes)


def verify(path: Path, *, key: bytes | None = None) -> Summary:
    """Read the whole file; returns its summary, or raises if anything is wrong."""
    with _translated(path), path.open("rb") as file:
        _verify_digest(path, file)
        frames = _frames(path, file, _opener(path, file, key))
        header = _header(path, next(frames, b""))
        count = -1
        found = 0
        for frame in frames:
            content = _decode(path, frame, _BODY)
            if isinstance(content, int):
                count = content
            else:
                found += len(content)
        if count != found:
            raise _damaged(path, f"it holds {found} entries and speaks of {count}")
    return Summary(entries=count, revision=header.revision, size_bytes=path.stat().st_size)


def header(path: Path, *, key: bytes | None = None) -> Header:
    """Read only the header of a backup."""
    with _translated(path), path.open("rb") as file:
        return _header(path, next(_frames(path, file, _opener(path, file, key)), b""))


def _not_a_backup(path: Path) -> errors.Corrupt:
    return errors.Corrupt(f"{path} is not a backup of Rota", "name a file that `rota backup` wrote")


def _verify_digest(path: Path, file: BinaryIO) -> None:
    """Check the digest at the file's end, and return to the beginning."""
    size = path.stat().st_size
    magic = file.read(len(_MAGIC))
    if magic not in {_MAGIC, _SEALED_MAGIC}:
        raise _not_a_backup(path)
    digest = hashlib.sha256(magic)
    left = size - len(_MAGIC) - _DIGEST_BYTES
    while left > 0:
        piece = file.read(min(left, 1 << 20))
        if not piece:
            break
        digest.update(piece)
        left -= len(piece)
    if left or file.read() != digest.digest():
        raise _damaged(path, "it is truncated or was altered")
    file.seek(0)


def _opener(path: Path, file: BinaryIO, key: bytes | None) -> Sealing | None:
    """What opens the frames; None if they are not encrypted. Reads the file's beginning up to the first frame."""
    magic = file.read(len(_MAGIC))
    if magic not in {_MAGIC, _SEALED_MAGIC}:
        raise _not_a_backup(path)
    return sealing.opening(path, file, sealed=magic == _SEALED_MAGIC, key=key)


def entries(path: Path, *, key: bytes | None = None) -> Iterator[Entry]:
    """The entries of a file that `verify` accepted."""
    with path.open("rb") as file:
        frames = _frames(path, file, _opener(path, file, key))
        next(frames)
        for frame in frames:
            content = _decode(path, frame, _BODY)
            if not isinstance(content, int):
                yield from content


def _frames(path: Path, file: BinaryIO, opener: Sealing | None) -> Iterator[bytes]:
    """The frames from the current position to the digest, unpacked."""
    end = path.stat().st_size - _DIGEST_BYTES
    while file.tell() < end:
        size = int.from_bytes(file.read(8), "big")
        if size > min(end - file.tell(), _MOST_FRAME_BYTES):
            raise _damaged(path, "a frame is longer than the file")
        packed = file.read(size)
        if opener is not None:
            packed = opener.open(packed)
        unpacker = zlib.decompressobj()
        try:
            frame = unpacker.decompress(packed, _MOST_FRAME_BYTES)
        except zlib.error as problem:
            raise _damaged(path, str(problem)) from problem
        if unpacker.unconsumed_tail:
            raise _damaged(path, "a frame is too large")
        yield frame


def _header(path: Path, frame: bytes) -> Header:
    # Only the version first: a newer header may have fields that this version cannot read.
    version = _decode(path, frame, _VERSION).format
    if version > FORMAT:
        raise errors.NewerFormat(str(path), version, FORMAT)
    return _decode(path, frame, _HEADER)


def _decode(path: Path, frame: bytes, decoder: msgspec.msgpack.Decoder[_T]) -> _T:
    try:
        return decoder.decode(frame)
    except msgspec.DecodeError as problem:
        raise _damaged(path, str(problem)) from problem


def _damaged(path: Path, why: str) -> errors.Corrupt:
    return errors.Corrupt(f"backup {path} is damaged: {why}", "use another backup; nothing was written")


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Translate errors of the operating system about the file."""
    try:
        yield
    except OSError as problem:
        raise errors.StoreError(
            f"cannot use {path}: {problem.strerror}", "check the path, its mode and the disk"
        ) from problem
