"""A worker's folder: one worker at a time has it, and it knows who had it before.

Each start of a worker is an incarnation of its own. What the one before claimed is this one's only if that one is known
to be dead, which whoever holds its folder knows.
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
    """This start of the worker, and the one before; empty for the first."""

    name: str
    predecessor: str


@contextlib.contextmanager
def held(folder: Path) -> Iterator[WorkerInstance]:
    """Have the folder for as long as the context lasts; UserError if another worker has it."""
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
    """Whether a worker has the folder now."""
    try:
        with (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
