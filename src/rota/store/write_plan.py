"""Plans writes without a database: how entries and history change when work is applied.

Pure. A backend with its own tables (memory, SQLite, PostgreSQL) reads the touched keys, calls `plan`, and writes the
result. So preconditions, revisions, events, leases and the merging of heartbeats behave the same on each of them. The
property tests compare it with an independent model.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from rota.store.store_interface import Committed, Conflict, Delete, Entry, Event, Outcome, Put, Refused, Transaction


class RevokeLease(Struct, frozen=True, gc=False):
    """End a lease and delete its keys; with `only_expired`, only if its TTL is over."""

    lease: int
    only_expired: bool = False


Work = Transaction | RevokeLease


class LeaseLost(Struct, frozen=True, gc=False):
    """The lease that a write names is gone; nothing was written."""

    lease: int


Verdict = Outcome | LeaseLost


class Row(Struct, frozen=True, gc=False):
    """An entry as stored in a table, with whether its last write was a heartbeat."""

    entry: Entry
    heartbeat: bool = False


class Lease(Struct, frozen=True):
    """A lease as stored in a table, with its keys."""

    expired: bool
    keys: frozenset[str] = frozenset()


class Record(Struct, frozen=True, gc=False):
    """A change to append to history."""

    event: Event
    heartbeat: bool = False
    #: The revision of the heartbeat of the same key that this one supersedes: this record replaces it and takes over
    #: its previous state. 0 for none.
    supersedes: int = 0


class Plan(Struct, frozen=True):
    """The writes that apply the work."""

    verdicts: list[Verdict]
    #: The final state of each key that changed; None for deleted.
    rows: dict[str, Row | None]
    #: History to append, in revision order.
    records: list[Record]
    #: Leases that ended.
    ended: list[int]
    #: The newest revision afterwards.
    revision: int

    @property
    def events(self) -> list[Event]:
        """The events for watchers; those that keep up see superseded heartbeats as well."""
        return [record.event for record in self.records]


def touched_keys(work: Iterable[Work], leases: Mapping[int, Lease]) -> set[str]:
    """The keys whose state `plan` needs."""
    keys: set[str] = set()
    for item in work:
        if isinstance(item, RevokeLease):
            keys |= leases[item.lease].keys if item.lease in leases else set()
        else:
            keys.update(guard.key for guard in item.guards)
            keys.update(write.key for write in item.writes)
    return keys


def touched_leases(work: Iterable[Work]) -> set[int]:
    """The leases whose state `plan` needs."""
    leases: set[int] = set()
    for item in work:
        if isinstance(item, RevokeLease):
            leases.add(item.lease)
        else:
            leases.update(write.lease for write in item.writes if isinstance(write, Put) and write.lease)
    return leases


def plan(work: Sequence[Work], rows: Mapping[str, Row], leases: Mapping[int, Lease], *, head: int, floor: int) -> Plan:
    """Apply `work` in order to `rows` (without absent keys) and `leases`, with `head` as the newest revision.

    `floor` tells which records history still holds: a heartbeat older than it has no record left to supersede.
    """
    planner = _WritePlanner(rows, leases, head, floor)
    verdicts = [planner.end(item) if isinstance(item, RevokeLease) else planner.transact(item) for item in work]
    return Plan(verdicts, planner.changed, planner.records, planner.ended, planner.revision)


class _WritePlanner:
    """The state while a batch of work is applied."""

    def __init__(self, rows: Mapping[str, Row], leases: Mapping[int, Lease], head: int, floor: int) -> None:
        self._rows = rows
        self._leases = leases
        self._floor = floor
        self.revision = head
        self.changed: dict[str, Row | None] = {}
        self.records: list[Record] = []
        self.ended: list[int] = []

    def transact(self, transaction: Transaction) -> Verdict:
        """Apply one transaction, or return why not."""
        conflicts = tuple(
            Conflict(guard, row.entry if row else None)
            for guard in transaction.guards
            if not guard.holds(row.entry if (row := self._row(guard.key)) else None)
        )
        if conflicts:
            return Refused(conflicts)
        for write in transaction.writes:
            if isinstance(write, Put) and write.lease and not self._lives(write.lease):
                return LeaseLost(write.lease)
        return Committed(self._write(transaction.writes))

    def end(self, item: RevokeLease) -> Verdict:
        """End a lease; one that is gone, or still valid and should not end, is `Refused` without conflicts."""
        lease = self._leases.get(item.lease)
        if lease is None or item.lease in self.ended or (item.only_expired and not lease.expired):
            return Refused(())
        self.ended.append(item.lease)
        held = {key for key, row in self.changed.items() if row and row.entry.lease == item.lease}
        held |= {key for key in lease.keys if (row := self._row(key)) and row.entry.lease == item.lease}
        return Committed(self._write([Delete(key) for key in sorted(held)]))

    def _row(self, key: str) -> Row | None:
        return self.changed[key] if key in self.changed else self._rows.get(key)

    def _lives(self, lease: int) -> bool:
        state = self._leases.get(lease)
        return state is not None and not state.expired and lease not in self.ended

    def _write(self, writes: Iterable[Put | Delete]) -> int:
        """Apply the writes at the next revision; a transaction that changes nothing takes none."""
        revision = self.revision + 1
        for write in writes:
            before = self._row(write.key)
            if before is None and isinstance(write, Delete):
                continue
            self.changed[write.key], record = _book(write, before, revision, self._floor)
            self.records.append(record)
            self.revision = revision
        return self.revision


def _book(write: Put | Delete, before: Row | None, revision: int, floor: int) -> tuple[Row | None, Record]:
    """One write of one key: its new state, and the record of the change."""
    created = before.entry.created if before else revision
    previous, previous_revision = (before.entry.value, before.entry.revision) if before else (None, 0)
    if isinstance(write, Delete):
        return None, Record(Event(write.key, revision, None, created, previous, previous_revision))
    row = Row(Entry(write.key, write.value, revision, created, write.lease), write.heartbeat)
    event = Event(write.key, revision, write.value, created, previous, previous_revision)
    # A record of the key's creation is never replaced: a watcher that resumes from before it must see that the key is
    # new.
    merges = write.heartbeat and before is not None and before.heartbeat and previous_revision > max(created, floor)
    return row, Record(event, write.heartbeat, supersedes=previous_revision if merges else 0)
