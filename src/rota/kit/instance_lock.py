"""A lock on a folder, and the instance name of its holder, which survives restarts.

    with instance_lock.held(folder / "master.lock") as name: ...

The kernel releases the lock when its holder dies. So the holder knows that every earlier process with this name is
dead, and can take over its leases at once. The name depends on the lock file itself, not only on its content: a copied
folder gets another name.
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
    """Hold the lock file of a folder under its instance name; `UserError` if another process holds it."""
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
    """The instance name of the process that holds, or last held, this lock file."""
    return _name(path.read_text(), path.stat())


def _name(token: str, found: os.stat_result) -> str:
    digest = hashlib.blake2b(f"{token} {found.st_dev} {found.st_ino}".encode(), digest_size=8)
    return f"{socket.gethostname()}_{digest.hexdigest()}"
