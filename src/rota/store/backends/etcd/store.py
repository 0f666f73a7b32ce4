"""A store on etcd: implements `store_interface.Store` with the modules beside it.

Reads are linearizable. Heartbeats are written like other values: etcd keeps its own history, which only compaction
bounds. Compaction is etcd's as well: it affects the keys of all clients.
"""

import asyncio
import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Self

from rota.kit import backoff, clock, tasks
from rota.store import broadcaster, errors, store_interface, store_watch
from rota.store.backends.etcd import address, bulk_load, connection, faults, keyspace, methods, transactions
from rota.store.backends.etcd import etcd_pb2 as pb
from rota.store.backends.etcd.connection import Connection
from rota.store.backends.etcd.history import EtcdHistory
from rota.store.backends.etcd.keyspace import Keyspace, Span
from rota.store.backends.etcd.store_status import StoreStatus
from rota.store.backends.etcd.watch_feed import WatchFeed
from rota.store.logstore import Settings
from rota.store.store_interface import Entry, Outcome, Page, RevisionRange, Store, Transaction

#: Target size of one response to a list, so that decoding it does not block the event loop for long, and how many keys
#: the first request asks for, before their size is known.
_ANSWER_BYTES = 4 * 1024 * 1024
_FIRST_KEYS = 500
_MOST_KEYS = 10_000

#: How long to wait for a change to get from etcd to the broadcaster.
_LAG_S = 0.25


async def open_store(
    url: str, *, time: clock.Clock, rng: backoff.Rng, settings: Settings | None, create: bool
) -> Store:
    """Open the store at `url`; see `rota.store.store_factory`."""
    settings = settings or Settings()
    where = address.parse(url)
    etcd = Connection(where, time=time, rng=rng, settings=settings)
    space = Keyspace(where.prefix, str(where))
    try:
        await _recognise(etcd, space, create=create)
        return await EtcdStore.start(etcd, space, time=time, rng=rng, settings=settings)
    except BaseException:
        await etcd.close()
        raise


async def _recognise(etcd: Connection, space: Keyspace, *, create: bool) -> None:
    """Read the meta keys, or write the first one in an unused prefix."""
    look = pb.RangeRequest(key=space.notes.start, range_end=space.notes.end)
    answer = await etcd.first_contact(methods.RANGE, look)
    if create and not answer.kvs:
        is_unused = pb.Compare(
            result=pb.Compare.EQUAL,
            target=pb.Compare.CREATE,
            key=space.whole.start,
            range_end=space.whole.end,
            create_revision=0,
        )
        note = transactions.put_note(space, "format", keyspace.number(keyspace.FORMAT))
        made = await etcd.call(methods.TXN, pb.TxnRequest(compare=[is_unused], success=[note]))
        answer = await etcd.call(methods.RANGE, look)
        if not made.succeeded and not answer.kvs:
            raise errors.Corrupt(f"{space.where} holds keys of another program", "add another /prefix to the URL")
    space.read(answer.kvs, answer.header.revision)


class EtcdStore(store_interface.Verbs):
    """Implements `store_interface.Store`."""

    def __init__(
        self,
        etcd: Connection,
        space: Keyspace,
        survey: StoreStatus,
        revision: int,
        *,
        time: clock.Clock,
        rng: backoff.Rng,
        settings: Settings,
    ) -> None:
        self._etcd = etcd
        self._space = space
        self._time = time
        self._settings = settings
        self._survey = survey
        self._broadcaster = broadcaster.WatchBroadcaster(revision, settings.limits, metrics=settings.metrics)
        self._broadcaster.metrics.outage_s.set_function(etcd.outage.away_s)
        self._feed = WatchFeed(etcd, space, self._broadcaster, survey, time=time, rng=rng, settings=settings)
        self._past = EtcdHistory(etcd, space, self._broadcaster, survey, self._feed)
        self._supervisor = tasks.Supervisor("store", clock=time, rng=rng)

    @classmethod
    async def start(
        cls,
        etcd: Connection,
        space: Keyspace,
        *,
        time: clock.Clock,
        rng: backoff.Rng,
        settings: Settings,
    ) -> Self:
        """Use a connection whose meta keys have been read."""
        survey = StoreStatus(etcd, space)
        revision_range = await survey.revision_range()
        store = cls(etcd, space, survey, revision_range.revision, time=time, rng=rng, settings=settings)
        store._supervisor.start("feed", store._feed.follow)
        store._supervisor.start("bookmarks", store._feed.keep_up)
        # A compaction could remove the starting revision of a watch that etcd has not begun yet.
        with contextlib.suppress(TimeoutError):
            await time.wait_for(store._feed.connected.wait(), connection.FIRST_CONTACT_S)
        return store

    async def close(self) -> None:
        """Finish accepted calls, end watches, close the connection."""
        await self._supervisor.close()
        self._broadcaster.close()
        await self._etcd.close()

    # Reads

    async def revision_range(self) -> RevisionRange:
        """The newest revision and how far back history reaches."""
        revision_range = await self._survey.revision_range()
        await self._must_be_whole()
        return revision_range

    async def size_bytes(self) -> int:
        """The size of etcd's database in use, of all clients."""
        return int((await self._etcd.call(methods.STATUS, pb.StatusRequest())).dbSize)

    async def get(self, key: str) -> Entry | None:
        """The key as of the newest revision, or None."""
        await self._must_be_whole()
        answer = await self._etcd.call(methods.RANGE, pb.RangeRequest(key=self._space.key(key)))
        self._space.ours(answer.header.revision)
        return self._space.entry(answer.kvs[0]) if answer.kvs else None

    async def get_many(self, keys: Sequence[str]) -> list[Entry | None]:
        """Several keys, all requested at once."""
        return await asyncio.gather(*map(self.get, keys))

    async def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        """Entries under `prefix`; see `store_interface.Store.list`."""
        store_interface.check_prefix(prefix)
        await self._must_be_whole()
        span = self._space.span(prefix, after)
        while True:
            try:
                return await self._scan(span, limit, revision)
            except errors.Expired:
                # Compacted during the scan: the newest revision has changed, so start again.
                if revision:
                    raise

    async def _scan(self, span: Span, limit: int, revision: int) -> Page:
        """The list in as many responses as its size needs, all at one revision."""
        entries: list[Entry] = []
        start, at, step = span.start, revision, _FIRST_KEYS
        while True:
            wanted = min(step, limit - len(entries)) if limit else step
            answer = await self._range(Span(start, span.end), wanted, at)
            at = at or self._space.ours(answer.header.revision)
            entries += map(self._space.entry, answer.kvs)
            remaining = answer.count - len(answer.kvs)
            if not remaining or len(entries) == limit:
                return Page(entries, at, remaining)
            start = answer.kvs[-1].key + b"\0"
            step = min(_MOST_KEYS, max(1, _ANSWER_BYTES * len(answer.kvs) // answer.ByteSize()))

    async def _range(self, span: Span, limit: int, revision: int) -> pb.RangeResponse:
        if revision and revision < self._space.floor:
            raise errors.Expired(revision, self._space.floor)
        request = pb.RangeRequest(
            key=span.start,
            range_end=span.end,
            limit=limit,
            revision=self._space.theirs(revision) if revision else 0,
        )
        try:
            return await self._etcd.call(methods.RANGE, request)
        except faults.Compacted:
            await self._survey.learn_floor(revision)
            raise errors.Expired(revision, self._space.floor) from None
        except faults.Ahead:
            raise errors.FutureRevision(revision, (await self._survey.revision_range()).revision) from None

    def watch(self, prefix: str, *, after: int) -> store_watch.BroadcastWatch:
        """Changes under `prefix` above revision `after`."""
        store_interface.check_prefix(prefix)
        return store_watch.BroadcastWatch(self._broadcaster, self, prefix, after)

    async def tail(self, after: int, limit: int) -> store_watch.Tail:
        """A range of history, for watches that start below the broadcaster's oldest revision."""
        return await self._past.tail(after, limit)

    # Writes

    async def commit(self, transaction: Transaction) -> Outcome:
        """Commit a guarded transaction; when this returns `Committed` the change is durable."""
        store_interface.check_transaction(transaction)
        await self._must_be_whole()
        began = self._time.monotonic()
        try:
            answer = await self._etcd.call(methods.TXN, transactions.request(transaction, self._space))
            self._broadcaster.metrics.commit_s.observe(self._time.monotonic() - began)
            self._broadcaster.metrics.batch.observe(1)
        except faults.LeaseGone:
            raise errors.LeaseNotFound(await self._gone(transactions.leases(transaction))) from None
        except errors.NoSpace as problem:
            # The write by which etcd detects that it is full may still be applied (quotaApplierV3).
            answer = await self._etcd.call(methods.READ_TXN, transactions.look(transaction, self._space))
            if transactions.may_stand(transaction, answer):
                raise errors.Unavailable(problem.message, "read before writing again", uncertain=True) from None
            raise
        if answer.succeeded:
            self._feed.offer(transactions.events(transaction, answer, self._space))
        return transactions.outcome(transaction, answer, self._space)

    async def compact(self, revision: int) -> None:
        """Remove history up to and including `revision`, of all clients of this etcd."""
        revision_range = await self.revision_range()
        if revision > revision_range.revision:
            raise errors.FutureRevision(revision, revision_range.revision)
        if revision <= revision_range.floor:
            return
        # etcd looks up the previous value of a changed key when it sends the event, so the watch should be past this
        # revision. It nearly always is; if it is disconnected, or only changes of other clients lie in between, waiting
        # is useless.
        with contextlib.suppress(TimeoutError):
            await self._time.wait_for(self._feed.reached(revision), _LAG_S)
        with contextlib.suppress(faults.Compacted):
            await self._etcd.call(methods.COMPACT, pb.CompactionRequest(revision=self._space.theirs(revision)))
        self._space.raise_floor(revision)

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """Fill an empty store; see `store_interface.Store.load`."""
        revision_range = await bulk_load.load(self._etcd, self._space, entries, revision=revision)
        self._feed.renumber()
        return revision_range

    # Leases

    async def grant(self, ttl_s: float) -> int:
        """A new lease. etcd counts whole seconds, and raises a TTL below one and a half election timeouts."""
        if ttl_s <= 0:
            raise ValueError(f"a lease needs a TTL above 0: {ttl_s}")
        request = pb.LeaseGrantRequest(TTL=math.ceil(ttl_s))
        return (await self._etcd.call(methods.LEASE_GRANT, request)).ID

    async def renew(self, lease: int) -> bool:
        """Restart a lease's TTL; False if it is gone."""

        async def renew() -> bool:
            request = pb.LeaseKeepAliveRequest(ID=lease)
            async with self._etcd.stream(methods.LEASE_KEEP_ALIVE, request, timeout=connection.CALL_S) as read:
                return (await read()).TTL > 0

        return await self._etcd.patiently(renew)

    async def revoke(self, lease: int) -> bool:
        """End a lease and delete its keys in one transaction; False if it was gone."""
        try:
            await self._etcd.call(methods.LEASE_REVOKE, pb.LeaseRevokeRequest(ID=lease))
        except faults.LeaseGone:
            return False
        return True

    async def _gone(self, leases: Sequence[int]) -> int:
        """Which of the leases does not exist; etcd only reports that one of them does not."""
        for lease in leases[:-1]:
            request = pb.LeaseTimeToLiveRequest(ID=lease)
            if (await self._etcd.call(methods.LEASE_TIME_TO_LIVE, request)).TTL < 0:
                return lease
        return leases[-1]

    async def _must_be_whole(self) -> None:
        """Refuse to work on a partial restore."""
        if self._space.restoring:
            await self._survey.revision_range()  # it may have finished without our knowing yet
        if self._space.restoring:
            raise errors.Corrupt(
                f"a restore into {self._space.where} has not finished",
                "wait for it, or restore again if it was interrupted",
            )
