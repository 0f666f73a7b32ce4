"""Commits batches of work, each exactly once.

A batch is planned on the state that was read and committed if the turn is still the same. So no lock is held while
planning, and of several processes that try at once one succeeds. A process that lost twice takes the lock first:
otherwise a distant process would always lose to a near one.

If the connection breaks during a commit, its outcome is unknown. Each commit therefore writes its writer's name and
batch number to a table. On a new session the writer first advances the turn, which waits for the old commit if it is
still running and makes it fail if it comes later, and then reads that table.
"""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence

import psycopg

from rota.kit import backoff, clock, logs
from rota.store import errors, store_interface, write_plan
from rota.store.backends.postgres import faults, schema, sessions, statements
from rota.store.backends.postgres.sessions import Address, Session
from rota.store.backends.postgres.statements import Head, State
from rota.store.engine import Applied
from rota.store.logstore import Settings
from rota.store.store_interface import Committed, Entry, Precondition, Put, RevisionRange, Transaction
from rota.store.write_plan import Work

log = logs.get(__name__)

#: How often other processes may win the turn before this one takes the lock.
_LOSSES = 2

#: A restore has no time limit; the goodbye at the end has a short one.
_RESTORE_S = 86_400.0
_FAREWELL_S = 1.0

_LOCK = "SELECT revision FROM rota_meta FOR UPDATE"
_RECORD = """
INSERT INTO rota_writers VALUES (%s, %s, clock_timestamp())
ON CONFLICT (writer) DO UPDATE SET batch = excluded.batch, seen_at = excluded.seen_at
"""


class Writer:
    """The one session of this process that changes entries and history."""

    def __init__(self, address: Address, *, time: clock.Clock, rng: backoff.Rng, settings: Settings) -> None:
        self._address = address
        self._time = time
        self._rng = rng
        self._settings = settings
        #: Our row in `rota_writers`.
        self.name = secrets.token_hex(8)
        self._batch = 0
        self._open_session: Session | None = None
        self._alone = asyncio.Lock()
        #: The head after our last commit; None if another process may have changed it since.
        self._known: Head | None = None

    @property
    def pid(self) -> int:
        """The server process of our session, 0 for none: it announces our own commits."""
        session = self._open_session
        return session.info.backend_pid if session and not session.closed else 0

    def forget(self) -> None:
        """Another process committed."""
        self._known = None

    async def apply(self, work: Sequence[Work]) -> Applied:
        """Apply the work in one durable commit."""
        async with self._alone:
            for losses in itertools.count():
                if applied := await self._attempt(work, lock_first=losses >= _LOSSES):
                    return applied
                self._known = None
            raise AssertionError("the holder of the lock must have the turn")

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """Fill an empty database, all or nothing."""
        async with self._alone:
            self._known = None
            self._batch += 1
            session = await self._session()
            async with sessions.used(session, self._address, within_s=_RESTORE_S):
                await session.execute("BEGIN")
                row = await (await session.execute(_LOCK)).fetchone()
                if row is None:
                    raise schema.headless(self._address.place)
                if await (await session.execute("SELECT FROM rota_entries LIMIT 1")).fetchone() is not None:
                    raise errors.NotEmpty(f"{self._address.place} holds keys already", "restore into a new database")
                head = max(revision, row[0]) + store_interface.RESTORE_GAP
                await _copy(session, entries, head)
                await session.execute("DELETE FROM rota_log")
                await session.execute("UPDATE rota_meta SET revision = %s, floor = %s, turn = turn + 1", [head, head])
                await session.execute(_RECORD, [self.name, self._batch])
                await session.execute("SELECT pg_notify(%s, '')", [schema.CHANNEL])
                async with self._fate_known(self._batch):
                    await session.execute("COMMIT")
            return RevisionRange(head, head)

    async def close(self) -> None:
        """Delete our row, if the server is reachable, and close the session."""
        async with self._alone:
            session, self._open_session = self._open_session, None
            if session and not session.closed:
                with contextlib.suppress(errors.StoreError):
                    async with sessions.used(session, self._address, within_s=_FAREWELL_S):
                        await session.execute("DELETE FROM rota_writers WHERE writer = %s", [self.name])
                await session.close()

    async def _attempt(self, work: Sequence[Work], *, lock_first: bool) -> Applied | None:
        """Plan and commit; None if another process took the turn in between."""
        session = await self._session()
        async with sessions.used(session, self._address):
            blindly = self._known is not None and _only_creates(work)
            if lock_first:
                await session.execute("BEGIN")
                await session.execute(_LOCK)
            state = State(self._known, {}, {}) if self._known and blindly else await self._read(session, work)
            head = state.head
            plan = write_plan.plan(work, state.rows, state.leases, head=head.revision, floor=head.floor)
            if blindly and not all(isinstance(verdict, Committed) for verdict in plan.verdicts):
                return None
            applied = Applied(plan.verdicts, plan.events, head.revision, plan.revision)
            if not plan.records and not plan.ended:
                if lock_first:
                    await session.execute("ROLLBACK")
                return applied
            self._batch += 1
            # The result to return if the response is lost and the batch is found to be committed.
            done = True
            async with self._fate_known(self._batch):
                done = await statements.commit(
                    session, plan, head, writer=self.name, batch=self._batch, all_new=blindly
                )
                if lock_first:
                    await session.execute("COMMIT")
            if not done:
                return None
            # Finding out the outcome of the batch has opened another session and advanced the turn.
            self._known = Head(plan.revision, head.floor, head.turn + 1) if session is self._open_session else None
            return applied

    async def _read(self, session: Session, work: Sequence[Work]) -> State:
        state = await statements.read_state(session, work)
        if state is None:
            raise schema.headless(self._address.place)
        return state

    async def _session(self) -> Session:
        session = self._open_session
        if not sessions.is_usable(session):
            await self._hang_up()
            session = self._open_session = await sessions.connect(self._address)
        return session

    async def _hang_up(self) -> None:
        self._known = None
        if self._open_session:
            await self._open_session.close()

    @contextlib.asynccontextmanager
    async def _fate_known(self, batch: int) -> AsyncIterator[None]:
        """Wraps the commit of `batch`: an error inside means that it did not happen, no error that it did."""
        try:
            yield
        except psycopg.Error as problem:
            if faults.is_answer(problem):
                raise
            log.warning("connection lost during a commit, checking whether it was committed", problem=str(problem))
            await self._hang_up()
            if not await self._happened(batch):
                raise

    async def _happened(self, batch: int) -> bool:
        """Whether a batch was committed; if not, it never will be."""
        pause = backoff.Backoff(self._settings.retry, self._rng)
        deadline = self._time.monotonic() + self._settings.patience_s
        while True:
            try:
                session = await self._session()
                async with sessions.used(session, self._address):
                    await session.execute("UPDATE rota_meta SET turn = turn + 1")
                    cursor = await session.execute("SELECT batch FROM rota_writers WHERE writer = %s", [self.name])
                    row = await cursor.fetchone()
                    return row is not None and row[0] >= batch
            except errors.StoreError as problem:
                delay = pause.next()
                if self._time.monotonic() + delay > deadline:
                    raise errors.Unavailable(
                        f"the connection to {self._address.place} was lost during a commit, and its outcome"
                        f" is unknown: {problem.message}",
                        "read the keys to see whether the change was made",
                        uncertain=True,
                    ) from problem
                await self._time.sleep(delay)


async def _copy(session: Session, entries: Iterable[Entry], revision: int) -> None:
    async with session.cursor().copy("COPY rota_entries FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(["text", "bytea", "bigint", "bigint", "bigint", "boolean"])
        for entry in entries:
            await copy.write_row((entry.key, entry.value, revision, revision, 0, False))


def _only_creates(work: Iterable[Work]) -> bool:
    """Whether every key that `work` touches must be new: then nothing has to be read."""
    return all(isinstance(item, Transaction) and _creates(item) for item in work)


def _creates(transaction: Transaction) -> bool:
    made = [
        Precondition(write.key, revision=0)
        for write in transaction.writes
        if isinstance(write, Put) and not write.lease
    ]
    return 0 < len(made) == len(transaction.writes) and {*transaction.guards} == {*made}
