"""The tables in the file, and the check that a file is Rota's.

`entries` has the current state, so a list never reads history. `log` is history: its id holds the revision in the upper
bits and the position within the transaction in the lower twenty, so order and range scans are those of the primary
key.
"""

import sqlite3
from pathlib import Path

from rota.store import errors

#: The version of the tables below; raised whenever an older Rota would misread them.
FORMAT = 1
#: "Rota" in the file's header, where SQLite keeps the id of the owning program.
APPLICATION_ID = int.from_bytes(b"Rota", "big")

#: A write-ahead log larger than this is restarted even if there are readers.
WAL_BYTES = 64 * 1024 * 1024

#: How many bits of a log id hold the position within a transaction.
PLACE_BITS = 20

TABLES = """
CREATE TABLE meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  revision INTEGER NOT NULL,
  floor INTEGER NOT NULL
);
INSERT INTO meta VALUES (1, 1, 0);
CREATE TABLE entries (
  key TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL,
  revision INTEGER NOT NULL,
  created INTEGER NOT NULL,
  lease INTEGER NOT NULL,
  heartbeat INTEGER NOT NULL
);
CREATE INDEX entries_of_lease ON entries (lease) WHERE lease <> 0;
CREATE TABLE log (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  value BLOB,
  created INTEGER NOT NULL,
  previous BLOB,
  previous_revision INTEGER NOT NULL
);
CREATE TABLE leases (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  ttl_s REAL NOT NULL,
  expires_at REAL NOT NULL
);
"""


def first_id(revision: int) -> int:
    """The lowest log id that a revision may have."""
    return revision << PLACE_BITS


def recognise(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a store; False for an empty one, an error for anything else."""
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    tables: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application == APPLICATION_ID:
        if version > FORMAT:
            raise errors.NewerFormat(str(path), version, FORMAT)
        return True
    if application or version or tables:
        raise errors.Corrupt(f"{path} is an SQLite file of another program", "name another file")
    return False


def make(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables unless another process has done so."""
    # Must come before the first table. Lets compaction free pages a few at a time.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not recognise(connection, path):
            for statement in TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def tune(connection: sqlite3.Connection) -> None:
    """Settings of one connection."""
    # An acknowledged write must survive a power failure, not only a killed process.
    connection.execute("PRAGMA synchronous = FULL")
    # Rota's own lock orders its writers; this is for other programs, such as the sqlite3 shell.
    connection.execute("PRAGMA busy_timeout = 5000")
    # A checkpoint stops the writer for a moment: fewer and larger ones cost less in all, and 16 MB are read back
    # quickly.
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
    connection.execute("PRAGMA cache_size = -65536")
