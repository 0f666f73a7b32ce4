"""A store that encrypts values of some resources when they are written and decrypts them when they are read.

It is between the API server and the database, so nothing above it knows that values are encrypted and nothing below it
(the log, backups, other servers' memory) ever holds a plain one. Values of other resources pass unchanged: a read of
them costs a comparison of the key's prefix, a watch of them is the inner store's own.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Protocol, Self

import msgspec

from rota.apiserver.encryption.envelope import KeyMissing, Unopenable, Vault
from rota.kit import logs
from rota.store import errors
from rota.store.forwarding import ForwardingStore
from rota.store.store_interface import (
    Batch,
    Conflict,
    Delete,
    Entry,
    Event,
    Outcome,
    Page,
    Put,
    Refused,
    Store,
    Transaction,
    Watch,
)

log = logs.get(__name__)


class Keys(Protocol):
    """Where the keys come from."""

    @property
    def vault(self) -> Vault:
        """The known keys."""
        ...

    def look(self) -> bool:
        """Look for new keys; returns whether there are any."""
        ...


class EncryptedStore(ForwardingStore):
    """Encrypts and decrypts on the way; `load` takes entries as a backup holds them, which is encrypted."""

    def __init__(self, inner: Store, keys: Keys) -> None:
        super().__init__(inner)
        self._keys: Final = keys

    async def get(self, key: str) -> Entry | None:
        """See `Store.get`; also raises what `envelope` raises."""
        entry = await self._inner.get(key)
        if entry is None or not key.startswith(self._keys.vault.prefixes):
            return entry
        return self._opened(entry)

    async def get_many(self, keys: Sequence[str]) -> list[Entry | None]:
        """See `Store.get_many`; also raises what `envelope` raises."""
        prefixes = self._keys.vault.prefixes
        return [
            self._opened(entry) if entry is not None and entry.key.startswith(prefixes) else entry
            for entry in await self._inner.get_many(keys)
        ]

    async def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        """See `Store.list`; also raises what `envelope` raises."""
        page = await self._inner.list(prefix, limit=limit, after=after, revision=revision)
        if not self._keys.vault.concerns(prefix):
            return page
        return Page([self._opened_or_empty(entry) for entry in page.entries], page.revision, page.remaining)

    async def commit(self, transaction: Transaction) -> Outcome:
        """See `Store.commit`."""
        prefixes = self._keys.vault.prefixes
        if any(write.key.startswith(prefixes) for write in transaction.writes):
            sealed = tuple(map(self._sealed, transaction.writes))
            transaction = Transaction(sealed, transaction.guards)
        outcome = await self._inner.commit(transaction)
        if not isinstance(outcome, Refused):
            return outcome
        return Refused(
            tuple(
                Conflict(conflict.guard, None if conflict.actual is None else self._opened(conflict.actual))
                for conflict in outcome.conflicts
            )
        )

    def watch(self, prefix: str, *, after: int) -> Watch:
        """See `Store.watch`."""
        changes = self._inner.watch(prefix, after=after)
        return OpenedWatch(changes, self.open) if self._keys.vault.concerns(prefix) else changes

    def _opened_or_empty(self, entry: Entry) -> Entry:
        """A value that cannot be decrypted must not block the others: it is replaced by an empty, and so damaged,
        one.
        """
        try:
            return self._opened(entry)
        except Unopenable as problem:
            log.error("cannot decrypt a value, lists leave it out", problem=str(problem))
            return Entry(entry.key, b"", entry.revision, entry.created, entry.lease)

    def open(self, place: str, value: bytes) -> bytes:
        """The decrypted value; an unknown key is looked for in the file first."""
        ring = self._keys.vault.ring(place)
        if ring is None:
            return value
        try:
            return ring.open(place, value)
        except KeyMissing:
            # another server may have written with a key that was added to the file a moment ago
            ring = self._keys.vault.ring(place) if self._keys.look() else None
            if ring is None:
                raise
            return ring.open(place, value)

    def _opened(self, entry: Entry) -> Entry:
        value = self.open(entry.key, entry.value)
        return entry if value is entry.value else msgspec.structs.replace(entry, value=value)

    def _sealed(self, write: Put | Delete) -> Put | Delete:
        ring = self._keys.vault.ring(write.key)
        if ring is None or isinstance(write, Delete):
            return write
        return msgspec.structs.replace(write, value=ring.seal(write.key, write.value))


class OpenedWatch:
    """A `Watch` that decrypts values."""

    def __init__(self, inner: Watch, open_value: Callable[[str, bytes], bytes]) -> None:
        self._inner: Final = inner
        self._open: Final = open_value

    @property
    def revision(self) -> int:
        """See `Watch.revision`."""
        return self._inner.revision

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._inner.__aexit__(*exc)

    def __aiter__(self) -> AsyncIterator[Batch]:
        return self

    async def __anext__(self) -> Batch:
        batch = await self._inner.__anext__()
        try:
            return Batch([self._event(event) for event in batch.events], batch.revision)
        except KeyMissing as missing:
            # History may hold values of a key that was removed since. The current state can be read: list again.
            raise errors.Expired(batch.revision, batch.revision) from missing

    def nudge(self) -> None:
        """See `Watch.nudge`."""
        self._inner.nudge()

    def _event(self, event: Event) -> Event:
        value = None if event.value is None else self._open(event.key, event.value)
        previous = None if event.previous is None else self._open(event.key, event.previous)
        if value is event.value and previous is event.previous:
            return event
        return msgspec.structs.replace(event, value=value, previous=previous)
