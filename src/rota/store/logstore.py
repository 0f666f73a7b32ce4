"""A store on an engine: the write queue before it, the fan-out of changes after it, and its leases' expiry.

Reads go directly to the engine. Writes go through the group commit; their changes go to the broadcaster at once if they
directly follow what it has. Otherwise another process wrote in between, and the tail task reads the log, which alone
defines the order. The engine's wake-up makes this fast; a poll every few seconds makes it certain.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Self, TypeVar

from msgspec import Struct

from rota.kit import backoff, clock, logs, tasks
from rota.store import broadcaster, errors, store_interface, store_watch
from rota.store.committer import Committer
from rota.store.engine import Applied, Engine
from rota.store.metrics import StoreMetrics
from rota.store.outages import Outage
from rota.store.store_interface import Entry, Outcome, Page, RevisionRange, Transaction
from rota.store.write_plan import LeaseLost, RevokeLease

log = logs.get(__name__)

_T = TypeVar("_T")


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of a store; the defaults suit a cluster of some thousand nodes."""

    limits: broadcaster.Limits = broadcaster.Limits()
    #: The registry of the store's metrics; without it they are private to this store.
    metrics: StoreMetrics | None = None
    #: Interval of polling the log, in case a notification was lost.
    look_every_s: float = 5.0
    #: Interval of looking for expired leases of other processes.
    lease_look_s: float = 5.0
    #: How long a call is retried while the database does not answer, before its caller gets an error.
    patience_s: float = 30.0
    retry: backoff.Policy = backoff.Policy(initial_s=0.05, cap_s=2.0)
    #: How many records one step of a compaction removes.
    trim_step: int = 500


class LogStore(store_interface.Verbs):
    """Implements `store_interface.Store` with an `Engine`."""

    def __init__(
        self, engine: Engine, revision: int, *, time: clock.Clock, rng: backoff.Rng, settings: Settings
    ) -> None:
        self._engine = engine
        self._time = time
        self._settings = settings
        self._broadcaster = broadcaster.WatchBroadcaster(revision, settings.limits, metrics=settings.metrics)
        self._committer = Committer(
            lambda work: self._patiently(lambda: engine.apply(work)),
            self._on_commit,
            time=time,
            metrics=self._broadcaster.metrics,
        )
        self._look = asyncio.Event()
        self._lease_look = asyncio.Event()
        self._rng = rng
        self._supervisor = tasks.Supervisor("store", clock=time, rng=rng)
        self._outage = Outage(time=time)
        self._broadcaster.metrics.outage_s.set_function(self._outage.away_s)
        self._closed = False
        #: Why the last write failed, if the next one is likely to fail for the same reason.
        self._write_problem: errors.StoreError | None = None
        self._broadcaster.metrics.writes_fail.set_function(lambda: self._write_problem is not None)

    @classmethod
    async def start(
        cls, engine: Engine, *, time: clock.Clock, rng: backoff.Rng, settings: Settings | None = None
    ) -> Self:
        """Use an opened engine."""
        revision_range = await engine.revision_range()
        store = cls(engine, revision_range.revision, time=time, rng=rng, settings=settings or Settings())
        engine.on_foreign_commit(store._look.set)
        # Another process may have written between the first read and the start of notifications.
        store._look.set()
        store._supervisor.start("tail", store._follow_log)
        store._supervisor.start("leases", store._end_leases)
        return store

    async def close(self) -> None:
        """Finish accepted calls, end watches, close the database."""
        await self._committer.close()
        await self._supervisor.close()
        if self._closed:
            return
        self._closed = True
        self._broadcaster.close()
        await self._engine.close()

    async def check(self) -> None:
        """See `store_interface.Store.check`; the last write shows whether the disk is full."""
        if self._write_problem is not None:
            raise self._write_problem
        await self.revision_range()

    async def revision_range(self) -> RevisionRange:
        """The newest revision and how far back history reaches."""
        return await self._patiently(self._engine.revision_range)

    async def size_bytes(self) -> int:
        """The size of the database."""
        return await self._patiently(self._engine.size_bytes)

    async def get(self, key: str) -> Entry | None:
        """The key as of the newest revision, or None."""
        if not self._closed:
            try:
                return await self._engine.get(key)
            except errors.Unavailable:
                pass  # rare, and slow
        return await self._patiently(lambda: self._engine.get(key))

    async def get_many(self, keys: Sequence[str]) -> list[Entry | None]:
        """Several keys, as of one moment."""
        found = await self._patiently(lambda: self._engine.get_many(keys))
        return [found.get(key) for key in keys]

    async def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        """Entries under `prefix`; see `store_interface.Store.list`."""
        store_interface.check_prefix(prefix)
        return await self._patiently(lambda: self._engine.scan(prefix, limit=limit, after=after, revision=revision))

    async def commit(self, transaction: Transaction) -> Outcome:
        """Commit a guarded transaction; when this returns `Committed` the change is durable."""
        store_interface.check_transaction(transaction)
        try:
            verdict = await self._committer.submit(transaction)
        except (errors.NoSpace, errors.ReadOnly) as problem:
            self._write_problem = problem
            raise
        self._write_problem = None
        if isinstance(verdict, LeaseLost):
            raise errors.LeaseNotFound(verdict.lease)
        return verdict

    def watch(self, prefix: str, *, after: int) -> store_watch.BroadcastWatch:
        """Changes under `prefix` above revision `after`."""
        store_interface.check_prefix(prefix)
        return store_watch.BroadcastWatch(self._broadcaster, self, prefix, after)

    async def tail(self, after: int, limit: int) -> store_watch.Tail:
        """A range of history, for watches that start below the broadcaster's oldest revision."""
        return await self._patiently(lambda: self._engine.tail(after, limit))

    async def compact(self, revision: int) -> None:
        """Remove history up to `revision`, in short steps between which writers can commit."""
        revision_range = await self.revision_range()
        if revision > revision_range.revision:
            raise errors.FutureRevision(revision, revision_range.revision)
        await self._patiently(lambda: self._engine.raise_floor(revision))
        while await self._patiently(lambda: self._engine.trim(self._settings.trim_step)):
            await self._time.sleep(0)

    async def grant(self, ttl_s: float) -> int:
        """A new lease of `ttl_s` seconds."""
        if ttl_s <= 0:
            raise ValueError(f"a lease needs a TTL above 0: {ttl_s}")
        lease = await self._patiently(lambda: self._engine.grant(ttl_s))
        self._lease_look.set()
        return lease

    async def renew(self, lease: int) -> bool:
        """Restart a lease's TTL; False if it is gone."""
        return await self._patiently(lambda: self._engine.renew(lease))

    async def revoke(self, lease: int) -> bool:
        """End a lease and delete its keys; False if it was gone."""
        return isinstance(await self._committer.submit(RevokeLease(lease)), store_interface.Committed)

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """Fill an empty store; see `store_interface.Store.load`."""
        if self._closed:
            raise errors.Closed
        revision_range = await self._engine.load(entries, revision=revision)
        self._broadcaster.reset(revision_range.revision)
        return revision_range

    def _on_commit(self, applied: Applied) -> None:
        """Publish a commit, unless another process wrote first and the log must be read for the right order."""
        if applied.before <= self._broadcaster.revision:
            self._broadcaster.publish(applied.events, applied.revision)
        else:
            self._look.set()

    async def _patiently(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Retry while the database does not answer, with growing pauses, until `patience_s` is over."""
        deadline = self._time.monotonic() + self._settings.patience_s
        pause: backoff.Backoff | None = None
        while True:
            if self._closed:
                raise errors.Closed
            began = self._time.monotonic()
            try:
                answer = await call()
            except errors.Unavailable as problem:
                self._outage.failed(problem)
                pause = pause or backoff.Backoff(self._settings.retry, self._rng)
                delay = pause.next()
                if problem.uncertain or self._time.monotonic() + delay > deadline:
                    raise
                await self._time.sleep(delay)
            else:
                self._outage.answered(began)
                return answer

    async def _follow_log(self) -> None:
        """Bring the broadcaster up to the log whenever another process may have written."""
        pause = backoff.Backoff(self._settings.retry, self._rng)
        while True:
            await self._wait(self._look, self._settings.look_every_s)
            began = self._time.monotonic()
            try:
                while await self._read_on():
                    pause.reset()
                self._outage.answered(began)
            except errors.Unavailable as problem:
                self._outage.failed(problem)
                await self._time.sleep(pause.next())
                self._look.set()
            except (errors.Expired, errors.FutureRevision) as problem:
                # History was compacted before it was read, or the database was rolled back to an older state.
                revision_range = await self.revision_range()
                log.warning("watches fell behind compaction and must list again", problem=str(problem))
                self._broadcaster.reset(revision_range.revision)

    async def _read_on(self) -> bool:
        """Publish one range of the log; returns whether there may be more."""
        after = self._broadcaster.revision
        tail = await self._engine.tail(after, store_watch.BroadcastWatch.STRETCH)
        self._broadcaster.publish(tail.events, tail.revision)
        return tail.revision > after

    async def _end_leases(self) -> None:
        """End leases when their TTL is over."""
        while True:
            try:
                for lease in await self._patiently(self._engine.expired):
                    await self._committer.submit(RevokeLease(lease, only_expired=True))
                due = await self._patiently(self._engine.next_expiry_s)
            except errors.Closed:
                return
            except errors.Unavailable:
                # The call itself reports it.
                due = None
            except errors.StoreError as problem:
                log.warning("cannot expire leases, trying again", problem=str(problem))
                due = None
            look = self._settings.lease_look_s
            await self._wait(self._lease_look, look if due is None else min(max(due, 0.001), look))

    async def _wait(self, event: asyncio.Event, timeout: float) -> None:
        """Wait until the event is set or the time is over."""
        try:
            await self._time.wait_for(event.wait(), timeout)
        except TimeoutError:
            return
        finally:
            event.clear()
