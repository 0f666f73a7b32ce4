"""The files of a continuous backup: which there are, which follow each other, which are no longer needed."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from rota.store import archive, errors
from rota.store.shipping import segments
from rota.store.shipping.segments import Segment

_BASE: Final = "base-"
_BASE_SUFFIX: Final = ".backup"
_LOG: Final = "log-"
_LOG_SUFFIX: Final = ".segment"
#: Wide enough for every revision, so that names sort as revisions do.
_DIGITS: Final = 20


class Base(Struct, frozen=True):
    """A base backup."""

    path: Path
    revision: int
    taken_at: float


class Window(Struct, frozen=True):
    """A part of history without a gap: every revision in it can be restored."""

    first_revision: int
    last_revision: int
    first_at: float
    last_at: float


class Catalog(Struct, frozen=True):
    """The content of a folder, each list in the order of revisions."""

    bases: list[Base]
    segments: list[Segment]

    @property
    def shipped(self) -> int:
        """The last confirmed revision; 0 if there is no base backup."""
        return max((window.last_revision for window in self.windows()), default=0)

    def chain(self, base: Base) -> Iterator[Segment]:
        """The segments that continue a base backup, up to the first gap."""
        reached = base.revision
        for segment in self.segments:
            if segment.after > reached:
                return
            if segment.revision > reached:
                yield segment
                reached = segment.revision

    def windows(self) -> list[Window]:
        """The parts of history that can be restored; windows that touch are one."""
        found: list[Window] = []
        for base in self.bases:
            last_revision, last_at = base.revision, base.taken_at
            for segment in self.chain(base):
                last_revision, last_at = segment.revision, segment.last_at or last_at
            if found and base.revision <= found[-1].last_revision:
                before = found.pop()
                last_at = max(last_at, before.last_at)
                found.append(Window(before.first_revision, last_revision, before.first_at, last_at))
            else:
                found.append(Window(base.revision, last_revision, base.taken_at, last_at))
        return found


def base_path(folder: Path, revision: int) -> Path:
    """The file of a base backup."""
    return folder / f"{_BASE}{revision:0{_DIGITS}}{_BASE_SUFFIX}"


def segment_path(folder: Path, after: int) -> Path:
    """The file of the segment that begins after a revision."""
    return folder / f"{_LOG}{after:0{_DIGITS}}{_LOG_SUFFIX}"


def segment_paths(folder: Path) -> list[tuple[int, Path]]:
    """The segments in a folder, and after which revision each begins."""
    found = _named(folder, _LOG, _LOG_SUFFIX)
    return [(int(path.name[len(_LOG) : -len(_LOG_SUFFIX)]), path) for path in found]


def read(folder: Path, *, key: bytes | None = None) -> Catalog:
    """Read what a folder holds. A damaged segment in the middle of the log is an error, a missing one is a gap.

    Files that the follower removes meanwhile are left out.
    """
    if not folder.is_dir():
        raise errors.StoreError(f"there is no folder {folder}", "name a folder that `rota backup --follow` wrote")
    bases = [_base(path, key) for path in _named(folder, _BASE, _BASE_SUFFIX)]
    logs = [_segment(path, key) for path in _named(folder, _LOG, _LOG_SUFFIX)]
    return Catalog([base for base in bases if base is not None], [segment for segment in logs if segment is not None])


def _base(path: Path, key: bytes | None) -> Base | None:
    try:
        header = archive.header(path, key=key)
    except errors.StoreError:
        if path.exists():
            raise
        return None
    return Base(path, header.revision, header.taken_at)


def _segment(path: Path, key: bytes | None) -> Segment | None:
    try:
        return segments.inspect(path, key=key)
    except FileNotFoundError:
        return None


def _named(folder: Path, prefix: str, suffix: str) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.startswith(prefix)
        and path.name.endswith(suffix)
        and path.name[len(prefix) : -len(suffix)].isdigit()
    )


def obsolete(bases: Sequence[Base], logs: Sequence[Segment], *, before: float) -> Iterable[Path]:
    """The files that no moment since `before` needs.

    The newest base backup taken at or before that moment stays, with the whole log since it. The last segment stays as
    long as it is not complete: it may be the one that is being written.
    """
    needed = [base for base in bases if base.taken_at <= before]
    if not needed:
        return
    oldest = needed[-1]
    for base in bases:
        if (base.revision, base.taken_at) < (oldest.revision, oldest.taken_at):
            yield base.path
    for segment in logs:
        if (segment.complete or segment is not logs[-1]) and segment.revision <= oldest.revision:
            yield segment.path
