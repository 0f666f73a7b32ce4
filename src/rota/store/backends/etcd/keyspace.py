"""Maps keys and revisions to etcd's.

Key `/pods/a` is etcd's `<prefix>data/pods/a`; the store's own meta keys are under `<prefix>meta/`. A revision is etcd's
plus a *base*, which is 0 until a restore raises it, so that the restored store continues above the revisions of the
store that was backed up. etcd counts the changes of all its keys: revisions have gaps where other clients write to the
same etcd, or where a meta key changes.

Meta keys: `format` (the version of this layout), `base`, `restoring` (a restore began and has not ended) and `mark`,
which is written only to advance the revision.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from rota.store import errors, store_interface
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd import faults
from rota.store.store_interface import Entry, Event

#: The version of the layout; raised whenever an older Rota would misread it.
FORMAT: Final = 1


class Span(Struct, frozen=True):
    """etcd's keys from `start` up to, not including, `end`."""

    start: bytes
    end: bytes


class Keyspace:
    """The mapping, and the values of the meta keys."""

    def __init__(self, prefix: str, where: str) -> None:
        #: For messages.
        self.where = f"{where}, prefix {prefix}"
        root = prefix.encode()
        self._data = root + b"data"
        self._meta = root + b"meta/"
        self.whole = _beginning_with(root)
        self.data = _beginning_with(self._data)
        self.notes = _beginning_with(self._meta)
        self.base = 0
        self.floor = 0
        #: The token of a restore that has not ended.
        self.restoring = b""
        #: The highest revision that etcd has reported, as a store revision.
        self.seen = 0
        #: etcd's revision at which the meta keys were read: older events of them are ignored.
        self._known = 0

    # Keys

    def key(self, key: str) -> bytes:
        """etcd's key for a key."""
        return self._data + key.encode()

    def note(self, name: str) -> bytes:
        """etcd's key for a meta key."""
        return self._meta + name.encode()

    def span(self, prefix: str, after: str) -> Span:
        """The keys that begin with `prefix` and come after `after`."""
        start, end = self.key(prefix), self.key(store_interface.range_end(prefix)) if prefix else self.data.end
        # A key's successor is the key with a NUL appended.
        return Span(max(start, self.key(after) + b"\0") if after else start, end)

    def entry(self, kv: pb.KeyValue) -> Entry:
        """Convert etcd's state of a key."""
        return Entry(
            kv.key[len(self._data) :].decode(),
            kv.value,
            kv.mod_revision + self.base,
            kv.create_revision + self.base,
            kv.lease,
        )

    def events(self, events: Iterable[pb.Event], *, after: int) -> list[Event]:
        """Convert etcd's changes of keys above revision `after`; changes of meta keys are left out."""
        known = self.theirs(after)
        return [
            self._event(event)
            for event in events
            if event.kv.mod_revision > known and event.kv.key.startswith(self._data)
        ]

    def event(self, key: str, revision: int, value: bytes | None, before: pb.KeyValue) -> Event:
        """Convert a change and the previous state; an unset message reads as an empty one, whose revision is 0."""
        if not before.mod_revision:
            return Event(key, revision, value, revision, None)
        base = self.base
        return Event(key, revision, value, before.create_revision + base, before.value, before.mod_revision + base)

    def _event(self, event: pb.Event) -> Event:
        kv, deleted = event.kv, event.type == pb.Event.DELETE
        key = kv.key[len(self._data) :].decode()
        if not event.prev_kv.mod_revision and (deleted or kv.create_revision != kv.mod_revision):
            # etcd looks up the previous state when it sends the event; a compaction may have removed it before.
            raise faults.Compacted(
                f"{self.where} compacted the value of {key} before revision {self.ours(kv.mod_revision)}"
            )
        return self.event(key, kv.mod_revision + self.base, None if deleted else kv.value, event.prev_kv)

    # Revisions

    def ours(self, revision: int) -> int:
        """The store revision of a revision that etcd just reported."""
        revision += self.base
        if revision > self.seen:
            self.seen = revision
        return revision

    def theirs(self, revision: int) -> int:
        """etcd's revision of a store revision; 0 or less for one from before a restore."""
        return revision - self.base

    def raise_floor(self, floor: int) -> None:
        """History up to `floor` is gone."""
        self.floor = max(self.floor, floor)

    # Notes

    def read(self, kvs: Iterable[pb.KeyValue], revision: int) -> int:
        """Set all meta keys, as of etcd's newest `revision`; returns its store revision."""
        notes = {kv.key[len(self._meta) :].decode(): kv for kv in kvs}
        if "format" not in notes:
            raise errors.BadAddress(f"there is no store at {self.where}", "check the URL")
        found = _number(notes["format"], self.where)
        if found > FORMAT:
            raise errors.NewerFormat(self.where, found, FORMAT)
        if revision > self._known:
            self._known = revision
            for name in ("restoring", "base"):
                self._take(name, notes.get(name))
        return self.ours(revision)

    def forget(self) -> None:
        """Forget everything: this is another etcd."""
        self.floor = self.seen = self._known = 0

    def restored(self, base: int, revision: int) -> int:
        """This store's restore ended at etcd's `revision` with a new base; returns the newest store revision."""
        self.base = base
        self.floor = self.seen = revision + base
        self.restoring = b""
        self._known = revision
        return self.floor

    def heed(self, events: Iterable[pb.Event]) -> None:
        """Apply changes of the meta keys from a watch over the whole prefix."""
        revision = 0
        for event in events:
            revision = event.kv.mod_revision
            if revision > self._known and event.kv.key.startswith(self._meta):
                gone = event.type == pb.Event.DELETE
                self._take(event.kv.key[len(self._meta) :].decode(), None if gone else event.kv)
        self._known = max(self._known, revision)

    def _take(self, name: str, kv: pb.KeyValue | None) -> None:
        """Set one meta key; a deleted one means 0 or empty."""
        match name:
            case "restoring":
                self.restoring = kv.value if kv else b""
            case "base" if kv:
                base = _number(kv, self.where)
                if base != self.base:
                    self.base = base
                    self.seen = kv.mod_revision + base
                # A restore ends by writing its base: history begins there.
                self.raise_floor(kv.mod_revision + base)


def number(value: int) -> bytes:
    """A number as meta keys hold it."""
    return b"%d" % value


def _number(kv: pb.KeyValue, where: str) -> int:
    try:
        return int(kv.value)
    except ValueError:
        raise errors.Corrupt(
            f"the key {kv.key.decode(errors='replace')} of {where} is not Rota's", "choose another prefix"
        ) from None


def _beginning_with(start: bytes) -> Span:
    # Ends in "/" or a letter, so the last byte can be incremented.
    return Span(start, start[:-1] + bytes([start[-1] + 1]))
