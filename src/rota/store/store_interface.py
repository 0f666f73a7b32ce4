"""What a store promises, whatever database is behind it.

A store maps keys to bytes and numbers every change. The numbers, called *revisions*, form one order over all
keys:

* a transaction is all or nothing, and everything it changes carries one revision;
* a watch sees each committed change once, in revision order, and never half a revision;
* a list is one revision's view, however many pages it takes;
* history reaches back to the *floor*: asking for less answers `Expired`, and the asker lists again.

Keys are opaque strings ordered by code point; a prefix is a key's beginning up to and including a ``/``. Values
are opaque bytes, handed out as they were handed in. Nothing here knows Kubernetes. The guarantees are spelled out
as tests in `rota.testing.store_contract`, which every backend passes.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol, Self

from msgspec import Struct


class Entry(Struct, frozen=True, gc=False):
    """One key as it stands."""

    key: str
    value: bytes
    #: The revision of the last change to this key.
    revision: int
    #: The revision that created it; a key deleted and made again has a new one.
    created: int
    #: The lease it lives by, or 0 for a key that stays until deleted.
    lease: int = 0


class Page(Struct, frozen=True):
    """Part of a list, all of it as of one revision."""

    entries: list[Entry]
    #: The revision that this page and those after it show.
    revision: int
    #: How many entries follow the last one here.
    remaining: int = 0


class Event(Struct, frozen=True, gc=False):
    """One committed change of one key."""

    key: str
    revision: int
    #: What the key holds from this revision on; None when it was deleted.
    value: bytes | None
    #: The revision that created this incarnation of the key.
    created: int
    #: What the key held before; None when it did not exist.
    previous: bytes | None
    previous_revision: int = 0

    @property
    def is_create(self) -> bool:
        """Whether the key came into being by this change."""
        return self.created == self.revision

    @property
    def is_delete(self) -> bool:
        """Whether the key ceased to be by this change."""
        return self.value is None


class Batch(Struct, frozen=True):
    """Changes handed to a watcher together; never part of a revision."""

    events: Sequence[Event]
    #: Every matching change up to and including this revision has been delivered.
    revision: int


class Precondition(Struct, frozen=True, gc=False):
    """What must hold of a key for a transaction to happen. Unset fields are not looked at."""

    key: str
    #: The expected revision of the last change; 0 says that the key must not exist.
    revision: int | None = None
    #: The expected creating revision: the same incarnation, however often it changed since.
    created: int | None = None

    def holds(self, entry: Entry | None) -> bool:
        """Whether `entry`, the key's state, is as expected."""
        revision, created = (entry.revision, entry.created) if entry else (0, 0)
        return self.revision in (None, revision) and self.created in (None, created)


class Put(Struct, frozen=True, gc=False):
    """Write a key, new or not."""

    key: str
    value: bytes
    lease: int = 0
    #: The writer's word that this only renews what the key said before, so that history may keep the latest of such
    #: writes in a row instead of each (a watcher that lags or resumes sees the latest; one that keeps up sees all).
    heartbeat: bool = False


class Delete(Struct, frozen=True, gc=False):
    """Remove a key; one that does not exist is left so, without an event."""

    key: str


class Transaction(Struct, frozen=True, gc=False):
    """Writes that happen together, if every guard holds. No key is written twice."""

    writes: tuple[Put | Delete, ...]
    guards: tuple[Precondition, ...] = ()


class Committed(Struct, frozen=True, gc=False):
    """The transaction happened and is durable."""

    revision: int


class Conflict(Struct, frozen=True):
    """A guard that did not hold, and what its key held instead."""

    guard: Precondition
    actual: Entry | None


class Refused(Struct, frozen=True):
    """A guard did not hold; nothing was written."""

    conflicts: tuple[Conflict, ...]


Outcome = Committed | Refused


class RevisionRange(Struct, frozen=True):
    """How far a store's history reaches."""

    #: The newest committed revision. A store begins at 1, so that 0 can mean "none" or "the newest".
    revision: int
    #: History begins after this revision: lists at and watches from an older one are `Expired`.
    floor: int


class Watch(Protocol):
    """A running watch: an async iterator of batches, begun and ended by its ``async with`` block.

    Entering raises `Expired` when the starting revision is compacted and `FutureRevision` when it does not exist yet.
    Iterating raises `SlowWatcher` when the reader fell so far behind that it must list again, `Expired` when history
    was lost to it in another way, and ends when the store is closed.
    """

    @property
    def revision(self) -> int:
        """Everything up to this revision was delivered or did not match: a bookmark."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...

    def __aiter__(self) -> AsyncIterator[Batch]: ...

    async def __anext__(self) -> Batch: ...

    def nudge(self) -> None:
        """Have a reader come back from its wait, now or at its next, with an empty batch if there is nothing to tell.

        For readers that have something else to do now and then: a time limit for each wait would cost more than the
        wait itself.
        """
        ...


class Store(Protocol):
    """A versioned map with history. All methods may raise the errors of `rota.store.errors`."""

    async def check(self) -> None:
        """Raise what keeps the store from being read and written, as far as that is known."""
        ...

    async def revision_range(self) -> RevisionRange:
        """The newest revision and how far back history reaches."""
        ...

    async def size_bytes(self) -> int:
        """How large the database is, with its history; of a server that others use too, all of it."""
        ...

    async def get(self, key: str) -> Entry | None:
        """The key as of the newest revision, or None."""
        ...

    async def get_many(self, keys: Sequence[str]) -> list[Entry | None]:
        """Several keys, in their order, each as of the newest revision; they need not all show the same one."""
        ...

    async def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        """Entries under `prefix` in key order, from behind the key `after`, at most `limit` (0: all).

        `revision` 0 is the newest; later pages pass the first page's revision. Raises `Expired` for a compacted one and
        `FutureRevision` for one that does not exist yet.
        """
        ...

    async def create(self, key: str, value: bytes, *, lease: int = 0) -> Outcome:
        """Write a key that must not exist."""
        ...

    async def update(
        self, key: str, value: bytes, *, expected: int, lease: int = 0, heartbeat: bool = False
    ) -> Outcome:
        """Write a key whose last change must be `expected`."""
        ...

    async def delete(self, key: str, *, expected: int) -> Outcome:
        """Remove a key whose last change must be `expected`."""
        ...

    async def commit(self, transaction: Transaction) -> Outcome:
        """Carry out a guarded transaction; when this returns `Committed` the change is durable."""
        ...

    def watch(self, prefix: str, *, after: int) -> Watch:
        """Changes under `prefix` with a revision above `after`; an empty prefix means every key."""
        ...

    async def compact(self, revision: int) -> None:
        """Give up history up to and including `revision`; what stands now is not touched."""
        ...

    async def grant(self, ttl_s: float) -> int:
        """A new lease; keys written under it go when it is not renewed for `ttl_s` seconds."""
        ...

    async def renew(self, lease: int) -> bool:
        """Start a lease's time anew; False when it is gone. Leaves no trace in history."""
        ...

    async def revoke(self, lease: int) -> bool:
        """End a lease and delete its keys in one transaction; False when it was gone."""
        ...

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """Fill an empty store so that its next revision lies above `revision`; all or nothing.

        History begins behind what was loaded, so that a watcher of the store that the entries came from finds its
        revision `Expired`. Leases are not carried over. Raises `NotEmpty` where there are keys already.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted, end watches, let go of the database."""
        ...


class Verbs:
    """The single-key verbs of `Store`, as the transactions that they are."""

    async def commit(self, transaction: Transaction) -> Outcome:
        """Filled by the backend."""
        raise AssertionError("a backend fills commit")

    async def revision_range(self) -> RevisionRange:
        """Filled by the backend."""
        raise AssertionError("a backend fills extent")

    async def check(self) -> None:
        """See `Store.check`."""
        await self.revision_range()

    async def create(self, key: str, value: bytes, *, lease: int = 0) -> Outcome:
        """Write a key that must not exist."""
        return await self.commit(Transaction((Put(key, value, lease),), (Precondition(key, revision=0),)))

    async def update(
        self, key: str, value: bytes, *, expected: int, lease: int = 0, heartbeat: bool = False
    ) -> Outcome:
        """Write a key whose last change must be `expected`."""
        return await self.commit(
            Transaction((Put(key, value, lease, heartbeat),), (Precondition(key, revision=expected),))
        )

    async def delete(self, key: str, *, expected: int) -> Outcome:
        """Remove a key whose last change must be `expected`."""
        return await self.commit(Transaction((Delete(key),), (Precondition(key, revision=expected),)))


#: How many writes, and how many guards, one transaction may have: etcd's own limit, so that what runs on one backend
#: runs on all.
MOST_WRITES = 128

#: How long a key may be: less than PostgreSQL's index takes however many bytes a letter has, and more than the longest
#: names of a group, a resource, a namespace and an object together.
MOST_KEY_LETTERS = 650

#: How far a restored store's revisions jump ahead of the backup's, so that they lie above every revision that the old
#: store gave out after the backup was taken (at 10,000 writes a second, more than a day's worth).
RESTORE_GAP = 1_000_000_000


def range_end(prefix: str) -> str:
    """The smallest string above every string that begins with `prefix`.

    Only called with prefixes that end in ``/``, whose successor is ``0``: no code point overflows.
    """
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def check_prefix(prefix: str) -> None:
    """Refuse a prefix that is not a whole number of path segments; that is a bug of the caller."""
    if prefix and not prefix.endswith("/"):
        raise ValueError(f"a prefix ends in '/' or is empty: {prefix!r}")


def check_transaction(transaction: Transaction) -> None:
    """Refuse a transaction that writes a key twice or writes no valid key; that is a bug of the caller."""
    keys = [write.key for write in transaction.writes]
    if len(set(keys)) != len(keys):
        raise ValueError("a transaction writes each key once")
    if len(keys) > MOST_WRITES or len(transaction.guards) > MOST_WRITES:
        raise ValueError(f"a transaction has at most {MOST_WRITES} writes and as many guards")
    if any(not key or key.endswith("/") or "\0" in key or len(key) > MOST_KEY_LETTERS for key in keys):
        raise ValueError(f"a key has 1 to {MOST_KEY_LETTERS} letters, none of them NUL, and does not end in '/'")
