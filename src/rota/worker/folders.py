"""The lock of a worker's folder: one worker at a time, and it knows the previous one.

Each start of a worker is an incarnation. A Lease of the previous incarnation is taken over only if that one is known to
be dead, which holding the folder's lock proves.
"""

import contextlib
import fcntl
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from rota.kit.errors import UserError

_LOCK: Final = "worker.lock"


class WorkerInstance(NamedTuple):
    """This incarnation of the worker, and the previous one; empty for the first."""

    name: str
    predecessor: str


@contextlib.contextmanager
def held(folder: Path) -> Iterator[WorkerInstance]:
    """Hold the folder's lock inside a `with` block; UserError if another worker holds it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / _LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"a worker runs in {folder}", "stop it, or give this one another folder") from None
        lock.seek(0)
        incarnation = WorkerInstance(secrets.token_hex(8), lock.read().strip())
        lock.seek(0)
        lock.truncate()
        lock.write(incarnation.name)
        lock.flush()
        yield incarnation


def is_held(folder: Path) -> bool:
    """Whether a worker holds the folder's lock."""
    try:
        with (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
