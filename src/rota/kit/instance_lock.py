"""A folder that one process holds at a time, and its holder's name, which is the same at every start.

    with tenure.held(folder / "master.lock") as name: ...

The kernel lets go of the lock when its holder dies, however that comes about. So whoever holds it knows that all
others who had the name are dead, and may take over at once what they held. The name goes by the very file and not by
what is in it alone: the copy of a folder has another one.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from rota.kit import errors


@contextlib.contextmanager
def held(path: Path) -> Iterator[str]:
    """Hold a folder by the lock file in it, as the one with this name; a `UserError` if another process does."""
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.UserError(
                f"Rota runs already with the data in {path.parent}",
                "stop it first, or choose another folder with --data",
            ) from None
        lock.seek(0)
        token = lock.read()
        if not token:
            token = secrets.token_hex(16)
            lock.write(token)
            lock.flush()
        yield _name(token, os.fstat(lock.fileno()))


def holder(path: Path) -> str:
    """The name of whoever holds, or last held, a folder by this lock file."""
    return _name(path.read_text(), path.stat())


def _name(token: str, found: os.stat_result) -> str:
    digest = hashlib.blake2b(f"{token} {found.st_dev} {found.st_ino}".encode(), digest_size=8)
    return f"{socket.gethostname()}_{digest.hexdigest()}"
