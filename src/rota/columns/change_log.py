"""The journal of changed rows: who kept answers per node asks it which of them are stale.

Every change to a row is one entry. A reader remembers the generation up to which it has read; reading on costs as much
as what has happened since, not as much as there are nodes. Old entries are dropped; a reader who fell behind that far
starts from scratch.
"""

from enum import IntFlag

KEPT = 65_536


class ChangeScope(IntFlag):
    """What about a node changed, or what of it an answer depends on."""

    #: The pods on it, with all that is summed over them: requests, ports, counts.
    PODS = 1
    #: The node object: labels, taints, allocatable, images; also its coming and going.
    NODE = 2
    BOTH = 3


# Plain numbers, because flags are slow to test and rows change often.
_PODS, _NODE = int(ChangeScope.PODS), int(ChangeScope.NODE)


class Changes:
    """Rows that changed since a reader last looked, by facet, each row once."""

    __slots__ = ("node", "pods")

    def __init__(self, pods: tuple[int, ...], node: tuple[int, ...]) -> None:
        self.pods = pods
        self.node = node

    def watched(self, facet: ChangeScope) -> tuple[int, ...]:
        """Give the rows that matter to an answer which depends on `facet`."""
        if facet is ChangeScope.PODS:
            return self.pods
        if facet is ChangeScope.NODE:
            return self.node
        return tuple({*self.pods, *self.node}) if self.node else self.pods

    @property
    def all(self) -> tuple[int, ...]:
        """Give the rows that changed in any way."""
        return tuple({*self.pods, *self.node}) if self.node else self.pods


class ChangeLog:
    """An append-only list of (row, facet), numbered from the beginning of time."""

    __slots__ = ("_entries", "_first")

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._first = 0

    @property
    def generation(self) -> int:
        """The number of the next entry."""
        return self._first + len(self._entries)

    def note_pods(self, row: int) -> None:
        """Write down that the pods of a row changed."""
        self._note(row << 2 | _PODS)

    def note_node(self, row: int) -> None:
        """Write down that the node of a row changed."""
        self._note(row << 2 | _NODE)

    def _note(self, entry: int) -> None:
        self._entries.append(entry)
        if len(self._entries) > 2 * KEPT:
            del self._entries[:KEPT]
            self._first += KEPT

    def since(self, generation: int) -> Changes | None:
        """Give what changed from `generation` on; None if that is too long ago to tell."""
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
