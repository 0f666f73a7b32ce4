"""Translates SQLite's error codes into store errors with a remedy."""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from rota.store import errors

_FULL = {errno.ENOSPC, errno.EDQUOT}
#: With less free space than this, an I/O error is most likely caused by a full disk.
_LITTLE_BYTES = 256 * 1024
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise SQLite's errors on `path` as store errors."""
    try:
        yield
    except sqlite3.Error as problem:
        raise _translate(path, problem) from problem
    except PermissionError as problem:
        raise errors.AccessDenied(f"may not use {problem.filename or path}", "check its owner and mode") from problem
    except OSError as problem:
        if problem.errno in _FULL:
            raise _no_space(path) from problem
        raise errors.StoreError(f"cannot use {path}: {problem.strerror}", "check the disk and the path") from problem


def _no_space(path: Path) -> errors.NoSpace:
    return errors.NoSpace(
        f"no space left for {path}; the write was not kept, nothing before it is lost", "free disk space and retry"
    )


def _is_full(folder: Path) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _LITTLE_BYTES


def _translate(path: Path, problem: sqlite3.Error) -> errors.StoreError:
    # The low byte is the primary code; the rest details it.
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    if code in _DAMAGED:
        return errors.Corrupt(
            f"{path} is damaged or not a Rota store ({problem})", "restore a backup, or name another file"
        )
    # On a full disk SQLite reports an I/O error if it cannot create or grow the files beside the database.
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path.parent)):
        return _no_space(path)
    if code == sqlite3.SQLITE_READONLY:
        return errors.ReadOnly(f"{path} is read-only", "make the file and its folder writable")
    if code == sqlite3.SQLITE_CANTOPEN:
        return errors.AccessDenied(f"cannot open {path}", "check that it is a file and that its folder is writable")
    if code in _BUSY:
        return errors.Unavailable(f"{path} is held by another program", "close that program, or wait for it to finish")
    return errors.StoreError(f"SQLite failed on {path}: {problem}", "check the disk; restore a backup if it persists")
