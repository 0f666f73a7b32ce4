"""The change log of rows: tells readers that keep results per node which of them are stale.

Every change of a row is one entry. A reader keeps the generation up to which it has read; reading on costs as much as
what has changed since, not as much as there are nodes. Old entries are dropped; a reader that fell behind that far
starts from scratch.
"""

from enum import IntFlag

KEPT = 65_536


class ChangeScope(IntFlag):
    """What changed of a node, or what a result depends on."""

    #: The pods on it, with all sums over them: requests, ports, counts.
    PODS = 1
    #: The node object: labels, taints, allocatable, images; also its creation and deletion.
    NODE = 2
    BOTH = 3


# Plain integers, because testing flags is slow and rows change often.
_PODS, _NODE = int(ChangeScope.PODS), int(ChangeScope.NODE)


class Changes:
    """Rows that changed since a reader's generation, by scope, each row once."""

    __slots__ = ("node", "pods")

    def __init__(self, pods: tuple[int, ...], node: tuple[int, ...]) -> None:
        self.pods = pods
        self.node = node

    def watched(self, facet: ChangeScope) -> tuple[int, ...]:
        """The rows that matter to a result which depends on `facet`."""
        if facet is ChangeScope.PODS:
            return self.pods
        if facet is ChangeScope.NODE:
            return self.node
        return tuple({*self.pods, *self.node}) if self.node else self.pods

    @property
    def all(self) -> tuple[int, ...]:
        """The rows that changed in any way."""
        return tuple({*self.pods, *self.node}) if self.node else self.pods


class ChangeLog:
    """An append-only list of (row, scope), numbered from the start."""

    __slots__ = ("_entries", "_first")

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._first = 0

    @property
    def generation(self) -> int:
        """The number of the next entry."""
        return self._first + len(self._entries)

    def note_pods(self, row: int) -> None:
        """Record that the pods of a row changed."""
        self._note(row << 2 | _PODS)

    def note_node(self, row: int) -> None:
        """Record that the node of a row changed."""
        self._note(row << 2 | _NODE)

    def _note(self, entry: int) -> None:
        self._entries.append(entry)
        if len(self._entries) > 2 * KEPT:
            del self._entries[:KEPT]
            self._first += KEPT

    def since(self, generation: int) -> Changes | None:
        """What changed from `generation` on; None if that was dropped."""
        start = generation - self._first
        if start < 0:
            return None
        entries = self._entries
        if len(entries) - start == 1:
            entry = entries[start]
            row = (entry >> 2,)
            return Changes(row if entry & _PODS else (), row if entry & _NODE else ())
        new = set(entries[start:])
        return Changes(
            tuple({entry >> 2 for entry in new if entry & _PODS}),
            tuple({entry >> 2 for entry in new if entry & _NODE}),
        )
