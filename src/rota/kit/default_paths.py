"""Where Rota keeps its data on a machine unless told otherwise, and which folders other users cannot reach."""

import os
from pathlib import Path
from typing import Final

_OTHERS_MAY_PASS: Final = 0o001


def data_folder() -> Path:
    """Where the data of this user's Rota lies: ROTA_HOME, or the platform's place for such things."""
    if home := os.environ.get("ROTA_HOME"):
        return Path(home).absolute()
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base).absolute() / "rota"


def closed(path: Path) -> Path | None:
    """The highest folder on the way to a path through which other users may not pass; None if there is none."""
    for folder in (*reversed(path.parents), path):
        if folder.is_dir() and not folder.stat().st_mode & _OTHERS_MAY_PASS:
            return folder
    return None
