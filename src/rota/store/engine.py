"""The interface of a database that `rota.store.logstore` builds a store on.

Memory, SQLite and PostgreSQL implement it; etcd has its own revisions, watches and leases and implements
`store_interface.Store` directly. An engine applies a batch of work in one durable commit, reads, and tails the log; it
has no watchers and no queues.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from rota.store import errors
from rota.store.store_interface import Entry, Event, Page, RevisionRange
from rota.store.store_watch import Tail
from rota.store.write_plan import Verdict, Work


class Applied(Struct, frozen=True):
    """The result of a batch of work."""

    verdicts: list[Verdict]
    events: list[Event]
    #: The newest revision before and after; exactly `events` lie between them.
    before: int
    revision: int


class Engine(Protocol):
    """One database, opened."""

    async def revision_range(self) -> RevisionRange:
        """The newest revision and the floor."""
        ...

    async def size_bytes(self) -> int:
        """See `store_interface.Store.size_bytes`."""
        ...

    async def get(self, key: str) -> Entry | None:
        """The current state of the key."""
        ...

    async def get_many(self, keys: Sequence[str]) -> dict[str, Entry]:
        """The current state of those keys that exist."""
        ...

    async def scan(self, prefix: str, *, limit: int, after: str, revision: int) -> Page:
        """One page; see `store_interface.Store.list`."""
        ...

    async def apply(self, work: Sequence[Work]) -> Applied:
        """Apply the work in one durable commit, in order."""
        ...

    async def tail(self, after: int, limit: int) -> Tail:
        """History above `after`; see `store_watch.History`."""
        ...

    async def raise_floor(self, floor: int) -> None:
        """Mark history up to `floor` as compacted; a lower value than before has no effect."""
        ...

    async def trim(self, limit: int) -> int:
        """Remove at most `limit` records at or below the floor; returns how many there were."""
        ...

    async def grant(self, ttl_s: float) -> int:
        """A new lease."""
        ...

    async def renew(self, lease: int) -> bool:
        """Restart its TTL; False if it is gone."""
        ...

    async def expired(self) -> list[int]:
        """Leases whose TTL is over."""
        ...

    async def next_expiry_s(self) -> float | None:
        """Seconds until the next lease expires; None without leases."""
        ...

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """See `store_interface.Store.load`."""
        ...

    def on_foreign_commit(self, wake: Callable[[], None]) -> None:
        """Call `wake`, on the event loop, soon after another process commits."""
        ...

    async def close(self) -> None:
        """Close the database."""
        ...


def check_revision(revision: int, revision_range: RevisionRange) -> None:
    """Reject a revision outside of history."""
    if revision < revision_range.floor:
        raise errors.Expired(revision, revision_range.floor)
    if revision > revision_range.revision:
        raise errors.FutureRevision(revision, revision_range.revision)
