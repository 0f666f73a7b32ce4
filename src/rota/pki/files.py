"""Files and folders that only their owner may read; files are replaced atomically."""

import os
import secrets
from pathlib import Path

from rota.kit import errors


class PrivateFileError(errors.UserError):
    """A private file or folder cannot be created."""


def make_private_folder(path: Path) -> None:
    """Create a folder that only this user may enter, unless it exists."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise PrivateFileError(
            f"cannot make the folder {path}: {error.strerror}", "name one that this user may write to"
        ) from None


def write_private(path: Path, content: bytes) -> None:
    """Replace a file atomically: a concurrent reader sees the old or the new content; other users see neither."""
    unready = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(unready, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unready.replace(path)
    except OSError as error:
        unready.unlink(missing_ok=True)
        raise PrivateFileError(
            f"cannot write {path}: {error.strerror}", "name a folder that this user may write to"
        ) from None
