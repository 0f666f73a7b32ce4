"""Default folders of Rota's data on a machine, and which folders other users cannot enter."""

import os
from pathlib import Path
from typing import Final

_OTHERS_MAY_PASS: Final = 0o001


def data_folder() -> Path:
    """The data folder of this user: ROTA_HOME, or the platform's default."""
    if home := os.environ.get("ROTA_HOME"):
        return Path(home).absolute()
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base).absolute() / "rota"


def closed(path: Path) -> Path | None:
    """The topmost folder on a path that other users cannot enter; None if there is none."""
    for folder in (*reversed(path.parents), path):
        if folder.is_dir() and not folder.stat().st_mode & _OTHERS_MAY_PASS:
            return folder
    return None
