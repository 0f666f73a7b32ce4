"""The base of stores that stand in front of another one: every method is the inner store's, unless it is overridden."""

from collections.abc import Iterable, Sequence
from typing import Final

from rota.store.store_interface import Entry, Outcome, Page, RevisionRange, Store, Transaction, Verbs, Watch


class ForwardingStore(Verbs):
    """A `Store` in front of another, which it does not own except for `close`."""

    def __init__(self, inner: Store) -> None:
        self._inner: Final = inner

    async def commit(self, transaction: Transaction) -> Outcome:
        """See `Store.commit`."""
        return await self._inner.commit(transaction)

    async def check(self) -> None:
        """See `Store.check`."""
        await self._inner.check()

    async def revision_range(self) -> RevisionRange:
        """See `Store.revision_range`."""
        return await self._inner.revision_range()

    async def size_bytes(self) -> int:
        """See `Store.size_bytes`."""
        return await self._inner.size_bytes()

    async def get(self, key: str) -> Entry | None:
        """See `Store.get`."""
        return await self._inner.get(key)

    async def get_many(self, keys: Sequence[str]) -> list[Entry | None]:
        """See `Store.get_many`."""
        return await self._inner.get_many(keys)

    async def list(self, prefix: str, *, limit: int = 0, after: str = "", revision: int = 0) -> Page:
        """See `Store.list`."""
        return await self._inner.list(prefix, limit=limit, after=after, revision=revision)

    def watch(self, prefix: str, *, after: int) -> Watch:
        """See `Store.watch`."""
        return self._inner.watch(prefix, after=after)

    async def compact(self, revision: int) -> None:
        """See `Store.compact`."""
        await self._inner.compact(revision)

    async def grant(self, ttl_s: float) -> int:
        """See `Store.grant`."""
        return await self._inner.grant(ttl_s)

    async def renew(self, lease: int) -> bool:
        """See `Store.renew`."""
        return await self._inner.renew(lease)

    async def revoke(self, lease: int) -> bool:
        """See `Store.revoke`."""
        return await self._inner.revoke(lease)

    async def load(self, entries: Iterable[Entry], *, revision: int) -> RevisionRange:
        """See `Store.load`."""
        return await self._inner.load(entries, revision=revision)

    async def close(self) -> None:
        """See `Store.close`."""
        await self._inner.close()
