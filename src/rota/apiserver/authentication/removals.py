"""Revokes the certificates of removed workers: deleting a node invalidates its worker's certificates.

A certificate itself cannot be revoked, so the time of the node's deletion is stored. The record is written in the
transaction that deletes the node, at a key of its own; a certificate of that node that was issued earlier is refused. A
certificate of a later join is valid again.
"""

from typing import ClassVar, Final

import msgspec

from rota.api.identifiers import GroupResource
from rota.apiserver.interfaces import Attributes, Object, TransactionExtras
from rota.kit.clock import Clock
from rota.store.store_interface import Put, Store

NODES: Final = GroupResource("", "nodes")
NODE_PREFIX: Final = "system:node:"
#: No API group can begin with a tilde.
_PREFIX: Final = "/~removed-workers/"
#: How long a result from the store is cached.
_FRESH_S: Final = 1.0
_MOST_REMEMBERED: Final = 16_384


class Removal(msgspec.Struct, frozen=True, gc=False):
    """When a node was deleted."""

    at: float


class RemovalRecords:
    """An `Admission` of Nodes: records when they are deleted."""

    pod_reads: ClassVar[frozenset[GroupResource]] = frozenset()

    def __init__(self, clock: Clock) -> None:
        self._clock: Final = clock

    async def admit(self, at: Attributes, new: Object | None, old: Object | None, /) -> TransactionExtras | None:
        """Add the record to the transaction that deletes the node."""
        if at.resource.group_resource != NODES or at.subresource or new is not None or old is None:
            return None
        name = (old.get("metadata") or {}).get("name", "")
        return TransactionExtras(writes=(Put(_PREFIX + name, msgspec.json.encode(Removal(self._clock.now()))),))


class Removals:
    """Knows which workers were removed, as of a moment ago."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store: Final = store
        self._clock: Final = clock
        #: The result and the time of the lookup, by node.
        self._known: Final[dict[str, tuple[float, float]]] = {}

    def recall(self, node: str) -> float | None:
        """As `last`, if it was read a moment ago."""
        known = self._known.get(node)
        return known[0] if known is not None and self._clock.monotonic() - known[1] < _FRESH_S else None

    async def last(self, node: str) -> float:
        """When a node of this name was last deleted; 0 if never."""
        known = self.recall(node)
        if known is not None:
            return known
        now = self._clock.monotonic()
        entry = await self._store.get(_PREFIX + node)
        found = 0.0 if entry is None else msgspec.json.decode(entry.value, type=Removal).at
        while len(self._known) >= _MOST_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[node] = (found, now)
        return found
