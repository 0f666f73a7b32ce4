"""Reads and writes of the SQLite backend.

One thread writes, holding a file lock on which Rota's processes queue: with SQLite alone a second writer polls with
growing sleeps, and in the end reports that the database is locked. Point reads run on the event loop, since in WAL mode
they wait neither for the writer nor for each other and take a tenth of the time of a switch to a thread; recent entries
that have not changed come from memory (`read_cache`). Lists and history, which may be long, run in reader threads with
connections of their own.
"""

import asyncio
import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeVar

from rota.kit import clock, serial_executor
from rota.store import errors, store_interface, write_plan
from rota.store.backends.sqlite import schema, transactions
from rota.store.backends.sqlite.commit_notifier import CommitNotifier
from rota.store.backends.sqlite.faults import translated
from rota.store.backends.sqlite.read_cache import KNOWN, Generation, ReadCache
from rota.store.engine import Applied, check_revision
from rota.store.remaining_counts import RemainingCounts
from rota.store.store_interface import Entry, Event, Page, RevisionRange
from rota.store.store_watch import Tail
from rota.store.write_plan import Row, Work

_T = TypeVar("_T")

# ruff: noqa: S608 - what is spliced into queries here are constants and whole numbers, never a caller's text

_ENTRY = "SELECT key, value, revision, created, lease FROM entries"
_BY_KEY = f"{_ENTRY} WHERE key = ?"
#: For transactions that change no entries.
_NOTHING: Mapping[str, Row | None] = MappingProxyType({})
#: How many keys one query asks for.
_AT_ONCE = 256
_EVENT = f"SELECT key, id >> {schema.PLACE_BITS}, value, created, previous, previous_revision FROM log"

#: A list at a past revision: entries that have not changed since, and the previous state of the one change that spans
#: the revision. The log is read by id, from that revision on: a page token is recent, so that part is short.
_AS_OF = """
SELECT key, value, revision, created, lease FROM entries
  WHERE key > :after AND key >= :prefix AND key < :end AND revision <= :revision
UNION ALL
SELECT key, previous, previous_revision, created, 0 FROM log
  WHERE id >= :from_id AND previous IS NOT NULL AND previous_revision <= :revision
  AND +key > :after AND +key >= :prefix AND +key < :end
ORDER BY key
"""

#: The number of entries in such a list, without reading them: the current ones, less those that changed since, plus the
#: previous states of the changes.
_COUNT = "SELECT count(*) FROM entries WHERE key > :after AND key >= :prefix AND key < :end"
_COUNT_AS_OF = f"""
WITH since AS (
  SELECT key, previous IS NOT NULL AND previous_revision <= :revision AS spans FROM log
  WHERE id >= :from_id AND +key > :after AND +key >= :prefix AND +key < :end
)
SELECT ({_COUNT}) + (SELECT count(*) FROM since WHERE spans)
  - (SELECT count(*) FROM (SELECT DISTINCT key FROM since) AS changed
     WHERE EXISTS (SELECT 1 FROM entries WHERE entries.key = changed.key))
"""

#: Sorts after every key: keys are valid text, and this is the highest code point.
_LAST = "\U0010ffff"


class SqliteEngine:
    """Implements `engine.Engine` on one file."""

    def __init__(self, path: Path, time: clock.Clock) -> None:
        self._path = path
        self._time = time
        self._peers = CommitNotifier(path)
        self._writer = serial_executor.SerialExecutor("store-writer")
        self._readers = ThreadPoolExecutor(4, "store-reader")
        self._local = threading.local()
        #: Every connection, to close them all at the end, from another thread than their own.
        self._connections: list[sqlite3.Connection] = []
        self._lock_file = -1
        self._generation: Generation | None = None
        self._left = RemainingCounts()
        #: Set when the file is opened.
        self._recent: ReadCache
        #: Device and inode of the opened file: SQLite continues with a deleted file.
        self._identity: tuple[int, int] | None = None
        #: Size of the write-ahead log at which the next restart of it is attempted.
        self._wal_bytes = schema.WAL_BYTES

    @classmethod
    async def open(cls, path: Path, *, time: clock.Clock, create: bool) -> Self:
        """Open or create a file; a file with other content is refused unchanged."""
        engine = cls(path, time)
        try:
            await engine._write(lambda: engine._prepare(create))
        except BaseException:
            await engine.close()
            raise
        return engine

    def _prepare(self, create: bool) -> None:
        if self._path.is_dir():
            raise errors.BadAddress(f"{self._path} is a folder", f"did you mean sqlite:///{self._path}/rota.db?")
        is_ours = self._path.exists() and self._inspect()
        if not create and not is_ours:
            raise errors.BadAddress(f"there is no store at {self._path}", "check the path")
        if not self._path.parent.is_dir():
            raise errors.BadAddress(f"folder {self._path.parent} does not exist", "create it, or name another file")
        for place in (self._path.parent, self._path):
            if place.exists() and not os.access(place, os.W_OK):
                raise errors.ReadOnly(f"{place} is read-only", "make the file and its folder writable")
        lock = self._path.with_name(self._path.name + ".lock")
        self._lock_file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._generation = Generation(self._lock_file)
        self._recent = ReadCache(self._generation)
        with self._locked():
            if not is_ours:
                # The file holds every secret of the cluster: only its owner may read it. SQLite's files beside it are
                # created with its mode.
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                self._path.chmod(0o600)
            connection = self._connection()
            if not schema.recognise(connection, self._path):
                schema.make(connection, self._path)
            self._identity = _identity(self._path)
            # A read-only file must fail here, not at a user's first write.
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE meta SET floor = floor")
            connection.execute("COMMIT")

    def _inspect(self) -> bool:
        """Whether the file is a store, found out without write access, so that other files stay unchanged."""
        # If no process has the file open there is no WAL beside it, and SQLite must not create one.
        alone = not self._path.with_name(self._path.name + "-wal").exists()
        uri = f"{self._path.absolute().as_uri()}?mode=ro{'&immutable=1' * alone}"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            return schema.recognise(connection, self._path)

    async def close(self) -> None:
        """Close the file when running calls have ended."""
        # In a thread, since the writer may have to wait for another process.
        await asyncio.to_thread(self._finish)
        self._peers.close()

    def _finish(self) -> None:
        self._writer.close()
        self._readers.shutdown()
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        if self._generation is not None:
            self._generation.close()
            self._generation = None
        if self._lock_file >= 0:
            os.close(self._lock_file)
            self._lock_file = -1

    def on_foreign_commit(self, wake: Callable[[], None]) -> None:
        """Call `wake` soon after another process commits."""
        with translated(self._path):
            self._peers.listen(wake)

    # Reads

    async def revision_range(self) -> RevisionRange:
        """The newest revision and the floor; Lost if the file is gone."""
        self._check_file()
        with translated(self._path):
            return transactions.revision_range(self._connection())

    async def size_bytes(self) -> int:
        """The pages of the file; the write-ahead log is bounded and not counted."""
        with translated(self._path):
            connection = self._connection()
            pages, page = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages) * int(page)

    async def get(self, key: str) -> Entry | None:
        """The current state of the key."""
        entry, generation = self._recent.get(key)
        if generation == KNOWN:
            return entry
        with translated(self._path):
            found = self._connection().execute(_BY_KEY, (key,)).fetchone()
        entry = Entry(*found) if found else None
        self._recent.learn(((key, entry),), generation)
        return entry

    async def get_many(self, keys: Sequence[str]) -> dict[str, Entry]:
        """Those of the keys that exist."""
        known, generation = self._recent.find(keys)
        missing = [key for key in keys if key not in known]
        read: dict[str, Entry] = {}
        with translated(self._path):
            for start in range(0, len(missing), _AT_ONCE):
                wanted = missing[start : start + _AT_ONCE]
                query = f"{_ENTRY} WHERE key IN ({','.join('?' * len(wanted))})"
                read.update((row[0], Entry(*row)) for row in self._connection().execute(query, wanted))
        self._recent.learn(((key, read.get(key)) for key in missing), generation)
        return read | {key: entry for key, entry in known.items() if entry is not None}

    async def scan(self, prefix: str, *, limit: int, after: str, revision: int) -> Page:
        """One page of entries."""
        left = self._left.behind(prefix, revision, after)

        def scan(connection: sqlite3.Connection) -> Page:
            revision_range = transactions.revision_range(connection)
            at = revision or revision_range.revision
            check_revision(at, revision_range)
            bounds: dict[str, str | int] = {
                "after": after,
                "prefix": prefix,
                "end": store_interface.range_end(prefix) if prefix else _LAST,
            }
            query, count = f"{_ENTRY} WHERE key > :after AND key >= :prefix AND key < :end ORDER BY key", _COUNT
            if at != revision_range.revision:
                query, count = _AS_OF, _COUNT_AS_OF
                bounds |= {"revision": at, "from_id": schema.first_id(at + 1)}
            rows = connection.execute(f"{query} LIMIT {int(limit) or -1}", bounds).fetchall()
            remaining = 0
            if limit and len(rows) == limit:
                bounds["after"] = rows[-1][0]
                remaining = connection.execute(count, bounds).fetchone()[0] if left is None else left - limit
            return Page([Entry(*row) for row in rows], at, remaining)

        page = await self._read(scan)
        if page.remaining:
            self._left.remember(prefix, page.revision, after=page.entries[-1].key, left=page.remaining)
        return page

    async def tail(self, after: int, limit: int) -> Tail:
        """History above `after`."""

        def tail(connection: sqlite3.Connection) -> Tail:
            revision_range = transactions.revision_range(connection)
            check_revision(after, revision_range)
            query = f"{_EVENT} WHERE id >= ? AND id < ? ORDER BY id LIMIT {int(limit)}"
            rows = connection.execute(
                query, (schema.first_id(after + 1), schema.first_id(revision_range.revision + 1))
            ).fetchall()
            events = [Event(*row) for row in rows]
            if len(events) < limit:
                return Tail(events, revision_range.revision)
            # The limit may have cut a transaction in two: read all of the last one.
            last = events[-1].revision
            whole = connection.execute(
                f"{_EVENT} WHERE id >= ? AND id < ? ORDER BY id",
                (schema.first_id(last), schema.first_id(last + 1)),
            ).fetchall()
            return Tail([*(event for event in events if event.revision < last), *(Event(*row) for row in whole)], last)

        return await self._read(tail)

    async def expired(self) -> list[int]:
        """Leases whose TTL is over."""
        with translated(self._path):
            rows = self._connection().execute("SELECT id FROM leases WHERE expires_at <= ?", (self._time.now(),))
            return [lease for (lease,) in rows]

    async def next_expiry_s(self) -> float | None:
        """Seconds until the next lease expires."""
        with translated(self._path):
            (due,) = self._connection().execute("SELECT min(expires_at) FROM leases").fetchone()
        return None if due is None else due - self._time.now()

    # Writes

    async def apply(self, work: Sequence[Work]) -> Applied:
        """Apply the work in one durable commit."""

        def apply(connection: sqlite3.Connection) -> Applied:
            revision_range = transactions.revision_range(connection)
            leases = transactions.leases(connection, write_plan.touched_leases(work), self._time.now())
            rows = transactions.rows(connection, write_plan.touched_keys(work, leases))
            plan = write_plan.plan(work, rows, leases, head=revision_range.revision, floor=revision_range.floor)
            if plan.records or plan.ended:
                transactions.carry_out(connection, plan)
                changed.update(plan.rows)
            return Applied(plan.verdicts, plan.events, revision_range.revision, plan.revision)

        changed: dict[str, Row | None] = {}
        return await self._write(lambda: self._transact(apply, changed))

    async def raise_floor(self, floor: int) -> None:
        """Mark history up to `floor` as compacted."""
        await self._write(
            lambda: self._transact(
                lambda connection: connection.execute("UPDATE meta SET floor = max(floor, ?)", (floor,)).rowcount
            )
        )

    async def trim(self, limit: int) -> int:
        """Remove records at or below the floor, and free their pages."""

        def trim(connection: sqlite3.Connection) -> int:
            before = schema.first_id(transactions.revision_range(connection).floor + 1)
            gone = connection.execute(
                "DELETE FROM log WHERE id IN (SELECT id FROM log WHERE id < ? ORDER BY id LIMIT ?)",
                (before, limit),
            ).rowcount
            ((free,), (pages,)) = (connection.execute(f"PRAGMA {it}_count").fetchone() for it in ("freelist", "page"))
            # A quarter of the free pages is kept for the next writes. A call frees one page, whatever number the driver
            # is given.
            for _ in range(min(limit, free - pages // 4)):
                connection.execute("PRAGMA incremental_vacuum(1)")
            return gone

        return await self._write(lambda: self._transact(trim))

    async def grant(self, ttl_s: float) -> int:
        """A new lease."""

        def grant(connection: sqlite3.Connection) -> int:
            lease = connection.execute(
                "INSERT INTO leases (ttl_s, expires_at) VALUES (?, ?)", (ttl_s, self._time.now() + ttl_s)
            ).lastrowid
            assert lease is not None
            return lease

        return await self._write(lambda: self._transact(grant))

    async def renew(self, lease: int) -> bool:
        """Restart its TTL."""
        now = self._time.now()
        renewed = await self._write(
            lambda: self._transact(
                lambda connection: (
                    connection.execute(
                        "UPDATE leases SET expires_at = ? + ttl_s WHERE id = ? AND expires_at > ?",
                        (now, lease, now),
                    ).rowcount
                )
            )
        )
        return bool(renewed)

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """Fill an empty file."""

        def load(connection: sqlite3.Connection) -> RevisionRange:
            if connection.execute("SELECT 1 FROM entries LIMIT 1").fetchone():
                raise errors.NotEmpty(f"{self._path} holds keys already", "restore into a new file")
            head = max(revision, transactions.revision_range(connection).revision) + store_interface.RESTORE_GAP
            connection.executemany(
                "INSERT INTO entries VALUES (?, ?, ?, ?, 0, 0)",
                ((entry.key, entry.value, head, head) for entry in entries),
            )
            connection.execute("DELETE FROM log")
            connection.execute("UPDATE meta SET revision = ?, floor = ?", (head, head))
            return RevisionRange(head, head)

        return await self._write(lambda: self._transact(load, None))

    # Threads, connections, locks

    def _connection(self) -> sqlite3.Connection:
        """The calling thread's own connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            # Closed by another thread at the end, never used by one.
            connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._local.connection = connection
            self._connections.append(connection)
            schema.tune(connection)
        return connection

    async def _read(self, read: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `read` in a reader thread, all of it on one snapshot."""

        def run() -> _T:
            with translated(self._path):
                connection = self._connection()
                connection.execute("BEGIN")
                try:
                    return read(connection)
                finally:
                    # SQLite ends it by itself on some errors; the caller should get those.
                    if connection.in_transaction:
                        connection.execute("COMMIT")

        return await asyncio.get_running_loop().run_in_executor(self._readers, run)

    async def _write(self, write: Callable[[], _T]) -> _T:
        """Run `write` in the writer's thread."""

        def run() -> _T:
            with translated(self._path):
                return write()

        return await self._writer.run(run)

    def _transact(
        self, write: Callable[[sqlite3.Connection], _T], changed: Mapping[str, Row | None] | None = _NOTHING
    ) -> _T:
        """Run `write` in a transaction, exclusively among Rota's processes, and notify the others.

        `changed` holds the entries that it changed, once it has run; None if that is not known.
        """
        connection = self._connection()
        with self._locked():
            self._check_file()
            self._bound_wal(connection)
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = write(connection)
                self._commit(connection, changed)
            except BaseException:
                # SQLite has rolled back by itself if the disk is full.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        self._peers.announce()
        return result

    def _commit(self, connection: sqlite3.Connection, changed: Mapping[str, Row | None] | None) -> None:
        assert self._generation is not None
        before = self._generation.begin()
        try:
            connection.execute("COMMIT")
            if changed is not None:
                self._recent.wrote(before, changed)
        finally:
            self._generation.end()

    def _bound_wal(self, connection: sqlite3.Connection) -> None:
        """Restart the write-ahead log when it has grown large.

        SQLite does so by itself only when there are no readers, which never happens under many lists. This waits for
        the current readers, while new ones already read from the file itself.
        """
        try:
            size = self._path.with_name(self._path.name + "-wal").stat().st_size
        except FileNotFoundError:
            return
        if size <= self._wal_bytes:
            return
        done = False
        # A full disk, for example: the write that follows reports it, if it is affected.
        with contextlib.suppress(sqlite3.Error):
            done = not connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0]
        # A very long read must not make every commit wait.
        self._wal_bytes = schema.WAL_BYTES if done else 2 * size

    def _check_file(self) -> None:
        """Raise Lost if the file was deleted or replaced: writes to it would be gone when the last process ends."""
        if self._identity is not None and _identity(self._path) != self._identity:
            raise errors.Lost(
                f"{self._path} was deleted or replaced while it was in use; nothing that is written now would be kept",
                "stop Rota, restore a backup (rota restore), and start it again",
            )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock_file, fcntl.LOCK_UN)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
