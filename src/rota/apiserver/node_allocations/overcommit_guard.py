"""The guard against selling a node twice, for any number of servers on one store.

Every transaction that puts a pod on a node also writes the node's *ledger key* and is guarded by the revision that the
key had when the room was computed. So between computing and committing nobody else has put a pod there, and since
everything else that happens to pods (finishing, going away) only makes room, what was found to fit does fit.

What is bound is told by an index in memory. It need not be fresh: it must have come as far as the ledger key's
revision, which is the last time that something was bound there; until then it is waited for, and if it does not come,
all pods are listed. Before a pod is refused the newest state is looked at, so that room that was freed is found.

Nodes share a fixed number of ledger keys, so that clusters whose nodes come and go under ever new names leave nothing
behind; two nodes with one key only make each other's bindings be computed again. The keys lie outside of all
API groups.
"""

import asyncio
import contextlib
import functools
import zlib
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rota.apiserver.node_allocations import pod_shares
from rota.apiserver.node_allocations.pod_index import PodIndex, pods
from rota.store.store_interface import Entry, Precondition, Put, Store

#: No API group can begin with a tilde.
PREFIX: Final = "/~ledger/nodes/"
_KEYS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is bound on some nodes, and what makes a transaction fail if that is no longer all."""

    usage: Mapping[str, pod_shares.NodeAllocation]
    #: Ledger keys and the revisions that they had; 0 for one that nothing was ever bound under.
    revisions: Mapping[str, int]

    def guards(self, nodes: Collection[str]) -> tuple[Precondition, ...]:
        """What must hold for a transaction that binds to these nodes."""
        return tuple(Precondition(key, revision=self.revisions[key]) for key in keys_of(nodes))

    def writes(self, nodes: Collection[str]) -> tuple[Put, ...]:
        """What such a transaction writes besides the pods, so that others notice."""
        return tuple(Put(key, b"{}") for key in keys_of(nodes))


class OvercommitGuard:
    """What is bound where, safe to sell against."""

    def __init__(self, store: Store, index: PodIndex) -> None:
        self._store: Final = store
        self._index: Final = index
        #: Bindings of this server under one ledger key take turns; those of other servers meet at the store.
        self._turns: Final[dict[str, asyncio.Lock]] = {}

    @contextlib.asynccontextmanager
    async def turn(self, nodes: Collection[str]) -> AsyncIterator[None]:
        """Keep this server's other bindings to these nodes waiting: they would only be in each other's way."""
        async with contextlib.AsyncExitStack() as held:
            for key in keys_of(nodes):
                await held.enter_async_context(self._turns.setdefault(key, asyncio.Lock()))
            yield

    async def view(self, nodes: Collection[str], *, newest: bool = False) -> View:
        """What is bound on these nodes; with `newest`, all that was freed before this call is free."""
        keys = keys_of(nodes)
        return await self.view_at(nodes, keys, await self._store.get_many(keys), newest=newest)

    async def view_at(
        self, nodes: Collection[str], keys: Sequence[str], entries: Sequence[Entry | None], *, newest: bool = False
    ) -> View:
        """The same, for who has read the ledger keys of these nodes (`keys_of`) already."""
        revisions = {key: entry.revision if entry else 0 for key, entry in zip(keys, entries, strict=True)}
        if newest:
            known = await self._index.reach((await self._store.revision_range()).revision)
        else:
            known = all(self._index.covers(key, revision) for key, revision in revisions.items())
            known = known or await self._index.reach(max(revisions.values(), default=0))
        if known:
            usage = {node: self._index.usage(node) for node in nodes}
        else:
            usage = await self._listed(nodes)
        return View(usage=usage, revisions=revisions)

    def learn(self, revision: int, bound: Collection[tuple[str, str, pod_shares.PodAllocation]]) -> None:
        """Remember a committed binding at once: pods' keys, nodes and shares."""
        self._index.learn(keys_of({node for _, node, _ in bound}), revision, bound)

    async def _listed(self, nodes: Collection[str]) -> dict[str, pod_shares.NodeAllocation]:
        usage = {node: pod_shares.NodeAllocation() for node in nodes}
        async for entry, _ in pods(self._store):
            held = pod_shares.of_stored(entry.value) if entry is not None else None
            if held is not None and held[0] in usage:
                usage[held[0]].add(held[1])
        return usage


def keys_of(nodes: Iterable[str]) -> list[str]:
    """The ledger keys of nodes, each once, in the order in which locks are taken."""
    return sorted({_key_of(node) for node in nodes})


@functools.lru_cache(maxsize=16_384)
def _key_of(node: str) -> str:
    return f"{PREFIX}{zlib.crc32(node.encode()) % _KEYS:04}"
