"""PostgreSQL used directly, as the reference for the store on it."""

import secrets
from typing import Self

import psycopg
from psycopg import sql


class RawPostgres:
    """One connection with autocommit, and tables of its own; fills `raw.Reference`."""

    singly_is = "raw psycopg, a commit each"
    grouped_is = "raw psycopg, 64 rows a commit"
    read_all_is = "raw psycopg, SELECT of the same rows"
    read_one_is = "raw psycopg, SELECT by key"

    def __init__(self, connection: psycopg.AsyncConnection[tuple[str, bytes]]) -> None:
        self._connection = connection
        self._written = sql.Identifier(f"rota_bench_{secrets.token_hex(4)}_written")
        self._listed = sql.Identifier(f"rota_bench_{secrets.token_hex(4)}_listed")
        self._insert = sql.SQL("INSERT INTO {} VALUES (%s, %s)").format(self._written)

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect and make the tables."""
        reference = cls(await psycopg.AsyncConnection.connect(url, autocommit=True))
        for table in (reference._written, reference._listed):
            await reference._connection.execute(
                sql.SQL('CREATE TABLE {} (key TEXT COLLATE "C" PRIMARY KEY, value BYTEA)').format(table)
            )
        return reference

    async def singly(self, count: int, value: bytes) -> None:
        """See `Reference`."""
        for _ in range(count):
            await self._connection.execute(self._insert, (secrets.token_hex(8), value))

    async def grouped(self, count: int, group: int, value: bytes) -> None:
        """See `Reference`."""
        for _ in range(0, count, group):
            async with self._connection.transaction(), self._connection.cursor() as cursor:
                await cursor.executemany(self._insert, [(secrets.token_hex(8), value) for _ in range(group)])

    async def fill(self, count: int, value: bytes) -> None:
        """See `Reference`."""
        async with self._connection.cursor() as cursor:
            query = sql.SQL("COPY {} FROM STDIN").format(self._listed)
            async with cursor.copy(query) as copy:
                for number in range(count):
                    await copy.write_row((f"/list/{number}", value))

    async def read_all(self) -> None:
        """See `Reference`."""
        query = sql.SQL("SELECT key, value FROM {} ORDER BY key").format(self._listed)
        await (await self._connection.execute(query, binary=True)).fetchall()

    async def read_one(self, count: int) -> None:
        """See `Reference`."""
        query = sql.SQL("SELECT key, value FROM {} WHERE key = '/list/0'").format(self._listed)
        for _ in range(count):
            await (await self._connection.execute(query, binary=True)).fetchone()

    async def close(self) -> None:
        """See `Reference`."""
        for table in (self._written, self._listed):
            await self._connection.execute(sql.SQL("DROP TABLE {}").format(table))
        await self._connection.close()


async def open_reference(url: str) -> RawPostgres:
    """The reference on the database at `url`."""
    return await RawPostgres.open(url)
