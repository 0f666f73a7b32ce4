"""Recently read and written entries in memory, valid while no other process has committed.

All processes that write to a file share a *generation*: eight bytes of memory, mapped from the lock file. It is odd
while a commit is under way and even otherwise, and no two commits leave the same value. A reader that finds the
generation at which its cache was valid knows, without a query, that nothing was committed in between: the cached state
is the newest, and includes every write that was acknowledged before the read began. A crash during a commit leaves an
odd generation, which disables the cache until the next writer makes it even again.

Writes of this process update its cache; a commit of another process clears it.
"""

import mmap
import os
import struct
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from rota.store.store_interface import Entry
from rota.store.write_plan import Row

_NUMBER: Final = struct.Struct("<Q")
#: Size of the cache; recent values are in the broadcaster's memory anyway, and share their bytes.
_MOST_ENTRIES: Final = 16_384
_MOST_BYTES: Final = 32 * 1024 * 1024
_LARGEST: Final = 64 * 1024


#: Returned instead of a generation: the result is from the cache.
KNOWN: Final = -1


class Generation:
    """The shared number. A writer changes it only while it holds the lock on the file."""

    def __init__(self, file: int) -> None:
        if os.fstat(file).st_size < _NUMBER.size:
            os.ftruncate(file, _NUMBER.size)
        self._memory: Final = mmap.mmap(file, _NUMBER.size)

    def now(self) -> int:
        """The current number; odd while a commit is under way."""
        number: int = _NUMBER.unpack_from(self._memory)[0]
        return number

    def begin(self) -> int:
        """A commit begins; returns the even number before it, at which no other state can have been cached."""
        number = self.now()
        before = number + number % 2
        _NUMBER.pack_into(self._memory, 0, before + 1)
        return before

    def end(self) -> None:
        """The commit has ended, successful or not."""
        _NUMBER.pack_into(self._memory, 0, self.now() + 1)

    def close(self) -> None:
        """Unmap the memory."""
        self._memory.close()


class ReadCache:
    """Entries that are known as of a generation. Used on the event loop, except for `wrote`."""

    def __init__(self, generation: Generation) -> None:
        self._generation: Final = generation
        self._at = -1
        self._entries: Final[dict[str, Entry | None]] = {}
        self._bytes = 0
        #: Commits of this process: the generations before and after, and the changed entries.
        self._written: Final[deque[tuple[int, Mapping[str, Row | None]]]] = deque()

    def wrote(self, before: int, changed: Mapping[str, Row | None]) -> None:
        """This process commits a change; its writer calls this before the commit becomes visible."""
        self._written.append((before, changed))

    def get(self, key: str) -> tuple[Entry | None, int]:
        """A cached key and `KNOWN`; otherwise None and the generation, for `learn`."""
        now = self._generation.now()
        if now != self._at:
            self._catch_up(now)
        if now % 2 == 0:
            entry = self._entries.get(key)
            if entry is not None or key in self._entries:
                return entry, KNOWN
        return None, now

    def find(self, keys: Iterable[str]) -> tuple[dict[str, Entry | None], int]:
        """The cached ones of the keys, absent ones included, and the generation, for `learn`."""
        now = self._generation.now()
        if now != self._at:
            self._catch_up(now)
        if now % 2:
            return {}, now
        known = self._entries
        return {key: known[key] for key in keys if key in known}, now

    def learn(self, read: Iterable[tuple[str, Entry | None]], generation: int) -> None:
        """Cache what was read from the database after `find` had returned the generation."""
        # # if it is unchanged, nothing was committed between the two
        if generation % 2 == 0 and generation == self._at == self._generation.now():
            for key, entry in read:
                self._put(key, entry)

    def _catch_up(self, now: int) -> None:
        """Apply this process's own commits, as far as they lead to `now`."""
        while self._written:
            before, changed = self._written.popleft()
            if before != self._at:
                self._forget(before)
            # # an unknown key stays unknown unless it was written now: that is its newest state
            for key, row in changed.items():
                self._put(key, row.entry if row else None)
            self._at = before + 2
        if now % 2 == 0 and now != self._at:
            self._forget(now)

    def _forget(self, generation: int) -> None:
        self._entries.clear()
        self._bytes = 0
        self._at = generation

    def _put(self, key: str, entry: Entry | None) -> None:
        self._bytes -= _weight(self._entries.pop(key, None))
        weight = _weight(entry)
        if weight > _LARGEST:
            return
        if len(self._entries) >= _MOST_ENTRIES or self._bytes + weight > _MOST_BYTES:
            self._entries.clear()
            self._bytes = 0
        self._entries[key] = entry
        self._bytes += weight


def _weight(entry: Entry | None) -> int:
    return 0 if entry is None else len(entry.value)
