"""What was read and written lately, in memory, for as long as it can be told that nobody wrote since.

All processes that write to a file share a *generation*: eight bytes of memory, mapped from the file that they queue on.
It is odd while a commit is under way and even otherwise, and no two commits leave the same value behind. So a reader
that finds the generation at which its memory was right knows, without asking the database, that nothing was committed
in between: what it remembers is the newest state, and a write that was acknowledged before the read began is part of
it. Whoever dies in the middle of a commit leaves an odd value behind, at which nothing is remembered; the next writer
makes it even again.

The writes of this process are taken over into its memory; after one of another process it begins anew.
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
#: How much is remembered; what watchers may still ask for is in memory anyway, and shares its bytes.
_MOST_ENTRIES: Final = 16_384
_MOST_BYTES: Final = 32 * 1024 * 1024
_LARGEST: Final = 64 * 1024


#: No generation: what was asked for is known.
KNOWN: Final = -1


class Generation:
    """The shared number. Whoever changes it holds the lock on the file that it lies in."""

    def __init__(self, file: int) -> None:
        if os.fstat(file).st_size < _NUMBER.size:
            os.ftruncate(file, _NUMBER.size)
        self._memory: Final = mmap.mmap(file, _NUMBER.size)

    def now(self) -> int:
        """The number as it stands; odd while a commit is under way."""
        number: int = _NUMBER.unpack_from(self._memory)[0]
        return number

    def begin(self) -> int:
        """A commit is about to happen; the even number before it, at which nothing else can have been remembered."""
        number = self.now()
        before = number + number % 2
        _NUMBER.pack_into(self._memory, 0, before + 1)
        return before

    def end(self) -> None:
        """The commit has happened, or not."""
        _NUMBER.pack_into(self._memory, 0, self.now() + 1)

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()


class ReadCache:
    """Entries that are known as of a generation. Used on the event loop, except for `wrote`."""

    def __init__(self, generation: Generation) -> None:
        self._generation: Final = generation
        self._at = -1
        self._entries: Final[dict[str, Entry | None]] = {}
        self._bytes = 0
        #: Commits of this process: the generations around them, and what they changed.
        self._written: Final[deque[tuple[int, Mapping[str, Row | None]]]] = deque()

    def wrote(self, before: int, changed: Mapping[str, Row | None]) -> None:
        """This process commits a change; called by its writer before the commit can be seen."""
        self._written.append((before, changed))

    def get(self, key: str) -> tuple[Entry | None, int]:
        """One key that is known, and `KNOWN`; otherwise None and the generation, for `learn`."""
        now = self._generation.now()
        if now != self._at:
            self._catch_up(now)
        if now % 2 == 0:
            entry = self._entries.get(key)
            if entry is not None or key in self._entries:
                return entry, KNOWN
        return None, now

    def find(self, keys: Iterable[str]) -> tuple[dict[str, Entry | None], int]:
        """Those of the keys that are known, absent ones included, and the generation, for `learn`."""
        now = self._generation.now()
        if now != self._at:
            self._catch_up(now)
        if now % 2:
            return {}, now
        known = self._entries
        return {key: known[key] for key in keys if key in known}, now

    def learn(self, read: Iterable[tuple[str, Entry | None]], generation: int) -> None:
        """Remember what was read from the database after `find` had told the generation."""
        # while it stands, nothing was committed between the two
        if generation % 2 == 0 and generation == self._at == self._generation.now():
            for key, entry in read:
                self._put(key, entry)

    def _catch_up(self, now: int) -> None:
        """Take over what this process has written, as far as that leads to `now`."""
        while self._written:
            before, changed = self._written.popleft()
            if before != self._at:
                self._forget(before)
            # what was not known stays unknown unless it was written now: that is the newest state of it
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
