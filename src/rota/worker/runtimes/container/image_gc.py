"""Garbage collection of unpacked images: they are kept while they are used, and for a week after.

Several workers of a machine may share the folder, so a file beside each root file system has the time of its last use;
every worker updates those of its own containers. An image that was removed is unpacked again when it is needed.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

KEPT_S: Final = 7 * 24 * 3600.0
_MARK: Final = ".used"


def use(root: Path, now: float) -> None:
    """Record the use of a root file system."""
    mark = _mark(root)
    with contextlib.suppress(OSError):
        mark.touch(mode=0o644)
        os.utime(mark, (now, now))


def collect(folder: Path, *, used: Iterable[Path], now: float) -> list[str]:
    """Remove images that were not used for a week; returns their names."""
    for root in used:
        if root.parent == folder:
            use(root, now)
    gone = []
    for root in sorted(one for one in folder.glob("*") if one.is_dir() and not one.name.startswith(".")):
        try:
            last = _mark(root).stat().st_mtime
        except FileNotFoundError:
            use(root, now)  # unpacked before last uses were recorded
            continue
        if now - last > KEPT_S:
            _remove(root)
            gone.append(root.name)
    return gone


def _remove(root: Path) -> None:
    """Atomic for readers: half an image must not be found."""
    with tempfile.TemporaryDirectory(prefix=".gone-", dir=root.parent, ignore_cleanup_errors=True) as grave:
        root.rename(Path(grave, root.name))
        _mark(root).unlink(missing_ok=True)
        shutil.rmtree(grave, ignore_errors=True)


def _mark(root: Path) -> Path:
    return root.with_name(root.name + _MARK)
