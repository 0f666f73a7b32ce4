"""The allocations of each node, in memory, in step with the store's pods.

The index knows its revision, and `overcommit_guard` decides whether that is enough for a binding: an index that lags
costs time, never correctness. This server's own bindings are added without the way through the watch.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from rota.apiserver.cache.reflector import StoreReflector, listed
from rota.apiserver.node_allocations import pod_shares
from rota.kit.clock import Clock
from rota.store.store_interface import Batch, Entry, Store

PODS: Final = "/core/pods/"
#: The pods on a node, by key; to be read before anything is awaited.
Residents: TypeAlias = Callable[[str], Mapping[str, pod_shares.PodAllocation]]

#: Keys of the pods that use a claim, which is given as namespace/name.
ClaimUsers: TypeAlias = Callable[[str], Collection[str]]
#: What the pods of groups with bound pods take, by namespace/name of the group.
GroupAllocations: TypeAlias = Callable[[], Mapping[str, pod_shares.NodeAllocation]]


class _State:
    """The pods on nodes."""

    def __init__(self) -> None:
        self.usage: dict[str, pod_shares.NodeAllocation] = {}
        #: Pods by key: their node and allocation.
        self.pods: dict[str, tuple[str, pod_shares.PodAllocation]] = {}
        #: Pods by node, by key.
        self.residents: dict[str, dict[str, pod_shares.PodAllocation]] = {}
        #: Those of them that exclude others from their node.
        self.excluding: dict[str, dict[str, pod_shares.PodAllocation]] = {}
        #: Keys of the pods that use a claim, by namespace/name of the claim.
        self.claims: dict[str, set[str]] = {}
        #: What the pods of a group take together, by namespace/name of the group.
        self.groups: dict[str, pod_shares.NodeAllocation] = {}
        #: The revision of the last binding to a node, or a later change of that pod if it was bound before the list.
        self.bound_at: dict[str, int] = {}
        #: Ledger keys to revisions up to which this server knows of all bindings that they guard, ahead of the watch.
        self.sure: dict[str, int] = {}
        #: Pods that were added ahead of the watch, and at which revision: earlier events of the watch are outdated.
        self.ahead: dict[str, int] = {}

    def put(self, key: str, held: tuple[str, pod_shares.PodAllocation] | None, revision: int = 0) -> None:
        before = self.pods.pop(key, None)
        if held is not None and (before is None or before[0] != held[0]):
            self.bound_at[held[0]] = max(revision, self.bound_at.get(held[0], 0))
        if before is not None:
            node, share = before
            self.usage[node].remove(share)
            del self.residents[node][key]
            if share.excluded:
                del self.excluding[node][key]
            self._leave(key, share)
            if not self.usage[node].pods:
                del self.usage[node], self.residents[node]
                self.excluding.pop(node, None)
                if held is None:
                    # Nodes come and go under new names; what was bound to an empty node concerns no decision.
                    self.bound_at.pop(node, None)
        if held is not None:
            node, share = self.pods[key] = held
            usage = self.usage.get(node)
            if usage is None:
                usage = self.usage[node] = pod_shares.NodeAllocation()
            usage.add(share)
            self._settle(node, key, share)

    def _settle(self, node: str, key: str, share: pod_shares.PodAllocation) -> None:
        self.residents.setdefault(node, {})[key] = share
        if share.excluded:
            self.excluding.setdefault(node, {})[key] = share
        if share.claims:
            for claim in claims_of(key, share):
                self.claims.setdefault(claim, set()).add(key)
        if share.group:
            self.groups.setdefault(group_of(key, share), pod_shares.NodeAllocation()).add(share)

    def _leave(self, key: str, share: pod_shares.PodAllocation) -> None:
        for claim in claims_of(key, share) if share.claims else ():
            self.claims[claim].discard(key)
            if not self.claims[claim]:
                del self.claims[claim]
        if share.group:
            group = group_of(key, share)
            self.groups[group].remove(share)
            if not self.groups[group].pods:
                del self.groups[group]

    def sum(self) -> None:
        """Compute the allocations from all pods, which is faster than pod by pod."""
        self.residents = {}
        for key, (node, share) in self.pods.items():
            self._settle(node, key, share)
        self.usage = {node: pod_shares.total(found.values()) for node, found in self.residents.items()}

    def take(self, batch: Batch) -> None:
        for event in batch.events:
            # everything of the added revision itself is known already
            if event.revision > self.ahead.get(event.key, 0):
                held = None if event.value is None else pod_shares.of_stored(event.value)
                self.put(event.key, held, event.revision)
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

    def readers(self) -> tuple[Residents, Residents]:
        """Readers of the pods on a node, by key: of all, and of those that exclude others. They stay valid."""
        state = self._state
        assert state is not None, "asked only after `covers` or `reach` said yes"
        return lambda node: state.residents.get(node, {}), lambda node: state.excluding.get(node, {})

    def bound_at(self, node: str) -> int:
        """The revision of the last binding to a node that has pods; 0 for an empty node."""
        assert self._state is not None, "asked only after `covers` or `reach` said yes"
        return self._state.bound_at.get(node, 0)

    def wider_readers(self) -> tuple[ClaimUsers, GroupAllocations]:
        """Readers of the pods that use a claim, and of what the pods of each group take. They stay valid."""
        assert self._state is not None, "asked only after `covers` or `reach` said yes"
        return _wider_readers(self._state)

    def learn(
        self, ledger_keys: Iterable[str], revision: int, bound: Iterable[tuple[str, str, pod_shares.PodAllocation]]
    ) -> None:
        """Add a binding of this server: pods' keys, nodes and allocations, committed at a revision."""
        state = self._state
        # the watch may already have passed the pod's deletion
        if state is None or revision <= self._follower.revision:
            return
        for key, node, share in bound:
            state.put(key, (node, share), revision)
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
            self._coming.bound_at[held[0]] = max(entry.revision, self._coming.bound_at.get(held[0], 0))

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


def _wider_readers(state: _State) -> tuple[ClaimUsers, GroupAllocations]:
    return lambda claim: state.claims.get(claim, frozenset()), lambda: state.groups


async def listed_wider(store: Store) -> tuple[ClaimUsers, GroupAllocations]:
    """The readers of `PodIndex.wider_readers`, from a list of all pods."""
    state = _State()
    async for entry, _ in pods(store):
        held = pod_shares.of_stored(entry.value) if entry is not None else None
        if entry is not None and held is not None:
            state.pods[entry.key] = held
    state.sum()
    return _wider_readers(state)


def claims_of(key: str, share: pod_shares.PodAllocation) -> Iterator[str]:
    """The claims that a pod uses, as namespace/name; the pod is given by its key in the store."""
    namespace, pod = key.rsplit("/", 2)[-2:]
    return (f"{namespace}/{use.claim(pod)}" for use in share.claims)


def group_of(key: str, share: pod_shares.PodAllocation) -> str:
    """The group of a pod, as namespace/name."""
    return f"{key.rsplit('/', 2)[-2]}/{share.group}"


def pods(store: Store) -> AsyncIterator[tuple[Entry | None, int]]:
    """All stored pods at one revision, each with that revision; a single None if there are none."""
    return listed(store, PODS)
