"""Files that only their owner may read, put in place as a whole."""

import os
import secrets
from pathlib import Path

from rota.kit import errors


class PrivateFileError(errors.UserError):
    """A private file cannot be written."""


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step: whoever reads meanwhile sees the old or the new one, and nobody else sees either."""
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
