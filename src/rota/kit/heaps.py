"""A priority queue whose members can be found, moved and removed by key.

Equal priorities are popped in insertion order. Removals and updates leave a dead entry in the underlying heap instead
of searching it. Dead entries are dropped when they reach the top, and swept when they outnumber the live ones. So every
operation costs O(log n) amortised, at the speed of the standard library's C heap.
"""

import heapq
import itertools
from collections.abc import Hashable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar


class Ordered(Protocol):
    """A type with an order."""

    def __lt__(self, other: Any, /) -> bool: ...


K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Ordered)

#: Below this size sweeping is not worthwhile.
_SMALL: Final = 64


class KeyedHeap(Generic[K, P]):
    """Keys by priority, smallest first."""

    __slots__ = ("_entries", "_heap", "_turn")

    def __init__(self) -> None:
        self._turn = itertools.count()
        #: The live entry of every key. An entry of the heap that is not here is dead.
        self._entries: dict[K, tuple[P, int, K]] = {}
        #: (priority, sequence number, key); sequence numbers are unique, so keys are never compared.
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
        """Add a key, or move an existing one; a key whose priority does not change keeps its position."""
        former = self._entries.get(key)
        if former is not None:
            if former[0] == priority:
                return
            self._sweep()
        entry = (priority, next(self._turn), key)
        self._entries[key] = entry
        heapq.heappush(self._heap, entry)

    def remove(self, key: K) -> P:
        """Remove a key from any position; returns its priority, `KeyError` if it is not in the heap."""
        priority, _, _ = self._entries.pop(key)
        self._sweep()
        return priority

    def discard(self, key: K) -> None:
        """Remove a key if it is in the heap."""
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
        """Remove and return the first key; `IndexError` if there is none."""
        first = self.peek()
        heapq.heappop(self._heap)
        del self._entries[first[0]]
        return first

    def pop_through(self, bound: P) -> Iterator[tuple[K, P]]:
        """Remove and return, in order, every key whose priority is not above `bound`: all that is due by a certain
        time.
        """
        while self._entries and not bound < self.peek()[1]:
            yield self.pop()

    def clear(self) -> None:
        """Remove all keys."""
        self._entries.clear()
        self._heap.clear()

    def _sweep(self) -> None:
        if len(self._heap) > _SMALL and len(self._heap) > 2 * len(self._entries):
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)
