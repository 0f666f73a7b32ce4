"""The databases used directly, without a store: the references of the store's benchmark.

Each reference does the least that a program must do to have the same bytes durable in the same database: the same
settings of durability, one insert per commit, or one group of inserts per commit.
"""

import asyncio
import importlib
import secrets
import sqlite3
import tempfile
import urllib.parse
from pathlib import Path
from typing import Protocol

from rota.store.backends.sqlite import schema


class Reference(Protocol):
    """One database, used directly. The `..._is` texts name what was measured, in the table."""

    singly_is: str
    grouped_is: str
    read_all_is: str
    read_one_is: str

    async def singly(self, count: int, value: bytes) -> None:
        """Insert `count` rows, each durable before the next."""
        ...

    async def grouped(self, count: int, group: int, value: bytes) -> None:
        """Insert `count` rows, `group` at a time."""
        ...

    async def fill(self, count: int, value: bytes) -> None:
        """Make a table of `count` rows to read."""
        ...

    async def read_all(self) -> None:
        """Read every row of that table."""
        ...

    async def read_one(self, count: int) -> None:
        """Read one row, `count` times."""
        ...

    async def close(self) -> None:
        """Remove what was written."""
        ...


async def open_reference(url: str) -> Reference:
    """The reference for a store's URL."""
    scheme = url.partition("://")[0]
    if scheme == "memory":
        return RawMemory()
    if scheme == "sqlite":
        return RawSqlite(Path(urllib.parse.unquote(url.removeprefix("sqlite:///"))))
    backend = importlib.import_module(f"rota.bench.raw_{'postgres' if scheme.startswith('postgres') else 'etcd'}")
    reference: Reference = await backend.open_reference(url)
    return reference


class RawMemory:
    """A dictionary."""

    singly_is = "a dict, one by one"
    grouped_is = "a dict, one by one"
    read_all_is = "a dict's items"
    read_one_is = "a dict's item"

    def __init__(self) -> None:
        self._rows: dict[str, bytes] = {}

    async def singly(self, count: int, value: bytes) -> None:
        """See `Reference`."""
        await self.grouped(count, 1, value)

    async def grouped(self, count: int, group: int, value: bytes) -> None:
        """See `Reference`."""
        for _ in range(count):
            self._rows[secrets.token_hex(8)] = value
            await asyncio.sleep(0)

    async def fill(self, count: int, value: bytes) -> None:
        """See `Reference`."""
        self._rows = {f"/list/{number}": value for number in range(count)}

    async def read_all(self) -> None:
        """See `Reference`."""
        list(self._rows.items())

    async def read_one(self, count: int) -> None:
        """See `Reference`."""
        for _ in range(count):
            self._rows.get("/list/0")

    async def close(self) -> None:
        """See `Reference`."""
        self._rows.clear()


class RawSqlite:
    """The standard library's driver on a file beside the store's, as durable as the store is."""

    singly_is = "raw SQLite, a commit each"
    grouped_is = "raw SQLite, 64 rows a commit"
    read_all_is = "raw SQLite, SELECT of the same rows"
    read_one_is = "raw SQLite, SELECT by key"

    def __init__(self, beside: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=beside.parent, prefix=".bench-")
        self._connection = sqlite3.connect(Path(self._folder.name) / "raw.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        schema.tune(self._connection)
        self._connection.execute("CREATE TABLE written (key TEXT PRIMARY KEY, value BLOB)")
        self._connection.execute("CREATE TABLE listed (key TEXT PRIMARY KEY, value BLOB)")

    async def singly(self, count: int, value: bytes) -> None:
        """See `Reference`."""
        for _ in range(count):
            self._connection.execute("INSERT INTO written VALUES (?, ?)", (secrets.token_hex(8), value))

    async def grouped(self, count: int, group: int, value: bytes) -> None:
        """See `Reference`."""
        for _ in range(0, count, group):
            self._connection.execute("BEGIN")
            rows = ((secrets.token_hex(8), value) for _ in range(group))
            self._connection.executemany("INSERT INTO written VALUES (?, ?)", rows)
            self._connection.execute("COMMIT")

    async def fill(self, count: int, value: bytes) -> None:
        """See `Reference`."""
        self._connection.execute("BEGIN")
        rows = ((f"/list/{number}", value) for number in range(count))
        self._connection.executemany("INSERT INTO listed VALUES (?, ?)", rows)
        self._connection.execute("COMMIT")

    async def read_all(self) -> None:
        """See `Reference`."""
        self._connection.execute("SELECT key, value FROM listed ORDER BY key").fetchall()

    async def read_one(self, count: int) -> None:
        """See `Reference`."""
        for _ in range(count):
            self._connection.execute("SELECT key, value FROM listed WHERE key = '/list/0'").fetchone()

    async def close(self) -> None:
        """See `Reference`."""
        self._connection.close()
        self._folder.cleanup()
