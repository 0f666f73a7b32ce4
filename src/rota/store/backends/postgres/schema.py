"""The tables, and the check that they are Rota's.

`rota_entries` has the current state, so a list never reads history; `rota_log` is history. `rota_meta` is one row whose
`turn` grows with every commit: a writer plans on the state that it read and commits if the turn is unchanged. This
makes revision order equal to commit order, without gaps, in whatever order transactions begin. `rota_writers` has a row
for each process: its last committed batch, and that it listens for commits.
"""

import psycopg

from rota.store import errors
from rota.store.backends.postgres.sessions import Session

#: The version of the tables below; raised whenever an older Rota would misread them.
FORMAT = 1

#: The oldest server that supports the statements (FETCH FIRST ... WITH TIES).
OLDEST_SERVER = 13

#: The channel of commit notifications.
CHANNEL = "rota"

#: "Rota" as a number, an advisory lock: processes that open the same empty database at once create the tables one after
#: another.
_LOCK = int.from_bytes(b"Rota", "big")

_TABLES = ("rota_meta", "rota_entries", "rota_log", "rota_leases", "rota_writers")

_MAKE = (
    """
    CREATE TABLE rota_meta (
      one smallint PRIMARY KEY CHECK (one = 1),
      format integer NOT NULL,
      revision bigint NOT NULL,
      floor bigint NOT NULL,
      turn bigint NOT NULL
    )
    """,
    # Free space on each page, so that a heartbeat's new row version fits beside the old one, without index work (HOT).
    # Values of up to a page stay in the row: out of line they would take three times as long to write and to read.
    """
    CREATE TABLE rota_entries (
      key text COLLATE "C" PRIMARY KEY,
      value bytea NOT NULL,
      revision bigint NOT NULL,
      created bigint NOT NULL,
      lease bigint NOT NULL,
      heartbeat boolean NOT NULL
    ) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, toast_tuple_target = 8160)
    """,
    "CREATE INDEX rota_entries_of_lease ON rota_entries (lease) WHERE lease <> 0",
    """
    CREATE TABLE rota_log (
      revision bigint,
      place bigint,
      key text COLLATE "C" NOT NULL,
      value bytea,
      created bigint NOT NULL,
      previous bytea,
      previous_revision bigint NOT NULL,
      PRIMARY KEY (revision, place)
    ) WITH (autovacuum_vacuum_scale_factor = 0.05, toast_tuple_target = 8160)
    """,
    """
    CREATE TABLE rota_leases (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      ttl_s double precision NOT NULL,
      expires_at double precision NOT NULL
    ) WITH (fillfactor = 50)
    """,
    """
    CREATE TABLE rota_writers (
      writer text COLLATE "C" PRIMARY KEY,
      batch bigint NOT NULL,
      seen_at timestamptz NOT NULL
    ) WITH (fillfactor = 50)
    """,
    f"INSERT INTO rota_meta VALUES (1, {FORMAT}, 1, 0, 0)",  # noqa: S608 - a constant number
)

#: How often a process refreshes its row.
SEEN_EVERY_S = 6 * 3600.0

#: Far longer than that, and than any writer takes to find out whether a batch was committed.
_FORGET_WRITERS = "DELETE FROM rota_writers WHERE seen_at < clock_timestamp() - interval '1 day'"


async def prepare(session: Session, place: str, *, create: bool) -> None:
    """Ensure that the tables exist, are Rota's and are writable; a database with other content is left unchanged."""
    _check_server(session, place)
    if not await _recognise(session, place):
        if not create:
            raise errors.BadAddress(f"there is no store in {place}", "check the name of the database")
        await _make(session, place)
    # A read-only database must fail here, not at a user's first write.
    await session.execute(_FORGET_WRITERS)


def _check_server(session: Session, place: str) -> None:
    encoding = session.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise errors.BadAddress(
            f"{place} is encoded in {encoding}, not in UTF8",
            "create a database with ENCODING 'UTF8' TEMPLATE template0",
        )
    version = session.info.server_version // 10_000
    if version < OLDEST_SERVER:
        raise errors.BadAddress(f"{place} is PostgreSQL {version}", f"use PostgreSQL {OLDEST_SERVER} or newer")


async def _recognise(session: Session, place: str) -> bool:
    """Whether there is a store; False if none of its tables exists, an error for anything else."""
    # Not to_regclass: it may answer from a cache that misses tables that another session created just now.
    cursor = await session.execute(
        "SELECT relname FROM pg_class WHERE relname = ANY(%s::text[]) AND pg_table_is_visible(oid)", [list(_TABLES)]
    )
    found = {name for (name,) in await cursor.fetchall()}
    if not found:
        return False
    foreign = errors.Corrupt(
        f"{place} has tables of another program under our names ({', '.join(sorted(found))})",
        "name another database or schema",
    )
    if "rota_meta" not in found:
        raise foreign
    try:
        # The one column that every format has.
        row = await (await session.execute("SELECT format FROM rota_meta")).fetchone()
    except psycopg.errors.UndefinedColumn:
        raise foreign from None
    if row is None or not isinstance(row[0], int):
        raise foreign
    if row[0] > FORMAT:
        raise errors.NewerFormat(place, row[0], FORMAT)
    return True


async def _make(session: Session, place: str) -> None:
    """Create the tables, all or none, unless another process has done so."""
    await session.execute("BEGIN")
    await session.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    if not await _recognise(session, place):
        for statement in _MAKE:
            await session.execute(statement)
    await session.execute("COMMIT")


def headless(place: str) -> errors.Corrupt:
    """The error for a store whose `rota_meta` has lost its row."""
    return errors.Corrupt(f"table rota_meta of {place} is empty", "restore a backup into an empty database")
