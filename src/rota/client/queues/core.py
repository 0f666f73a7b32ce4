"""The rules of a work queue, without waiting. Pure: it is told the time.

A key is in the queue once, however often it is added. A key that someone works on is not handed out again before they
are done; if it was added meanwhile, it then comes once more. So nobody ever works on a key beside another, and the last
addition is always followed by work that began after it. client-go's `workqueue` has the same rules.
"""

import math
from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from rota.kit.heaps import KeyedHeap

K = TypeVar("K", bound=Hashable)


class QueueCore(Generic[K]):
    """Keys that are due, delayed, or in someone's hands."""

    def __init__(self) -> None:
        #: Keys that may be handed out, in the order of their addition; all of them are dirty, none is in work.
        self._ready: Final[deque[K]] = deque()
        #: Keys that need work, ready or waiting for the one who has them in hand.
        self._dirty: Final[set[K]] = set()
        self._in_work: Final[set[K]] = set()
        #: Keys to be added later, by the time.
        self._delayed: Final[KeyedHeap[K, float]] = KeyedHeap()

    def __len__(self) -> int:
        """Keys that may be handed out now; those that are delayed or in work do not count."""
        return len(self._ready)

    @property
    def in_work(self) -> int:
        """Keys that someone has in hand."""
        return len(self._in_work)

    @property
    def delayed(self) -> int:
        """Keys whose time has not come."""
        return len(self._delayed)

    def add(self, key: K) -> bool:
        """The key needs work now; False if it waits already."""
        if key in self._dirty:
            return False
        self._dirty.add(key)
        if key not in self._in_work:
            self._ready.append(key)
        return True

    def add_at(self, key: K, due: float) -> None:
        """The key needs work at that time; of several times the earliest counts."""
        if key not in self._delayed or due < self._delayed.priority(key):
            self._delayed.push(key, due)

    def advance(self, now: float) -> list[K]:
        """Let time pass: add what is due; the keys that did not wait already."""
        return [key for key, _ in self._delayed.pop_through(now) if self.add(key)]

    def next_due(self) -> float:
        """When the next delayed key is to be added; infinity if there is none."""
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
        """The work on a key has ended, well or not."""
        if key not in self._in_work:
            raise ValueError(f"nobody works on {key}")
        self._in_work.discard(key)
        if key in self._dirty:
            self._ready.append(key)

    def drop_delayed(self) -> None:
        """Forget what is not due."""
        self._delayed.clear()
