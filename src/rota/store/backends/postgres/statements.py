"""The SQL of one commit: what is read to plan it, and the one statement that applies the plan.

The statement begins by taking the turn (see `schema`); otherwise no other part of it finds a row to work with, so it
commits everything or nothing and returns which. One statement is one round trip, commit included, and leaves no open
transaction in which a stalled process could block the others.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, structs

from rota.store import write_plan
from rota.store.backends.postgres import schema
from rota.store.backends.postgres.sessions import Session
from rota.store.store_interface import Entry
from rota.store.write_plan import Lease, Plan, Record, RevokeLease, Row, Work

# ruff: noqa: S608 - what is spliced into queries here are constants, never a caller's text

#: The database's clock, the same for all processes.
NOW = "extract(epoch FROM clock_timestamp())::double precision"

ENTRY = "key, value, revision, created, lease"

_STATE = """
SELECT meta.revision, meta.floor, meta.turn,
  entry.key, entry.value, entry.revision, entry.created, entry.lease, entry.heartbeat
FROM rota_meta AS meta LEFT JOIN rota_entries AS entry ON entry.key = ANY(%s::text[])
"""
_LEASES = f"SELECT id, expires_at <= {NOW} FROM rota_leases WHERE id = ANY(%s::bigint[])"
_HELD = f"SELECT {ENTRY}, heartbeat FROM rota_entries WHERE lease = ANY(%s::bigint[]) AND lease <> 0"


class _Change(Struct, frozen=True, gc=False):
    """One row for the statement below; the types are those of the columns."""

    key: str
    value: bytes | None
    revision: int
    place: int
    created: int
    previous: bytes | None
    previous_revision: int
    #: The revision of the record in the table that this one replaces, or 0.
    supersedes: int
    lease: int
    heartbeat: bool
    #: Whether this is the key's final state after the batch.
    stands: bool


_TYPES = ("text", "bytea", "bigint", "bigint", "bigint", "bytea", "bigint", "bigint", "bigint", "boolean", "boolean")
_COLUMNS = ", ".join(_Change.__struct_fields__)
_ONE = ", ".join(f"%({name})b::{kind}" for name, kind in zip(_Change.__struct_fields__, _TYPES, strict=True))
_MANY = _ONE.replace(",", "[],") + "[]"

#: The parts of a commit; each one takes effect only if the turn was taken. Parts that a plan does not need are left
#: out, since even an empty one costs time on the server.
_PARTS = {
    "put": """
      INSERT INTO rota_entries SELECT key, value, revision, created, lease, heartbeat
      FROM turn, change WHERE stands AND value IS NOT NULL
      ON CONFLICT (key) DO UPDATE SET value = excluded.value, revision = excluded.revision,
        created = excluded.created, lease = excluded.lease, heartbeat = excluded.heartbeat
    """,
    "removed": """
      DELETE FROM rota_entries USING turn, change
      WHERE stands AND change.value IS NULL AND rota_entries.key = change.key
    """,
    "appended": """
      INSERT INTO rota_log SELECT revision, place, key, value, created, previous, previous_revision
      FROM turn, change WHERE supersedes = 0
    """,
    "moved": """
      UPDATE rota_log SET revision = change.revision, place = change.place, value = change.value
      FROM turn, change
      WHERE change.supersedes <> 0 AND rota_log.revision = change.supersedes AND rota_log.key = change.key
    """,
    "ended": "DELETE FROM rota_leases USING turn WHERE id = ANY(%(ended)b::bigint[])",
}
_ALL_NEW = "AND NOT EXISTS (SELECT FROM change JOIN rota_entries USING (key))"


@functools.cache
def _commit(*, one: bool, all_new: bool, parts: tuple[str, ...]) -> str:
    changes = f"VALUES ({_ONE})" if one else f"SELECT * FROM unnest({_MANY})"
    return f"""
    WITH change ({_COLUMNS}) AS ({changes}),
    turn AS (
      UPDATE rota_meta SET revision = %(head)b, turn = turn + 1
      WHERE turn = %(turn)b {_ALL_NEW if all_new else ""}
      RETURNING turn
    ),
    done AS (
      INSERT INTO rota_writers SELECT %(writer)b, %(batch)b, clock_timestamp() FROM turn
      ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, seen_at = excluded.seen_at
    ),
    {", ".join(f"{name} AS ({_PARTS[name]})" for name in parts)}
    -- Announced only if there are other processes: receiving one's own notifications is expensive.
    SELECT (SELECT pg_notify('{schema.CHANNEL}', '') FROM rota_writers WHERE writer <> %(writer)b LIMIT 1) FROM turn
    """


#: Advances the turn, so that every later commit sees the new listener.
_REGISTER = """
WITH turn AS (UPDATE rota_meta SET turn = turn + 1 RETURNING turn)
INSERT INTO rota_writers SELECT %s, 0, clock_timestamp() FROM turn
ON CONFLICT (writer) DO UPDATE SET seen_at = excluded.seen_at
"""


class Head(Struct, frozen=True):
    """`rota_meta` as read."""

    revision: int
    floor: int
    turn: int


class State(Struct, frozen=True):
    """The state that a plan is made on. It is valid while the head's turn is the newest."""

    head: Head
    rows: dict[str, Row]
    leases: dict[int, Lease]


async def read_state(session: Session, work: Sequence[Work]) -> State | None:
    """The state of the keys and leases that `work` touches; None if there is no head.

    The turn is read first: state that is read after it is valid for it unless another process commits, and then our
    commit fails.
    """
    cursor = await session.execute(_STATE, [list(write_plan.touched_keys(work, {}))], binary=True)
    found = await cursor.fetchall()
    if not found:
        return None
    rows = {row[3]: Row(Entry(*row[3:8]), row[8]) for row in found if row[3] is not None}
    leases: dict[int, Lease] = {}
    if tainted_nodes := write_plan.touched_leases(work):
        ending = [item.lease for item in work if isinstance(item, RevokeLease)]
        held = await (await session.execute(_HELD, [ending], binary=True)).fetchall()
        rows |= {row[0]: Row(Entry(*row[:5]), row[5]) for row in held}
        for lease, expired in await (await session.execute(_LEASES, [list(tainted_nodes)], binary=True)).fetchall():
            leases[lease] = Lease(expired, frozenset(row[0] for row in held if row[4] == lease))
    return State(Head(*found[0][:3]), rows, leases)


async def commit(session: Session, plan: Plan, head: Head, *, writer: str, batch: int, all_new: bool = False) -> bool:
    """Apply `plan`, made on `head`; False, without effect, if another process has advanced the turn.

    With `all_new` it also has no effect if one of the keys exists.
    """
    changes = _changes(plan)
    needed = {
        "put": any(change.stands and change.value is not None for change in changes),
        "removed": any(change.stands and change.value is None for change in changes),
        "appended": any(not change.supersedes for change in changes),
        "moved": any(change.supersedes for change in changes),
        "ended": bool(plan.ended),
    }
    one = len(changes) == 1
    parts = tuple(part for part, is_needed in needed.items() if is_needed)
    values = structs.asdict(changes[0]) if one else _columns(changes)
    values |= {"head": plan.revision, "turn": head.turn, "writer": writer, "batch": batch, "ended": plan.ended}
    cursor = await session.execute(_commit(one=one, all_new=all_new, parts=parts), values, binary=True)
    return cursor.rowcount == 1


async def register(session: Session, writer: str) -> None:
    """Register or refresh `writer` as a receiver of commit notifications."""
    await session.execute(_REGISTER, [writer])


def _columns(changes: Sequence[_Change]) -> dict[str, Any]:
    rows = [structs.astuple(change) for change in changes]
    return {name: [row[place] for row in rows] for place, name in enumerate(_Change.__struct_fields__)}


def _changes(plan: Plan) -> list[_Change]:
    """The plan's records as rows; of several heartbeats of one key in the batch only the last is kept."""
    changes: dict[tuple[int, str], _Change] = {}
    for place, record in _placed(plan.records):
        event, row = record.event, plan.rows[record.event.key]
        # A superseded record of the same batch is dropped before it reaches the table.
        before = changes.pop((record.supersedes, event.key), None)
        changes[event.revision, event.key] = _Change(
            key=event.key,
            value=event.value,
            revision=event.revision,
            place=place,
            created=event.created,
            previous=before.previous if before else event.previous,
            previous_revision=before.previous_revision if before else event.previous_revision,
            supersedes=before.supersedes if before else record.supersedes,
            lease=row.entry.lease if row else 0,
            heartbeat=record.heartbeat,
            stands=event.value is None if row is None else row.entry.revision == event.revision,
        )
    return list(changes.values())


def _placed(records: Iterable[Record]) -> Iterator[tuple[int, Record]]:
    """Records with their position within their revision."""
    last = place = 0
    for record in records:
        place = place + 1 if record.event.revision == last else 0
        last = record.event.revision
        yield place, record
