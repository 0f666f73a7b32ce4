"""Where Rota keeps its data on a machine unless told otherwise."""

import os
from pathlib import Path


def data_folder() -> Path:
    """Where the data of this user's Rota lies: ROTA_HOME, or the platform's place for such things."""
    if home := os.environ.get("ROTA_HOME"):
        return Path(home).absolute()
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base).absolute() / "rota"
