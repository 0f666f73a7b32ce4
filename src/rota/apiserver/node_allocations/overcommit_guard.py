"""The guard against overcommitting a node, for any number of servers on one store.

Every transaction that puts a pod on a node also writes the node's *ledger key*, with the revision that the key had when
the free resources were computed as a precondition. So no other pod was put there between computing and committing, and
since all other changes of pods (finishing, deletion) only free resources, the pod fits.

An index in memory has the bound pods. It need not be up to date: it must have reached the ledger key's revision, which
is that of the last binding there. The guard waits for it, and if it does not get there, lists all pods. Before a pod is
refused the newest state is read, so that freed resources are found.

Nodes share a fixed number of ledger keys, so that clusters whose nodes come and go under new names leave nothing
behind; two nodes with one key only make each other's bindings be computed again. The keys are outside of all API
groups.

Constraints beyond one node have ledger keys of their own in the same way: claims that one pod may use, one of a fixed
number of keys for the claims of a namespace, and the limits of queues, one key for all of them. Only bindings that such
a constraint concerns read and write them (`WiderView`).
"""

import asyncio
import contextlib
import functools
import zlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rota.apiserver.node_allocations import pod_index, pod_shares
from rota.apiserver.node_allocations.pod_index import ClaimUsers, GroupAllocations, PodIndex, Residents, pods
from rota.apiserver.node_allocations.queue_index import QueueIndex
from rota.store.store_interface import Entry, Precondition, Put, Store

#: No API group can begin with a tilde.
PREFIX: Final = "/~ledger/nodes/"
_KEYS: Final = 4096
_CLAIM_PREFIX: Final = "/~ledger/claims/"
_CLAIM_KEYS: Final = 256
#: The ledger key of all queues with limits: one scheduler binds nearly all pods of queues, so they seldom conflict.
QUEUES_KEY: Final = "/~ledger/queues"


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is bound on some nodes, and the preconditions under which that is complete."""

    usage: Mapping[str, pod_shares.NodeAllocation]
    #: The pods on a node, and those of them that exclude others.
    residents: Residents
    excluding: Residents
    #: Ledger keys and their revisions; 0 for one that was never written.
    revisions: Mapping[str, int]
    #: Revisions of the last bindings to nodes, for those that have pods.
    bound_at: Mapping[str, int]

    def guards(self, nodes: Collection[str]) -> tuple[Precondition, ...]:
        """The preconditions of a transaction that binds to these nodes."""
        return tuple(Precondition(key, revision=self.revisions[key]) for key in keys_of(nodes))

    def writes(self, nodes: Collection[str]) -> tuple[Put, ...]:
        """What such a transaction writes besides the pods, so that other bindings conflict."""
        return tuple(Put(key, b"{}") for key in keys_of(nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class WiderView:
    """Users of claims and allocations of groups, complete up to the revision of one ledger key."""

    key: str
    revision: int
    users: ClaimUsers
    groups: GroupAllocations


class OvercommitGuard:
    """What is bound where, safe for binding."""

    def __init__(self, store: Store, index: PodIndex, queues: QueueIndex | None = None) -> None:
        """Without `queues` their limits are not checked."""
        self._store: Final = store
        self._index: Final = index
        self.queues: Final = queues
        #: Bindings of this server under one ledger key are serialized; those of other servers conflict at the store.
        self._turns: Final[dict[str, asyncio.Lock]] = {}

    @contextlib.asynccontextmanager
    async def turn(self, nodes: Collection[str]) -> AsyncIterator[None]:
        """Keep this server's other bindings to these nodes waiting: they would only conflict."""
        async with contextlib.AsyncExitStack() as held:
            for key in keys_of(nodes):
                await held.enter_async_context(self._turns.setdefault(key, asyncio.Lock()))
            yield

    async def view(self, nodes: Collection[str], *, newest: bool = False) -> View:
        """What is bound on these nodes; with `newest`, everything that was freed before this call is free."""
        keys = keys_of(nodes)
        return await self.view_at(nodes, keys, await self._store.get_many(keys), newest=newest)

    async def view_at(
        self, nodes: Collection[str], keys: Sequence[str], entries: Sequence[Entry | None], *, newest: bool = False
    ) -> View:
        """The same, for a caller that has read the ledger keys of these nodes (`keys_of`) already."""
        revisions = {key: entry.revision if entry else 0 for key, entry in zip(keys, entries, strict=True)}
        if await self._reaches(revisions, newest=newest):
            usage = {node: self._index.usage(node) for node in nodes}
            residents, excluding = self._index.readers()
            bound_at = {node: self._index.bound_at(node) for node in nodes}
            return View(usage=usage, residents=residents, excluding=excluding, revisions=revisions, bound_at=bound_at)
        there = await self._listed(nodes)
        apart = {node: {key: one for key, one in found.items() if one.excluded} for node, found in there.items()}
        return View(
            usage={node: pod_shares.total(found.values()) for node, found in there.items()},
            residents=there.__getitem__,
            excluding=apart.__getitem__,
            revisions=revisions,
            # Without the index, the last binding under the node's ledger key stands for it.
            bound_at={node: revisions[_key_of(node)] if there[node] else 0 for node in nodes},
        )

    async def wider_view(self, key: str, *, newest: bool = False) -> WiderView:
        """What is bound in the whole cluster, as far as a ledger key of claims or queues guards it."""
        entry = await self._store.get(key)
        revision = entry.revision if entry is not None else 0
        if await self._reaches({key: revision}, newest=newest):
            users, groups = self._index.wider_readers()
        else:
            users, groups = await pod_index.listed_wider(self._store)
        return WiderView(key=key, revision=revision, users=users, groups=groups)

    async def _reaches(self, revisions: Mapping[str, int], *, newest: bool) -> bool:
        """Whether the index has all bindings up to these revisions of ledger keys, or gets there in time."""
        if newest:
            return await self._index.reach((await self._store.revision_range()).revision)
        known = all(self._index.covers(key, revision) for key, revision in revisions.items())
        return known or await self._index.reach(max(revisions.values(), default=0))

    def learn(
        self, revision: int, bound: Collection[tuple[str, str, pod_shares.PodAllocation]], wider: Iterable[str] = ()
    ) -> None:
        """Record a committed binding at once: pods' keys, nodes and allocations, and its wider ledger keys."""
        self._index.learn([*keys_of({node for _, node, _ in bound}), *wider], revision, bound)

    async def _listed(self, nodes: Collection[str]) -> dict[str, dict[str, pod_shares.PodAllocation]]:
        there: dict[str, dict[str, pod_shares.PodAllocation]] = {node: {} for node in nodes}
        async for entry, _ in pods(self._store):
            held = pod_shares.of_stored(entry.value) if entry is not None else None
            if entry is not None and held is not None and held[0] in there:
                there[held[0]][entry.key] = held[1]
        return there


def keys_of(nodes: Iterable[str]) -> list[str]:
    """The ledger keys of nodes, each once, in lock order."""
    return sorted({_key_of(node) for node in nodes})


def claims_key(namespace: str) -> str:
    """The ledger key of the claims of a namespace that one pod may use."""
    return f"{_CLAIM_PREFIX}{zlib.crc32(namespace.encode()) % _CLAIM_KEYS:03}"


@functools.lru_cache(maxsize=16_384)
def _key_of(node: str) -> str:
    return f"{PREFIX}{zlib.crc32(node.encode()) % _KEYS:04}"
