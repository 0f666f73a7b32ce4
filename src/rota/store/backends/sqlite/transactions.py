"""What one write transaction of the SQLite backend reads and writes: entries, leases and the log.

`engine` decides when a transaction runs and in which thread; `write_plan` decides what it changes.
"""

import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from rota.store import write_plan
from rota.store.backends.sqlite import schema, statements
from rota.store.store_interface import Entry, Event, RevisionRange
from rota.store.write_plan import Lease, Record, Row

#: A record of the log.
_Line = tuple[int, str, bytes | None, int, bytes | None, int]


def revision_range(connection: sqlite3.Connection) -> RevisionRange:
    """The last revision and the compaction floor."""
    return RevisionRange(*connection.execute("SELECT revision, floor FROM meta").fetchone())


def rows(connection: sqlite3.Connection, keys: Iterable[str]) -> dict[str, Row]:
    """The entries of these keys, as far as they exist."""
    found = {}
    for wanted in statements.portions(list(keys)):
        for row in connection.execute(statements.rows(len(wanted)), wanted):
            found[row[0]] = Row(Entry(*row[:5]), bool(row[5]))
    return found


def leases(connection: sqlite3.Connection, wanted: Iterable[int], now: float) -> dict[int, Lease]:
    """These leases, as far as they exist, with the keys attached to each."""
    found = {}
    for lease in wanted:
        row = connection.execute("SELECT expires_at FROM leases WHERE id = ?", (lease,)).fetchone()
        if row:
            keys = connection.execute("SELECT key FROM entries WHERE lease = ? AND lease <> 0", (lease,))
            found[lease] = Lease(row[0] <= now, frozenset(key for (key,) in keys))
    return found


def carry_out(connection: sqlite3.Connection, plan: write_plan.Plan) -> None:
    """Write what the plan says."""
    written = [_columns(row) for row in plan.rows.values() if row]
    for rows in statements.portions(written):
        connection.execute(statements.put(len(rows)), list(itertools.chain.from_iterable(rows)))
    connection.executemany("DELETE FROM entries WHERE key = ?", ((key,) for key, row in plan.rows.items() if not row))
    appended: list[_Line] = []
    for log_id, record in _numbered(plan.records):
        if record.supersedes:
            # The record that it replaces may be among those still to be written.
            _append(connection, appended)
            appended.clear()
            _supersede(connection, log_id, record)
        else:
            appended.append(_logged(log_id, record.event))
    _append(connection, appended)
    connection.executemany("DELETE FROM leases WHERE id = ?", ((lease,) for lease in plan.ended))
    connection.execute("UPDATE meta SET revision = ?", (plan.revision,))


def _columns(row: Row) -> tuple[str, bytes, int, int, int, bool]:
    entry = row.entry
    return entry.key, entry.value, entry.revision, entry.created, entry.lease, row.heartbeat


def _append(connection: sqlite3.Connection, lines: Sequence[_Line]) -> None:
    for portion in statements.portions(lines):
        connection.execute(statements.log(len(portion)), list(itertools.chain.from_iterable(portion)))


def _logged(log_id: int, event: Event) -> _Line:
    return log_id, event.key, event.value, event.created, event.previous, event.previous_revision


def _supersede(connection: sqlite3.Connection, log_id: int, record: Record) -> None:
    """Replace the superseded heartbeat's record; the previous state in it is kept."""
    old = record.supersedes
    connection.execute(
        "UPDATE log SET id = ?, value = ? WHERE id >= ? AND id < ? AND key = ?",
        (log_id, record.event.value, schema.first_id(old), schema.first_id(old + 1), record.event.key),
    )


def _numbered(records: Iterable[Record]) -> Iterator[tuple[int, Record]]:
    """Records with their log ids: the revision, then the position within it."""
    last = place = 0
    for record in records:
        revision = record.event.revision
        place = place + 1 if revision == last else 0
        last = revision
        yield schema.first_id(revision) + place, record
