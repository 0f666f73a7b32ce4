"""How our keys and revisions lie in etcd's.

Our key `/pods/a` is etcd's `<prefix>data/pods/a`; beside it, under `<prefix>meta/`, the store keeps notes on itself.
Our revision is etcd's plus a *base*, which is 0 until a restore raises it, so that the restored store continues
above the revisions of the one that was backed up. etcd counts the changes of all its keys: our revisions have gaps
where others write to the same etcd, or where a note changes.

The notes: `format` (the version of this layout), `base`, `restoring` (a restore began and has not ended) and `mark`,
whose changes mean nothing but that time has passed.
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
    """The mapping, and what the notes say."""

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
        #: The highest revision that etcd told us of, in our numbers.
        self.seen = 0
        #: etcd's revision as of which the notes are known: older news of them is no news.
        self._known = 0

    # Keys

    def key(self, key: str) -> bytes:
        """etcd's name of a key."""
        return self._data + key.encode()

    def note(self, name: str) -> bytes:
        """etcd's name of a note."""
        return self._meta + name.encode()

    def span(self, prefix: str, after: str) -> Span:
        """The keys that begin with `prefix` and lie behind `after`."""
        start, end = self.key(prefix), self.key(store_interface.range_end(prefix)) if prefix else self.data.end
        # A key's successor is the key with a NUL behind it.
        return Span(max(start, self.key(after) + b"\0") if after else start, end)

    def entry(self, kv: pb.KeyValue) -> Entry:
        """etcd's state of a key as ours."""
        return Entry(
            kv.key[len(self._data) :].decode(),
            kv.value,
            kv.mod_revision + self.base,
            kv.create_revision + self.base,
            kv.lease,
        )

    def events(self, events: Iterable[pb.Event], *, after: int) -> list[Event]:
        """etcd's changes of keys above revision `after` as ours; changes of notes are left out."""
        known = self.theirs(after)
        return [
            self._event(event)
            for event in events
            if event.kv.mod_revision > known and event.kv.key.startswith(self._data)
        ]

    def event(self, key: str, revision: int, value: bytes | None, before: pb.KeyValue) -> Event:
        """A change of a key from what it was before; an unset message reads as an empty one, whose revision is 0."""
        if not before.mod_revision:
            return Event(key, revision, value, revision, None)
        base = self.base
        return Event(key, revision, value, before.create_revision + base, before.value, before.mod_revision + base)

    def _event(self, event: pb.Event) -> Event:
        kv, deleted = event.kv, event.type == pb.Event.DELETE
        key = kv.key[len(self._data) :].decode()
        if not event.prev_kv.mod_revision and (deleted or kv.create_revision != kv.mod_revision):
            # etcd looks up what was before when it sends the event; a compaction may have been quicker.
            raise faults.Compacted(
                f"{self.where} compacted what {key} held before revision {self.ours(kv.mod_revision)}"
            )
        return self.event(key, kv.mod_revision + self.base, None if deleted else kv.value, event.prev_kv)

    # Revisions

    def ours(self, revision: int) -> int:
        """Our number of etcd's revision, which etcd just told us."""
        revision += self.base
        if revision > self.seen:
            self.seen = revision
        return revision

    def theirs(self, revision: int) -> int:
        """etcd's number of a revision of ours; 0 or less for one from before a restore."""
        return revision - self.base

    def raise_floor(self, floor: int) -> None:
        """History up to `floor` is gone."""
        self.floor = max(self.floor, floor)

    # Notes

    def read(self, kvs: Iterable[pb.KeyValue], revision: int) -> int:
        """Take in all notes, as they stand at etcd's newest `revision`; returns our number of it."""
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
        """Know nothing again: this etcd is not the one that we knew."""
        self.floor = self.seen = self._known = 0

    def restored(self, base: int, revision: int) -> int:
        """A restore of our own ended at etcd's `revision` with a new base; returns our newest revision."""
        self.base = base
        self.floor = self.seen = revision + base
        self.restoring = b""
        self._known = revision
        return self.floor

    def heed(self, events: Iterable[pb.Event]) -> None:
        """Take in what a watch over the whole prefix says of the notes."""
        revision = 0
        for event in events:
            revision = event.kv.mod_revision
            if revision > self._known and event.kv.key.startswith(self._meta):
                gone = event.type == pb.Event.DELETE
                self._take(event.kv.key[len(self._meta) :].decode(), None if gone else event.kv)
        self._known = max(self._known, revision)

    def _take(self, name: str, kv: pb.KeyValue | None) -> None:
        """Take in one note; one that is gone says 0 or nothing."""
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
    """A number as the notes hold it."""
    return b"%d" % value


def _number(kv: pb.KeyValue, where: str) -> int:
    try:
        return int(kv.value)
    except ValueError:
        raise errors.Corrupt(
            f"the key {kv.key.decode(errors='replace')} of {where} is not Rota's", "choose another prefix"
        ) from None


def _beginning_with(start: bytes) -> Span:
    # Ends in "/" or a letter, so the last byte can be counted up.
    return Span(start, start[:-1] + bytes([start[-1] + 1]))
