"""What is bound on each node, in memory, following the store's pods.

The index says how far it has come, and `ledger` decides whether that is far enough for a binding: an index that lags
costs time, never correctness. It learns of this server's own bindings without the way through the watch.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Final

from rota.apiserver.occupancy import shares
from rota.kit.clock import Clock
from rota.store import errors
from rota.store.contract import Batch, Entry, Store, Watch

PODS: Final = "/core/pods/"
#: How many pods are read and decoded at once, so that others get their turn in between.
_PAGE: Final = 500
#: How long to wait for the watch before pods are listed instead.
_PATIENCE_S: Final = 2.0
#: A watch that has nothing to tell moves on without a sound, so it is looked at.
_LOOK_EVERY_S: Final = 0.01


class _State:
    """The pods on nodes as of a revision."""

    def __init__(self) -> None:
        self.revision = 0
        self.usage: dict[str, shares.Usage] = {}
        #: Pods by key: their node and share.
        self.pods: dict[str, tuple[str, shares.Share]] = {}
        #: Ledger keys to revisions up to which this server knows of all bindings that they guard, ahead of the watch.
        self.sure: dict[str, int] = {}
        #: Pods that were learned of ahead of the watch, and at which revision: what it tells of before that is old.
        self.ahead: dict[str, int] = {}

    def put(self, key: str, held: tuple[str, shares.Share] | None) -> None:
        before = self.pods.pop(key, None)
        if before is not None:
            node, share = before
            self.usage[node].remove(share)
            if not self.usage[node].pods:
                del self.usage[node]
        if held is not None:
            self.pods[key] = held
            self.usage.setdefault(held[0], shares.Usage()).add(held[1])

    def take(self, batch: Batch) -> None:
        for event in batch.events:
            # of the very revision that was learned everything is known already
            if event.revision > self.ahead.get(event.key, 0):
                self.put(event.key, None if event.value is None else shares.of_stored(event.value))
        self.revision = batch.revision
        self.sure = {key: revision for key, revision in self.sure.items() if revision > batch.revision}
        self.ahead = {key: revision for key, revision in self.ahead.items() if revision > batch.revision}


class PodIndex:
    """Usage by node. `run` follows the store; without it the index knows nothing, and says so."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store: Final = store
        self._clock: Final = clock
        self._state: _State | None = None
        self._watch: Watch | None = None
        self._moved = asyncio.Event()

    async def run(self) -> None:
        """Follow the pods until cancelled or the store is closed."""
        try:
            while True:
                try:
                    await self._follow()
                except (errors.Expired, errors.SlowWatcher):
                    continue
                return
        finally:
            self._state = self._watch = None

    def covers(self, ledger_key: str, revision: int) -> bool:
        """Whether all bindings that a ledger key guarded up to a revision are known here."""
        state = self._state
        return state is not None and max(self._reached(), state.sure.get(ledger_key, 0)) >= revision

    async def reach(self, revision: int) -> bool:
        """Wait until everything up to a revision is known; False if that does not come to pass soon."""
        deadline = self._clock.monotonic() + _PATIENCE_S
        while self._reached() < revision:
            if self._state is None or self._clock.monotonic() >= deadline:
                return False
            self._moved.clear()
            with contextlib.suppress(TimeoutError):
                await self._clock.wait_for(self._moved.wait(), _LOOK_EVERY_S)
        return True

    def usage(self, node: str) -> shares.Usage:
        """What is bound on a node, as the caller's own copy."""
        assert self._state is not None, "asked only after `covers` or `reach` said yes"
        found = self._state.usage.get(node)
        return found.copy() if found is not None else shares.Usage()

    def learn(self, ledger_keys: Iterable[str], revision: int, bound: Iterable[tuple[str, str, shares.Share]]) -> None:
        """Take in a binding of this server's own: pods' keys, nodes and shares, committed at a revision."""
        state = self._state
        # what the watch has passed it may have passed for good: the pod may be gone again
        if state is None or revision <= self._reached():
            return
        for key, node, share in bound:
            state.put(key, (node, share))
            state.ahead[key] = revision
        for ledger_key in ledger_keys:
            state.sure[ledger_key] = revision

    def _reached(self) -> int:
        if self._state is None:
            return -1
        return max(self._state.revision, self._watch.revision if self._watch is not None else 0)

    async def _follow(self) -> None:
        state = _State()
        async for entry, revision in pods(self._store):
            state.revision = revision
            if entry is not None:
                state.put(entry.key, shares.of_stored(entry.value))
        async with self._store.watch(PODS, after=state.revision) as watch:
            self._state, self._watch = state, watch
            async for batch in watch:
                state.take(batch)
                self._moved.set()


async def pods(store: Store) -> AsyncIterator[tuple[Entry | None, int]]:
    """All stored pods as of one revision, each with that revision; a single None if there are none."""
    page = await store.list(PODS, limit=_PAGE)
    if not page.entries:
        yield None, page.revision
    while page.entries:
        for entry in page.entries:
            yield entry, page.revision
        if not page.remaining:
            return
        page = await store.list(PODS, limit=_PAGE, after=page.entries[-1].key, revision=page.revision)
