"""The store in memory: for tests, simulations and temporary clusters.

Several stores of one process may share a `Database`; they then behave like several processes on one database.
`memory://` opens a private one, `memory://NAME` a shared one. The data ends with the process.
"""

import bisect
from collections.abc import Callable, Iterable, Sequence

from rota.kit import clock
from rota.store import errors, store_interface, write_plan
from rota.store.engine import Applied, check_revision
from rota.store.store_interface import Entry, Event, Page, RevisionRange
from rota.store.store_watch import Tail
from rota.store.write_plan import Lease, Row, Work


class Database:
    """The data, shared by the engines that are opened on it."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        #: The keys of `rows`, sorted.
        self.keys: list[str] = []
        #: History above the floor, in revision order, by (revision, key).
        self.log: dict[tuple[int, str], Event] = {}
        self.revision_range = RevisionRange(1, 0)
        #: By id: the TTL, and when it expires.
        self.leases: dict[int, tuple[float, float]] = {}
        self.last_lease = 0
        self.listeners: list[Callable[[], None]] = []

    def put(self, key: str, row: Row | None) -> None:
        """Set or remove one row, and update `keys`."""
        if row is None:
            del self.rows[key]
            del self.keys[bisect.bisect_left(self.keys, key)]
            return
        if key not in self.rows:
            bisect.insort(self.keys, key)
        self.rows[key] = row

    def record(self, record: write_plan.Record) -> None:
        """Append to history; a superseded heartbeat is replaced, and its previous state is kept."""
        event = record.event
        if record.supersedes:
            old = self.log.pop((record.supersedes, event.key))
            event = Event(event.key, event.revision, event.value, event.created, old.previous, old.previous_revision)
        self.log[event.revision, event.key] = event


class MemoryEngine:
    """Implements `engine.Engine` on a `Database`."""

    def __init__(self, database: Database, time: clock.Clock) -> None:
        self._db = database
        self._time = time
        self._wake: Callable[[], None] | None = None

    async def revision_range(self) -> RevisionRange:
        """The newest revision and the floor."""
        return self._db.revision_range

    async def size_bytes(self) -> int:
        """The size of the values, without history."""
        return sum(len(row.entry.value) for row in self._db.rows.values())

    async def get(self, key: str) -> Entry | None:
        """The current state of the key."""
        row = self._db.rows.get(key)
        return row.entry if row else None

    async def get_many(self, keys: Sequence[str]) -> dict[str, Entry]:
        """Those of the keys that exist."""
        rows = ((key, self._db.rows.get(key)) for key in keys)
        return {key: row.entry for key, row in rows if row}

    async def scan(self, prefix: str, *, limit: int, after: str, revision: int) -> Page:
        """One page of entries."""
        revision_range = self._db.revision_range
        revision = revision or revision_range.revision
        check_revision(revision, revision_range)
        entries = (
            self._newest(prefix, after) if revision == revision_range.revision else self._as_of(prefix, after, revision)
        )
        page = entries[:limit] if limit else entries
        return Page(page, revision, len(entries) - len(page))

    def _newest(self, prefix: str, after: str) -> list[Entry]:
        keys = self._db.keys
        start = bisect.bisect_right(keys, after) if after >= prefix else bisect.bisect_left(keys, prefix)
        end = bisect.bisect_left(keys, store_interface.range_end(prefix)) if prefix else len(keys)
        return [self._db.rows[key].entry for key in keys[start:end]]

    def _as_of(self, prefix: str, after: str, revision: int) -> list[Entry]:
        entries = [entry for entry in self._newest(prefix, after) if entry.revision <= revision]
        for event in self._db.log.values():
            # The one change that spans the requested revision has the key's state at that revision.
            spans = event.previous_revision <= revision < event.revision
            if spans and event.previous is not None and event.key.startswith(prefix) and event.key > after:
                entries.append(Entry(event.key, event.previous, event.previous_revision, event.created))
        return sorted(entries, key=lambda entry: entry.key)

    async def apply(self, work: Sequence[Work]) -> Applied:
        """Apply the work."""
        db, now = self._db, self._time.now()
        leases = {
            lease: Lease(db.leases[lease][1] <= now, frozenset(self._held(lease)))
            for lease in write_plan.touched_leases(work)
            if lease in db.leases
        }
        plan = write_plan.plan(work, db.rows, leases, head=db.revision_range.revision, floor=db.revision_range.floor)
        for key, row in plan.rows.items():
            if row or key in db.rows:
                db.put(key, row)
        for record in plan.records:
            db.record(record)
        for lease in plan.ended:
            del db.leases[lease]
        before = db.revision_range.revision
        db.revision_range = RevisionRange(plan.revision, db.revision_range.floor)
        self._announce()
        return Applied(plan.verdicts, plan.events, before, plan.revision)

    def _held(self, lease: int) -> Iterable[str]:
        return (key for key, row in self._db.rows.items() if row.entry.lease == lease)

    async def tail(self, after: int, limit: int) -> Tail:
        """History above `after`."""
        check_revision(after, self._db.revision_range)
        events: list[Event] = []
        for (revision, _), event in self._db.log.items():
            if len(events) >= limit and revision != events[-1].revision:
                return Tail(events, events[-1].revision)
            if revision > after:
                events.append(event)
        return Tail(events, self._db.revision_range.revision)

    async def raise_floor(self, floor: int) -> None:
        """Mark history up to `floor` as compacted."""
        self._db.revision_range = RevisionRange(
            self._db.revision_range.revision, max(floor, self._db.revision_range.floor)
        )

    async def trim(self, limit: int) -> int:
        """Remove records at or below the floor."""
        gone: list[tuple[int, str]] = []
        for at in self._db.log:
            if at[0] > self._db.revision_range.floor or len(gone) == limit:
                break
            gone.append(at)
        for at in gone:
            del self._db.log[at]
        return len(gone)

    async def grant(self, ttl_s: float) -> int:
        """A new lease."""
        self._db.last_lease += 1
        self._db.leases[self._db.last_lease] = (ttl_s, self._time.now() + ttl_s)
        return self._db.last_lease

    async def renew(self, lease: int) -> bool:
        """Restart its TTL."""
        ttl_s, expires_at = self._db.leases.get(lease, (0.0, 0.0))
        if expires_at <= self._time.now():
            return False
        self._db.leases[lease] = (ttl_s, self._time.now() + ttl_s)
        return True

    async def expired(self) -> list[int]:
        """Leases whose TTL is over."""
        now = self._time.now()
        return [lease for lease, (_, expires_at) in self._db.leases.items() if expires_at <= now]

    async def next_expiry_s(self) -> float | None:
        """Seconds until the next lease expires."""
        due = min((expires_at for _, expires_at in self._db.leases.values()), default=None)
        return None if due is None else due - self._time.now()

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """Fill an empty database."""
        db = self._db
        if db.rows:
            raise errors.NotEmpty("the memory store holds keys already", "restore into a new one")
        head = max(revision, db.revision_range.revision) + store_interface.RESTORE_GAP
        for entry in list(entries):
            db.put(entry.key, Row(Entry(entry.key, entry.value, head, head)))
        db.log.clear()
        db.revision_range = RevisionRange(head, head)
        self._announce()
        return db.revision_range

    def on_foreign_commit(self, wake: Callable[[], None]) -> None:
        """Call `wake` after another engine on the same data commits."""
        self._wake = wake
        self._db.listeners.append(wake)

    async def close(self) -> None:
        """Stop listening."""
        if self._wake in self._db.listeners:
            self._db.listeners.remove(self._wake)

    def _announce(self) -> None:
        for listener in self._db.listeners:
            if listener is not self._wake:
                listener()
