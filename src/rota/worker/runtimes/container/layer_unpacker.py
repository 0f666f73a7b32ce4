"""A program that unpacks one layer of an image, from its standard input, into a root file system.

    python -m rota.worker.runtimes.container.layer_unpacker ROOT

It changes its root to the folder before it reads the layer: whatever links are in it, nothing outside can be written.
Whiteout files (`.wh.*`) remove files of lower layers.
"""

import bz2
import lzma
import os
import shutil
import sys
import tarfile
import zlib
from pathlib import Path
from typing import Final

_AWAY: Final = ".wh."
_ALL_AWAY: Final = ".wh..wh..opq"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
#: Imported early: after chroot there is no library to import them from.
_LOADED: Final = (bz2, lzma, zlib)


def unpack(archive: tarfile.TarFile, root: Path) -> None:
    """Unpack a layer above the content of `root`; only safe if that is the root of this process."""
    fresh: set[str] = set()
    for member in archive:
        name = member.name.lstrip("/").removeprefix("./")
        folder, _, base = name.rpartition("/")
        if base == _ALL_AWAY:
            _empty(root / folder, fresh, folder)
        elif base.startswith(_AWAY):
            _remove(root / folder / base.removeprefix(_AWAY))
        elif name:
            target = root / name
            if (target.is_symlink() or target.exists()) and not (member.isdir() and target.is_dir()):
                _remove(target)
            # If its folder is a link, the link's target, which may not exist yet.
            target.parent.resolve().mkdir(mode=0o755, parents=True, exist_ok=True)
            archive.extract(member, root, numeric_owner=True, filter="fully_trusted")
            fresh.add(name)


def _empty(folder: Path, fresh: set[str], name: str) -> None:
    """Opaque whiteout: remove what lower layers put into a folder, and keep the files of this one."""
    if folder.is_dir():
        for one in folder.iterdir():
            if f"{name}/{one.name}".lstrip("/") not in fresh:
                _remove(one)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def main() -> None:
    """Unpack standard input."""
    layer = os.fdopen(0, "rb")
    if layer.peek(len(_ZSTD)).startswith(_ZSTD):
        sys.exit("it is compressed with zstd; have it written with gzip")
    os.chroot(sys.argv[1])
    os.chdir("/")
    os.umask(0)
    with tarfile.open(fileobj=layer, mode="r|*") as archive:
        unpack(archive, Path("/"))


if __name__ == "__main__":
    main()
