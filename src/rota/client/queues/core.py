"""The rules of a work queue, without waiting. Pure: the time is an argument.

A key is in the queue once, however often it is added. A key that is being processed is not handed out again before it
is done; if it was added meanwhile, it is then handed out once more. So no key is processed by two workers at a time,
and the last addition is always followed by processing that began after it. The rules are those of client-go's
`workqueue`.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, TypeVar

from rota.kit.heaps import KeyedHeap

K = TypeVar("K", bound=Hashable)


class _Ranked(Generic[K]):
    """Keys in the order of their rank, the highest first; of equal ones the first added."""

    def __init__(self, rank: Callable[[K], int]) -> None:
        self._rank: Final = rank
        self._numbers: Final = itertools.count()
        self._heap: Final[KeyedHeap[K, tuple[int, int]]] = KeyedHeap()

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[K]:
        return iter(self._heap)

    def append(self, key: K) -> None:
        self._heap.push(key, (-self._rank(key), next(self._numbers)))

    def popleft(self) -> K:
        return self._heap.pop()[0]


class QueueCore(Generic[K]):
    """Keys that are ready, delayed, or being processed."""

    def __init__(self, rank: Callable[[K], int] | None = None) -> None:
        """With `rank`, ready keys are handed out by their rank at the time of their addition."""
        #: Keys that may be handed out, in the order of their addition; all of them are dirty, none is being processed.
        self._ready: Final[deque[K] | _Ranked[K]] = deque() if rank is None else _Ranked(rank)
        #: Keys that need processing, ready or being processed at the moment.
        self._dirty: Final[set[K]] = set()
        self._in_work: Final[set[K]] = set()
        #: Keys to be added later, by time.
        self._delayed: Final[KeyedHeap[K, float]] = KeyedHeap()

    def __len__(self) -> int:
        """Ready keys; without delayed ones and those being processed."""
        return len(self._ready)

    @property
    def in_work(self) -> int:
        """Keys that are being processed."""
        return len(self._in_work)

    @property
    def delayed(self) -> int:
        """Keys that are not due yet."""
        return len(self._delayed)

    def add(self, key: K) -> bool:
        """Add a key; False if it is queued already."""
        if key in self._dirty:
            return False
        self._dirty.add(key)
        if key not in self._in_work:
            self._ready.append(key)
        return True

    def add_at(self, key: K, due: float) -> None:
        """Add a key at a time; of several times the earliest counts."""
        if key not in self._delayed or due < self._delayed.priority(key):
            self._delayed.push(key, due)

    def advance(self, now: float) -> list[K]:
        """Advance the time: add keys that are due; returns those that were not queued already."""
        return [key for key, _ in self._delayed.pop_through(now) if self.add(key)]

    def next_due(self) -> float:
        """When the next delayed key is due; infinity if there is none."""
        return self._delayed.peek()[1] if self._delayed else math.inf

    def take(self) -> K | None:
        """Hand out a key; None if none is ready."""
        if not self._ready:
            return None
        key = self._ready.popleft()
        self._dirty.discard(key)
        self._in_work.add(key)
        return key

    def done(self, key: K) -> None:
        """The processing of a key has ended, successfully or not."""
        if key not in self._in_work:
            raise ValueError(f"{key} is not being processed")
        self._in_work.discard(key)
        if key in self._dirty:
            self._ready.append(key)

    def drop_delayed(self) -> None:
        """Drop the delayed keys."""
        self._delayed.clear()
