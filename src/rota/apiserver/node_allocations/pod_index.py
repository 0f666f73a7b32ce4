"""The allocations of each node, in memory, in step with the store's pods.

The index knows its revision, and `overcommit_guard` decides whether that is enough for a binding: an index that lags
costs time, never correctness. This server's own bindings are added without the way through the watch.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Final

from rota.apiserver.cache.reflector import StoreReflector, listed
from rota.apiserver.node_allocations import pod_shares
from rota.kit.clock import Clock
from rota.store.store_interface import Batch, Entry, Store

PODS: Final = "/core/pods/"


class _State:
    """The pods on nodes."""

    def __init__(self) -> None:
        self.usage: dict[str, pod_shares.NodeAllocation] = {}
        #: Pods by key: their node and allocation.
        self.pods: dict[str, tuple[str, pod_shares.PodAllocation]] = {}
        #: Ledger keys to revisions up to which this server knows of all bindings that they guard, ahead of the watch.
        self.sure: dict[str, int] = {}
        #: Pods that were added ahead of the watch, and at which revision: earlier events of the watch are outdated.
        self.ahead: dict[str, int] = {}

    def put(self, key: str, held: tuple[str, pod_shares.PodAllocation] | None) -> None:
        before = self.pods.pop(key, None)
        if before is not None:
            node, share = before
            self.usage[node].remove(share)
            if not self.usage[node].pods:
                del self.usage[node]
        if held is not None:
            node, share = self.pods[key] = held
            usage = self.usage.get(node)
            if usage is None:
                usage = self.usage[node] = pod_shares.NodeAllocation()
            usage.add(share)

    def sum(self) -> None:
        """Compute the allocations from all pods, which is faster than pod by pod."""
        shares_on: dict[str, list[pod_shares.PodAllocation]] = {}
        for node, share in self.pods.values():
            shares_on.setdefault(node, []).append(share)
        self.usage = {node: pod_shares.total(found) for node, found in shares_on.items()}

    def take(self, batch: Batch) -> None:
        for event in batch.events:
            # everything of the added revision itself is known already
            if event.revision > self.ahead.get(event.key, 0):
                self.put(event.key, None if event.value is None else pod_shares.of_stored(event.value))
        self.sure = {key: revision for key, revision in self.sure.items() if revision > batch.revision}
        self.ahead = {key: revision for key, revision in self.ahead.items() if revision > batch.revision}


class PodIndex:
    """Allocations by node. `run` follows the store; without it the index covers nothing."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._follower: Final = StoreReflector(store, PODS, self, clock=clock)
        self._state: _State | None = None
        self._coming = _State()

    async def run(self) -> None:
        """Watch the pods until cancelled or the store is closed."""
        await self._follower.run()

    def covers(self, ledger_key: str, revision: int) -> bool:
        """Whether all bindings that a ledger key guarded up to a revision are known."""
        state = self._state
        return state is not None and max(self._follower.revision, state.sure.get(ledger_key, 0)) >= revision

    async def reach(self, revision: int) -> bool:
        """Wait until everything up to a revision is known; False on timeout."""
        return await self._follower.reach(revision)

    def usage(self, node: str) -> pod_shares.NodeAllocation:
        """What is bound on a node, as a copy for the caller."""
        assert self._state is not None, "asked only after `covers` or `reach` said yes"
        found = self._state.usage.get(node)
        return found.copy() if found is not None else pod_shares.NodeAllocation()

    def learn(
        self, ledger_keys: Iterable[str], revision: int, bound: Iterable[tuple[str, str, pod_shares.PodAllocation]]
    ) -> None:
        """Add a binding of this server: pods' keys, nodes and allocations, committed at a revision."""
        state = self._state
        # the watch may already have passed the pod's deletion
        if state is None or revision <= self._follower.revision:
            return
        for key, node, share in bound:
            state.put(key, (node, share))
            state.ahead[key] = revision
        for ledger_key in ledger_keys:
            state.sure[ledger_key] = revision

    # The reflector's sink

    def begin(self) -> None:
        """See `Sink.begin`."""
        self._coming = _State()

    def add(self, entry: Entry, /) -> None:
        """See `Sink.add`."""
        held = pod_shares.of_stored(entry.value)
        if held is not None:
            self._coming.pods[entry.key] = held

    def begun(self, revision: int, /) -> None:
        """See `Sink.begun`."""
        self._coming.sum()
        self._state, self._coming = self._coming, _State()

    def take(self, batch: Batch, /) -> None:
        """See `Sink.take`."""
        assert self._state is not None, "changes come after a list"
        self._state.take(batch)

    def lost(self) -> None:
        """See `Sink.lost`: bindings need a complete index."""
        self._state = None


def pods(store: Store) -> AsyncIterator[tuple[Entry | None, int]]:
    """All stored pods at one revision, each with that revision; a single None if there are none."""
    return listed(store, PODS)
