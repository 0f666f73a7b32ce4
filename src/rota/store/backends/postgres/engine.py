"""Reads of the PostgreSQL backend, and its idempotent writes.

These run on a few shared sessions, each in one statement or in one snapshot. `writer` changes entries and history.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from rota.kit import backoff, clock
from rota.store import store_interface
from rota.store.backends.postgres import schema
from rota.store.backends.postgres.listener import Listener
from rota.store.backends.postgres.sessions import Address, Sessions
from rota.store.backends.postgres.statements import ENTRY, NOW
from rota.store.backends.postgres.writer import Writer
from rota.store.engine import Applied, check_revision
from rota.store.logstore import Settings
from rota.store.remaining_counts import RemainingCounts
from rota.store.store_interface import Entry, Event, Page, RevisionRange
from rota.store.store_watch import Tail
from rota.store.write_plan import Work

# ruff: noqa: S608 - what is spliced into queries here are constants, never a caller's text

#: How many reads run concurrently; further ones wait.
_SESSIONS = 4


_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_EXTENT = "SELECT revision, floor FROM rota_meta"

_RANGE = "key > %(after)s AND key >= %(prefix)s AND key < %(end)s"
_PAGE = "ORDER BY key LIMIT %(limit)s::bigint"
_NEWEST = f"SELECT {ENTRY} FROM rota_entries WHERE {_RANGE}"

#: A list at a past revision: entries that have not changed since, and the previous state of the one change that spans
#: the revision. The log is read from that revision on: a page token is recent, so that part is short.
_UNCHANGED = f"{_NEWEST} AND revision <= %(revision)s"
_CHANGED = f"""
SELECT key, previous, previous_revision, created, 0::bigint FROM rota_log
WHERE revision > %(revision)s AND previous IS NOT NULL AND previous_revision <= %(revision)s AND {_RANGE}
"""
_AS_OF = f"{_UNCHANGED} UNION ALL {_CHANGED}"

_NEWEST_PAGE = f"{_NEWEST} {_PAGE}"
#: Each part returns one page, in order; otherwise the whole rest of a long list would be read for every page.
_PAGE_AS_OF = f"({_UNCHANGED} {_PAGE}) UNION ALL ({_CHANGED} {_PAGE}) {_PAGE}"

#: Whole revisions, with the revision range in the same snapshot: the range alone if there is nothing.
_TAIL = """
SELECT meta.revision, meta.floor,
  event.key, event.revision, event.value, event.created, event.previous, event.previous_revision
FROM rota_meta AS meta LEFT JOIN LATERAL (
  SELECT * FROM rota_log WHERE revision > %s ORDER BY revision FETCH FIRST %s ROWS WITH TIES
) AS event ON true
ORDER BY event.revision, event.place
"""

_TRIM = """
DELETE FROM rota_log USING (
  SELECT revision, place FROM rota_log WHERE revision <= (SELECT floor FROM rota_meta)
  ORDER BY revision, place LIMIT %s
) AS old
WHERE rota_log.revision = old.revision AND rota_log.place = old.place
"""

#: Sorts after every key: keys are valid text, and this is the highest code point.
_LAST = "\U0010ffff"


class PostgresEngine:
    """Implements `engine.Engine` on one database."""

    def __init__(self, address: Address, *, time: clock.Clock, rng: backoff.Rng, settings: Settings) -> None:
        self._place = address.place
        self._sessions = Sessions(address, _SESSIONS)
        self._writer = Writer(address, time=time, rng=rng, settings=settings)
        self._listener = Listener(address, self._writer.name, self._on_notice, time=time, rng=rng)
        self._wake: Callable[[], None] | None = None
        self._left = RemainingCounts()

    @classmethod
    async def open(cls, url: str, *, time: clock.Clock, rng: backoff.Rng, settings: Settings, create: bool) -> Self:
        """Open a database, creating the tables in an empty one; a database with other content is refused unchanged."""
        # Half, so that one more attempt on a new connection fits in before the caller gets an error.
        address = Address.parse(url, answer_s=settings.patience_s / 2)
        engine = cls(address, time=time, rng=rng, settings=settings)
        try:
            async with engine._sessions.borrow() as session:
                await schema.prepare(session, engine._place, create=create)
        except BaseException:
            await engine.close()
            raise
        return engine

    async def close(self) -> None:
        """Close all sessions."""
        await self._listener.close()
        await self._writer.close()
        await self._sessions.close()

    def on_foreign_commit(self, wake: Callable[[], None]) -> None:
        """Call `wake` soon after another process commits."""
        self._wake = wake
        self._listener.start()

    def _on_notice(self, pid: int) -> None:
        if self._wake and (not pid or pid != self._writer.pid):
            self._writer.forget()
            self._wake()

    # Reads

    async def revision_range(self) -> RevisionRange:
        """The newest revision and the floor."""
        return self._revision_range(await self._run(_EXTENT))

    async def size_bytes(self) -> int:
        """The database with its indexes."""
        rows = await self._run("SELECT pg_database_size(current_database())")
        return int(rows[0][0])

    async def get(self, key: str) -> Entry | None:
        """The current state of the key."""
        rows = await self._run(f"SELECT {ENTRY} FROM rota_entries WHERE key = %s", [key])
        return Entry(*rows[0]) if rows else None

    async def get_many(self, keys: Sequence[str]) -> dict[str, Entry]:
        """Those of the keys that exist."""
        rows = await self._run(f"SELECT {ENTRY} FROM rota_entries WHERE key = ANY(%s)", [list(keys)])
        return {row[0]: Entry(*row) for row in rows}

    async def scan(self, prefix: str, *, limit: int, after: str, revision: int) -> Page:
        """One page of entries."""
        one_page, all_left = (_PAGE_AS_OF, _AS_OF) if revision else (_NEWEST_PAGE, _NEWEST)
        parameters = {
            "after": after,
            "prefix": prefix,
            "end": store_interface.range_end(prefix) if prefix else _LAST,
            "limit": limit or None,
            "revision": revision,
        }
        remaining = self._left.behind(prefix, revision, after)
        async with self._sessions.borrow() as session, session.pipeline():
            await session.execute(_SNAPSHOT)
            extents = await session.execute(_EXTENT, binary=True)
            page = await session.execute(one_page, parameters, binary=True)
            revision_range = self._revision_range(await extents.fetchall())
            rows = await page.fetchall()
            if not limit or len(rows) < limit:
                remaining = 0
            elif remaining is not None:
                remaining -= limit
            else:
                parameters["after"] = rows[-1][0]
                counted = await session.execute(f"SELECT count(*) FROM ({all_left}) AS rest", parameters, binary=True)
                [(remaining,)] = await counted.fetchall()
            await session.execute("COMMIT")
        at = revision or revision_range.revision
        check_revision(at, revision_range)
        if remaining:
            self._left.remember(prefix, at, after=rows[-1][0], left=remaining)
        return Page([Entry(*row) for row in rows], at, remaining)

    async def tail(self, after: int, limit: int) -> Tail:
        """History above `after`."""
        rows = await self._run(_TAIL, [after, limit])
        revision_range = self._revision_range(rows)
        check_revision(after, revision_range)
        events = [Event(*row[2:]) for row in rows if row[2] is not None]
        return Tail(events, revision_range.revision if len(events) < limit else events[-1].revision)

    async def expired(self) -> list[int]:
        """Leases whose TTL is over."""
        return [lease for (lease,) in await self._run(f"SELECT id FROM rota_leases WHERE expires_at <= {NOW}")]

    async def next_expiry_s(self) -> float | None:
        """Seconds until the next lease expires."""
        [(seconds,)] = await self._run(f"SELECT min(expires_at) - {NOW} FROM rota_leases")
        due: float | None = seconds
        return due

    # Writes

    async def apply(self, work: Sequence[Work]) -> Applied:
        """Apply the work in one durable commit."""
        return await self._writer.apply(work)

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """Fill an empty database."""
        return await self._writer.load(entries, revision=revision)

    async def raise_floor(self, floor: int) -> None:
        """Mark history up to `floor` as compacted."""
        statement = "UPDATE rota_meta SET floor = %(to)s, turn = turn + 1 WHERE floor < %(to)s"
        async with self._sessions.borrow() as session:
            await session.execute(statement, {"to": floor})

    async def trim(self, limit: int) -> int:
        """Remove records at or below the floor; may run beside a commit, which touches none of those."""
        async with self._sessions.borrow() as session:
            return (await session.execute(_TRIM, [limit])).rowcount

    async def grant(self, ttl_s: float) -> int:
        """A new lease. If the response is lost it is granted again, and the first one expires unused."""
        [(lease,)] = await self._run(
            f"INSERT INTO rota_leases (ttl_s, expires_at) VALUES (%(ttl)s, {NOW} + %(ttl)s) RETURNING id",
            {"ttl": float(ttl_s)},
        )
        granted: int = lease
        return granted

    async def renew(self, lease: int) -> bool:
        """Restart its TTL."""
        renewed = await self._run(
            f"UPDATE rota_leases SET expires_at = {NOW} + ttl_s WHERE id = %s AND expires_at > {NOW} RETURNING id",
            [lease],
        )
        return bool(renewed)

    async def _run(
        self, statement: str, parameters: Sequence[object] | Mapping[str, object] = ()
    ) -> list[tuple[Any, ...]]:
        """The rows of one statement that is its own transaction."""
        async with self._sessions.borrow() as session:
            return await (await session.execute(statement, parameters, binary=True)).fetchall()

    def _revision_range(self, rows: Sequence[tuple[Any, ...]]) -> RevisionRange:
        if not rows:
            raise schema.headless(self._place)
        return RevisionRange(*rows[0][:2])
