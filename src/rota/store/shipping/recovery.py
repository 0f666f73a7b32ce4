"""The state of a store at a moment, computed from a continuous backup."""

from msgspec import Struct

from rota.store import archive, errors, holds
from rota.store.shipping import segments
from rota.store.shipping.catalog import Base, Catalog
from rota.store.shipping.places import Place
from rota.store.store_interface import Entry


class Moment(Struct, frozen=True):
    """A state that can be restored: a base backup, and how far the log is applied to it."""

    base: Base
    revision: int


def moment(place: Place, catalog: Catalog, *, revision: int | None = None, at: float | None = None) -> Moment:
    """Find a state: that of a revision, the last one at or before a time, or the newest one.

    A time means the follower's clock. If that clock was set back, the latest of several matching states is meant.
    """
    if not catalog.bases:
        raise errors.StoreError(f"{place.name} holds no base backup", "run `rota backup --follow` first")
    if at is not None:
        return _at_time(place, catalog, at)
    if revision is None:
        revision = catalog.shipped
    for base in reversed(catalog.bases):
        if base.revision <= revision:
            if revision <= _reach(catalog, base):
                return Moment(base, revision)
            break
    raise errors.StoreError(f"revision {revision} is not in the backup", _windows_text(catalog))


def _reach(catalog: Catalog, base: Base) -> int:
    return max((segment.revision for segment in catalog.chain(base)), default=base.revision)


def _at_time(place: Place, catalog: Catalog, at: float) -> Moment:
    windows = catalog.windows()
    if not any(window.first_at <= at for window in windows):
        raise errors.StoreError("the backup begins after that time", _windows_text(catalog))
    for base in reversed(catalog.bases):
        if base.taken_at > at:
            continue
        found = base.revision
        for segment in catalog.chain(base):
            if segment.first_at is None or segment.first_at > at:
                continue
            if segment.last_at is not None and segment.last_at <= at:
                found = max(found, segment.revision)
                continue
            for record in segments.read(place.local(segment.path), key=place.key):
                if record.taken_at <= at:
                    found = max(found, record.revision)
        return Moment(base, found)
    raise AssertionError("a window begins with a base backup")


def _windows_text(catalog: Catalog) -> str:
    parts = [f"{window.first_revision} to {window.last_revision}" for window in catalog.windows()]
    return f"it holds the revisions {', '.join(parts)}; `rota backup DIR --list` shows their times"


def state(place: Place, catalog: Catalog, wanted: Moment) -> list[Entry]:
    """The entries at a moment, in key order. Leases are not kept; holds on history end with their store."""
    base = place.local(wanted.base.path)
    if archive.verify(base, key=place.key).revision != wanted.base.revision:
        raise _renamed(wanted.base.path.name)
    entries = {entry.key: entry for entry in archive.entries(base, key=place.key)}
    parts = [segment for segment in catalog.chain(wanted.base) if segment.after < wanted.revision]
    place.prefetch(segment.path for segment in parts)
    for segment in parts:
        reached = segment.after
        for record in segments.read(place.local(segment.path), key=place.key):
            reached = record.revision
            for change in record.changes:
                if wanted.base.revision < change.revision <= wanted.revision:
                    _apply(entries, change)
        if reached < segment.revision:
            raise _renamed(segment.path.name)
    return [entries[key] for key in sorted(entries) if not key.startswith(holds.PREFIX)]


def _renamed(name: str) -> errors.Corrupt:
    """In a bucket, the catalog is made from names: a file that holds something else must not be taken for its name."""
    return errors.Corrupt(
        f"{name} does not hold what its name says", "restore to a moment before it, or use another copy"
    )


def _apply(entries: dict[str, Entry], change: segments.Change) -> None:
    if change.value is None:
        entries.pop(change.key, None)
    else:
        entries[change.key] = Entry(change.key, change.value, change.revision, change.created)
