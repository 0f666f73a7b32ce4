"""The interface of a store and its guarantees, for every database.

A store maps keys to bytes and numbers every change. The numbers, called *revisions*, form one order over all keys:

* a transaction is all or nothing, and everything it changes carries one revision;
* a watch sees each committed change once, in revision order, and never half a revision;
* a list shows the state at one revision, however many pages it takes;
* history reaches back to the *floor*, the compacted revision: a request for less gets `Expired`, and lists again.

Keys are opaque strings ordered by code point; a prefix is a key's beginning up to and including a ``/``. Values are
opaque bytes, returned as they were written. Nothing here knows Kubernetes. The guarantees are written as tests in
`rota.testing.store_contract`, which every backend passes.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Protocol, Self

from msgspec import Struct


class Entry(Struct, frozen=True, gc=False):
    """The state of one key."""

    key: str
    value: bytes
    #: The revision of the last change to this key.
    revision: int
    #: The revision that created it; a key that is deleted and created again has a new one.
    created: int
    #: The lease that the key is attached to, or 0 for none.
    lease: int = 0


class Page(Struct, frozen=True):
    """Part of a list, all of it at one revision."""

    entries: list[Entry]
    #: The revision of this page and of those after it.
    revision: int
    #: How many entries follow the last one here.
    remaining: int = 0


class Event(Struct, frozen=True, gc=False):
    """One committed change of one key."""

    key: str
    revision: int
    #: The new value; None if the key was deleted.
    value: bytes | None
    #: The revision that created this incarnation of the key.
    created: int
    #: The previous value; None if the key did not exist.
    previous: bytes | None
    previous_revision: int = 0

    @property
    def is_create(self) -> bool:
        """Whether this change created the key."""
        return self.created == self.revision

    @property
    def is_delete(self) -> bool:
        """Whether this change deleted the key."""
        return self.value is None


class Batch(Struct, frozen=True):
    """Changes delivered to a watcher together; never part of a revision."""

    events: Sequence[Event]
    #: Every matching change up to and including this revision has been delivered.
    revision: int


class Precondition(Struct, frozen=True, gc=False):
    """What a transaction requires of a key. Unset fields are not checked."""

    key: str
    #: The expected revision of the last change; 0 means that the key must not exist.
    revision: int | None = None
    #: The expected create revision: the same incarnation, however often it changed since.
    created: int | None = None

    def holds(self, entry: Entry | None) -> bool:
        """Whether `entry`, the key's state, meets it."""
        revision, created = (entry.revision, entry.created) if entry else (0, 0)
        return self.revision in (None, revision) and self.created in (None, created)


class Put(Struct, frozen=True, gc=False):
    """Write a key, new or existing."""

    key: str
    value: bytes
    lease: int = 0
    #: The write only renews the key's value (a heartbeat), so history may keep only the latest of several such writes
    #: in a row. A watcher that lags or resumes sees the latest; one that keeps up sees all.
    heartbeat: bool = False


class Delete(Struct, frozen=True, gc=False):
    """Delete a key; a missing key is left so, without an event."""

    key: str


class Transaction(Struct, frozen=True, gc=False):
    """Writes that happen together, if every precondition holds. No key is written twice."""

    writes: tuple[Put | Delete, ...]
    guards: tuple[Precondition, ...] = ()


class Committed(Struct, frozen=True, gc=False):
    """The transaction happened and is durable."""

    revision: int


class Conflict(Struct, frozen=True):
    """A precondition that did not hold, and the state of its key."""

    guard: Precondition
    actual: Entry | None


class Refused(Struct, frozen=True):
    """A precondition did not hold; nothing was written."""

    conflicts: tuple[Conflict, ...]


Outcome = Committed | Refused


class RevisionRange(Struct, frozen=True):
    """How far a store's history reaches."""

    #: The newest committed revision. A store begins at 1, so that 0 can mean "none" or "the newest".
    revision: int
    #: History begins after this revision: lists at and watches from an older one are `Expired`.
    floor: int


class Watch(Protocol):
    """A running watch: an async iterator of batches, started and ended by its ``async with`` block.

    Entering raises `Expired` if the starting revision is compacted and `FutureRevision` if it does not exist yet.
    Iterating raises `SlowWatcher` if the reader fell so far behind that it must list again, `Expired` if it lost
    history in another way, and ends when the store is closed.
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
        """Make the reader return from its current or next wait, with an empty batch if there is nothing new.

        For readers with other work to do: a timeout on each wait would cost more than the wait itself.
        """
        ...


class Store(Protocol):
    """A versioned map with history. All methods may raise the errors of `rota.store.errors`."""

    async def check(self) -> None:
        """Raise the known reason why the store cannot be read or written, if there is one."""
        ...

    async def revision_range(self) -> RevisionRange:
        """The newest revision and how far back history reaches."""
        ...

    async def size_bytes(self) -> int:
        """The size of the database, with its history; of a shared server, all of it."""
        ...

    async def get(self, key: str) -> Entry | None:
        """The key as of the newest revision, or None."""
        ...

    async def get_many(self, keys: Sequence[str]) -> list[Entry | None]:
        """Several keys, in their order, each at the newest revision; the revisions may differ."""
        ...

    async def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        """Entries under `prefix` in key order, after the key `after`, at most `limit` (0: all).

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
        """Delete a key whose last change must be `expected`."""
        ...

    async def commit(self, transaction: Transaction) -> Outcome:
        """Commit a guarded transaction; when this returns `Committed` the change is durable."""
        ...

    def watch(self, prefix: str, *, after: int) -> Watch:
        """Changes under `prefix` with a revision above `after`; an empty prefix means every key."""
        ...

    async def compact(self, revision: int) -> None:
        """Remove history up to and including `revision`; the current state is not affected."""
        ...

    async def grant(self, ttl_s: float) -> int:
        """A new lease; its keys are deleted when it is not renewed for `ttl_s` seconds."""
        ...

    async def renew(self, lease: int) -> bool:
        """Restart a lease's TTL; False if it is gone. Leaves no trace in history."""
        ...

    async def revoke(self, lease: int) -> bool:
        """End a lease and delete its keys in one transaction; False if it was gone."""
        ...

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """Fill an empty store so that its next revision is above `revision`; all or nothing.

        History begins after the loaded entries, so a watcher of the original store gets `Expired` for its revision.
        Leases are not restored. Raises `NotEmpty` if there are keys already.
        """
        ...

    async def close(self) -> None:
        """Finish accepted calls, end watches, close the database."""
        ...


class Verbs:
    """The single-key methods of `Store`, implemented as transactions."""

    async def commit(self, transaction: Transaction) -> Outcome:
        """Implemented by the backend."""
        raise AssertionError("a backend implements commit")

    async def revision_range(self) -> RevisionRange:
        """Implemented by the backend."""
        raise AssertionError("a backend implements revision_range")

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
        """Delete a key whose last change must be `expected`."""
        return await self.commit(Transaction((Delete(key),), (Precondition(key, revision=expected),)))


#: How many writes, and how many preconditions, one transaction may have: etcd's limit, so that what works on one
#: backend works on all.
MOST_WRITES = 128

#: Maximum length of a key: within the limit of PostgreSQL's index for any encoding, and longer than the longest names
#: of a group, a resource, a namespace and an object together.
MOST_KEY_LETTERS = 650

#: How far a restored store's revisions jump ahead of the backup's, so that they are above every revision that the old
#: store assigned after the backup (at 10,000 writes a second, more than a day's worth).
RESTORE_GAP = 1_000_000_000


def range_end(prefix: str) -> str:
    """The smallest string above every string that begins with `prefix`.

    Only called with prefixes that end in ``/``, whose successor is ``0``: no code point overflows.
    """
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def check_prefix(prefix: str) -> None:
    """Reject a prefix that is not a whole number of path segments; that is a bug of the caller."""
    if prefix and not prefix.endswith("/"):
        raise ValueError(f"a prefix ends in '/' or is empty: {prefix!r}")


def check_transaction(transaction: Transaction) -> None:
    """Reject a transaction that writes a key twice or writes an invalid key; that is a bug of the caller."""
    keys = [write.key for write in transaction.writes]
    if len(set(keys)) != len(keys):
        raise ValueError("a transaction writes each key once")
    if len(keys) > MOST_WRITES or len(transaction.guards) > MOST_WRITES:
        raise ValueError(f"a transaction has at most {MOST_WRITES} writes and as many preconditions")
    if any(not key or key.endswith("/") or "\0" in key or len(key) > MOST_KEY_LETTERS for key in keys):
        raise ValueError(f"a key has 1 to {MOST_KEY_LETTERS} characters, none of them NUL, and does not end in '/'")
