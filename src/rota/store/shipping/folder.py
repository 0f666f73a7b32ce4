"""A folder as the place of a continuous backup. The log is appended to a file and synced batch by batch."""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from rota.store import archive, errors
from rota.store.shipping import catalog
from rota.store.shipping.segments import SegmentWriter, sync_folder

_LOCK: Final = ".follower.lock"
_OWNER: Final = "store-identity"
_NEW_BASE: Final = ".base.new"
_PROBE: Final = ".probe"
#: A usual batch fits into this much.
_PROBE_BYTES: Final = 64 * 1024
#: A standby reads the part that is being written again and again.
PART_BYTES: Final = 8 * 1024 * 1024


class Folder:
    """Keeps a continuous backup in a folder of this machine."""

    pause_s: Final = 0.0

    def __init__(self, path: Path, *, key: bytes | None = None, part_bytes: int = PART_BYTES) -> None:
        self.name: Final = str(path)
        self.key: Final = key
        self.part_bytes: Final = part_bytes
        self._path: Final = path

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        """Create the folder, readable by its owner only, and keep other followers out of it."""
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise self._unusable(problem) from problem
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as problem:
                raise errors.StoreError(
                    f"another `rota backup` writes to {self._path}", "end it first, or name another folder"
                ) from problem
            yield
        finally:
            os.close(lock)

    def owner(self) -> str:
        """The content of a file."""
        try:
            return (self._path / _OWNER).read_text()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as problem:
            raise self._unusable(problem) from problem

    def _unusable(self, problem: OSError) -> errors.StoreError:
        return errors.StoreError(f"cannot use {self._path}: {problem.strerror}", "check the path and its mode")

    def belong_to(self, identity: str) -> None:
        """Write the file as a whole."""
        new = self._path / f".{_OWNER}.new"
        with new.open("w") as file:
            file.write(identity)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path / _OWNER)
        sync_folder(self._path)

    def catalog(self) -> catalog.Catalog:
        """What the folder holds."""
        return catalog.read(self._path, key=self.key)

    def local(self, path: Path) -> Path:
        """The file itself."""
        return path

    def forget(self, path: Path) -> None:
        """Nothing to do."""

    def parts(self, after: int) -> list[tuple[int, Path]]:
        """The segments, from the last one that begins at or before the revision."""
        found = catalog.segment_paths(self._path)
        first = max((number for number, (begins, _) in enumerate(found) if begins <= after), default=0)
        return found[first:]

    def prefetch(self, paths: Iterable[Path]) -> None:
        """Nothing to do."""

    def begin(self, after: int) -> SegmentWriter:
        """Begin a segment."""
        return SegmentWriter.create(catalog.segment_path(self._path, after), after=after, key=self.key)

    def draft(self) -> Path:
        """A file that no catalog shows."""
        return self._path / _NEW_BASE

    def keep_base(self, draft: Path) -> None:
        """Rename the file, and sync its name."""
        draft.replace(catalog.base_path(self._path, archive.header(draft, key=self.key).revision))
        sync_folder(self._path)

    def remove(self, path: Path) -> None:
        """Delete a file."""
        path.unlink(missing_ok=True)

    def probe(self) -> None:
        """Raise OSError if nothing can be written."""
        path = self._path / _PROBE
        try:
            with path.open("wb") as file:
                file.write(bytes(_PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        finally:
            path.unlink(missing_ok=True)
