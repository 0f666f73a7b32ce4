"""What a database must offer so that `rota.store.logstore` can make a store of it.

Memory, SQLite and PostgreSQL fill this; etcd has revisions, watches and leases of its own and fills `contract.Store`
directly. An engine applies a batch of work in one durable commit, reads, and tails the log; it keeps no watchers and
no queues.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from rota.store import errors
from rota.store.store_interface import Entry, Event, Page, RevisionRange
from rota.store.store_watch import Tail
from rota.store.write_plan import Verdict, Work


class Applied(Struct, frozen=True):
    """What became of a batch of work."""

    verdicts: list[Verdict]
    events: list[Event]
    #: The newest revision before and after; between them lie exactly `events`.
    before: int
    revision: int


class Engine(Protocol):
    """One database, opened."""

    async def revision_range(self) -> RevisionRange:
        """The newest revision and the floor."""
        ...

    async def size_bytes(self) -> int:
        """See `contract.Store.size_bytes`."""
        ...

    async def get(self, key: str) -> Entry | None:
        """The key as it stands."""
        ...

    async def get_many(self, keys: Sequence[str]) -> dict[str, Entry]:
        """Those of the keys that exist, as they stand."""
        ...

    async def scan(self, prefix: str, *, limit: int, after: str, revision: int) -> Page:
        """One page; see `contract.Store.list`."""
        ...

    async def apply(self, work: Sequence[Work]) -> Applied:
        """Carry out the work in one durable commit, in order."""
        ...

    async def tail(self, after: int, limit: int) -> Tail:
        """History above `after`; see `watching.History`."""
        ...

    async def raise_floor(self, floor: int) -> None:
        """Declare history up to `floor` gone; lower than before is no change."""
        ...

    async def trim(self, limit: int) -> int:
        """Remove at most `limit` records at or below the floor; how many there were."""
        ...

    async def grant(self, ttl_s: float) -> int:
        """A new lease."""
        ...

    async def renew(self, lease: int) -> bool:
        """Start its time anew; False when it is gone."""
        ...

    async def expired(self) -> list[int]:
        """Leases whose time is over."""
        ...

    async def next_expiry_s(self) -> float | None:
        """Seconds until the next lease runs out; None without leases."""
        ...

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """See `contract.Store.load`."""
        ...

    def on_foreign_commit(self, wake: Callable[[], None]) -> None:
        """Have `wake` called, on the event loop, soon after another process commits."""
        ...

    async def close(self) -> None:
        """Let go of the database."""
        ...


def check_revision(revision: int, revision_range: RevisionRange) -> None:
    """Refuse a revision outside of history."""
    if revision < revision_range.floor:
        raise errors.Expired(revision, revision_range.floor)
    if revision > revision_range.revision:
        raise errors.FutureRevision(revision, revision_range.revision)
