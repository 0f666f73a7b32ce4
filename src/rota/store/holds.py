"""Holds on history: a reader of an old revision keeps it from being compacted, also by other processes.

A hold is a key with the revision as its value, on a lease that its reader renews, so it ends soon after its reader
dies. `compaction.Compactor` respects holds for a limited time.
"""

import contextlib
import secrets
from typing import Final

from rota.kit import clock, logs
from rota.store import errors
from rota.store.store_interface import Put, Store, Transaction

log = logs.get(__name__)

#: The prefix of holds; no resource is stored under it.
PREFIX: Final = "/_holds/"
#: A reader that needs less time than this finds its revision without a hold, and writes nothing.
AFTER_S: Final = 60.0
_TTL_S: Final = 120.0


class Hold:
    """One reader's hold on a revision. `keep` it while reading, `release` it at the end."""

    def __init__(self, store: Store, revision: int, time: clock.Clock) -> None:
        self._store: Final = store
        self._revision: Final = revision
        self._time: Final = time
        self._key: Final = PREFIX + secrets.token_hex(8)
        self._lease = 0
        self._next = time.monotonic() + AFTER_S

    async def keep(self) -> None:
        """Create or renew the hold when it is due; a read-only store is read without one."""
        if self._time.monotonic() < self._next:
            return
        self._next = self._time.monotonic() + _TTL_S / 3
        try:
            if not self._lease or not await self._store.renew(self._lease):
                self._lease = await self._store.grant(_TTL_S)
                put = Put(self._key, str(self._revision).encode(), lease=self._lease)
                await self._store.commit(Transaction((put,)))
        except errors.StoreError as problem:
            log.warning("cannot hold history for a reader", revision=self._revision, problem=str(problem))

    async def release(self) -> None:
        """Delete the hold."""
        if self._lease:
            with contextlib.suppress(errors.StoreError):
                await self._store.revoke(self._lease)
            self._lease = 0


async def held(store: Store) -> dict[str, int]:
    """The held revisions, by key."""
    page = await store.list(PREFIX)
    return {entry.key: int(entry.value) for entry in page.entries if entry.value.isdigit()}
