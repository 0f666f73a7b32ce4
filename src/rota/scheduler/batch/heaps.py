"""Heaps with a comparison, where the order of elements may depend on shares that change, and with keys.

The steps of `PriorityQueue` are those of Go's container/heap: if the comparison is not a strict order, or the order
changed after a push, the result depends on the steps, too.
"""

import heapq
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """Pops the first element by `less`."""

    __slots__ = ("_items", "_less")

    def __init__(self, less: Callable[[T, T], bool], items: list[T] | None = None) -> None:
        self._less = less
        self._items: list[T] = []
        for item in items or ():
            self.push(item)

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: T) -> None:
        """Add an element."""
        items, less = self._items, self._less
        items.append(item)
        child = len(items) - 1
        while child > 0:
            parent = (child - 1) // 2
            if not less(items[child], items[parent]):
                break
            items[child], items[parent] = items[parent], items[child]
            child = parent

    def pop(self) -> T:
        """Remove and return the first element."""
        items, less = self._items, self._less
        last = len(items) - 1
        items[0], items[last] = items[last], items[0]
        place = 0
        while True:
            child = 2 * place + 1
            if child >= last:
                break
            if child + 1 < last and less(items[child + 1], items[child]):
                child += 1
            if not less(items[child], items[place]):
                break
            items[place], items[child] = items[child], items[place]
            place = child
        return items.pop()

    def copy(self) -> "PriorityQueue[T]":
        """Give an independent queue with the same content."""
        twin: PriorityQueue[T] = PriorityQueue(self._less)
        twin._items = list(self._items)
        return twin


class KeyedQueue(Generic[T]):
    """Pops the element with the smallest key. Keys are different, and are taken when an element is pushed."""

    __slots__ = ("_heaped", "_items", "_key")

    def __init__(self, key: Callable[[T], Any]) -> None:
        self._key: Final = key
        self._items: list[tuple[Any, T]] = []
        #: Whether `_items` is a heap; it becomes one with the first pop.
        self._heaped = False

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: T) -> None:
        """Add an element."""
        entry = self._key(item), item
        if self._heaped:
            heapq.heappush(self._items, entry)
        else:
            self._items.append(entry)

    def pop(self) -> T:
        """Remove and return the first element."""
        if not self._heaped:
            self._items.sort(key=_first)
            self._heaped = True
        return heapq.heappop(self._items)[1]


def _first(entry: tuple[Any, Any]) -> Any:
    return entry[0]
