"""How long unpacked images are kept: as long as somebody uses them, and a week beyond.

Several workers of a machine may share the folder, so a file beside each root file system says when it was last used;
every worker brings those of its own containers up to date. What nobody has used for a week is unpacked again when it is
asked for again.
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
    """A root file system is used."""
    mark = _mark(root)
    with contextlib.suppress(OSError):
        mark.touch(mode=0o644)
        os.utime(mark, (now, now))


def collect(folder: Path, *, used: Iterable[Path], now: float) -> list[str]:
    """Take away what nobody has used for long; the names of what is gone."""
    for root in used:
        if root.parent == folder:
            use(root, now)
    gone = []
    for root in sorted(one for one in folder.glob("*") if one.is_dir() and not one.name.startswith(".")):
        try:
            last = _mark(root).stat().st_mtime
        except FileNotFoundError:
            use(root, now)  # from before there were marks
            continue
        if now - last > KEPT_S:
            _remove(root)
            gone.append(root.name)
    return gone


def _remove(root: Path) -> None:
    """In one step for those who look: half an image must not be found."""
    with tempfile.TemporaryDirectory(prefix=".gone-", dir=root.parent, ignore_cleanup_errors=True) as grave:
        root.rename(Path(grave, root.name))
        _mark(root).unlink(missing_ok=True)
        shutil.rmtree(grave, ignore_errors=True)


def _mark(root: Path) -> Path:
    return root.with_name(root.name + _MARK)
