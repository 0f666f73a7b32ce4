"""A priority queue whose members can be found, moved and removed by key.

Equal priorities come out in the order in which they went in. Removal and updates leave a dead entry behind in the
underlying heap instead of searching it; dead entries are dropped when they surface, and swept when they outnumber the
living. So every operation costs O(log n) amortised, at the speed of the standard library's C heap.
"""

import heapq
import itertools
from collections.abc import Hashable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar


class Ordered(Protocol):
    """Can be compared with its like."""

    def __lt__(self, other: Any, /) -> bool: ...


K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Ordered)

#: Below this size a sweep costs less than thinking about it.
_SMALL: Final = 64


class KeyedHeap(Generic[K, P]):
    """Keys by priority, smallest first."""

    __slots__ = ("_entries", "_heap", "_turn")

    def __init__(self) -> None:
        self._turn = itertools.count()
        #: The living entry of every key. An entry of the heap that is not here is dead.
        self._entries: dict[K, tuple[P, int, K]] = {}
        #: (priority, turn, key); turns are unique, so keys are never compared.
        self._heap: list[tuple[P, int, K]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """The keys, in no particular order."""
        return iter(self._entries)

    def priority(self, key: K) -> P:
        """The priority of a key; `KeyError` if it is not here."""
        return self._entries[key][0]

    def push(self, key: K, priority: P) -> None:
        """Add a key, or move one that is here; a key whose priority stays the same keeps its turn."""
        former = self._entries.get(key)
        if former is not None:
            if former[0] == priority:
                return
            self._sweep()
        entry = (priority, next(self._turn), key)
        self._entries[key] = entry
        heapq.heappush(self._heap, entry)

    def remove(self, key: K) -> P:
        """Take a key out, wherever it stands; returns its priority, `KeyError` if it is not here."""
        priority, _, _ = self._entries.pop(key)
        self._sweep()
        return priority

    def discard(self, key: K) -> None:
        """Take a key out if it is here."""
        if key in self._entries:
            self.remove(key)

    def peek(self) -> tuple[K, P]:
        """The first key and its priority; `IndexError` if there is none."""
        heap = self._heap
        while True:
            entry = heap[0]
            if self._entries.get(entry[2]) is entry:
                return entry[2], entry[0]
            heapq.heappop(heap)

    def pop(self) -> tuple[K, P]:
        """Take the first key out; `IndexError` if there is none."""
        first = self.peek()
        heapq.heappop(self._heap)
        del self._entries[first[0]]
        return first

    def pop_through(self, bound: P) -> Iterator[tuple[K, P]]:
        """Take out, in order, every key whose priority is not above `bound`: all that is due by a certain time."""
        while self._entries and not bound < self.peek()[1]:
            yield self.pop()

    def clear(self) -> None:
        """Take everything out."""
        self._entries.clear()
        self._heap.clear()

    def _sweep(self) -> None:
        if len(self._heap) > _SMALL and len(self._heap) > 2 * len(self._entries):
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)
