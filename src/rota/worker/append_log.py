"""An append-only file of keys with one line of text each, for state that must survive a crash.

A file per key would do the same, but creating files is the most expensive disk operation of a short task; appending a
line to an open file costs a hundredth of it. Lines survive the end of the program. They need not survive that of the
machine, since everything that they describe ends with it. A truncated line counts as not written. Uses only the
standard library, because the shim imports it.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PUT: Final = b"+"
_DROP: Final = b"-"
#: Number of obsolete lines after which the file is rewritten.
_MOST_STALE: Final = 4096


class AppendLog:
    """A file of keys and texts; neither may contain a newline, and keys no blank."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._known: Final[dict[str, bytes]] = {}
        self._stale = 0
        #: Whether the file may end in a truncated line.
        self._torn = False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._read()
        self._fd = self._rewritten()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str) -> bytes | None:
        """The text of a key."""
        return self._known.get(key)

    def texts(self) -> Iterator[bytes]:
        """All texts, the oldest key first."""
        return iter(tuple(self._known.values()))

    def put(self, key: str, text: bytes) -> None:
        """Set the text of the key; raises OSError if it cannot be written, and then it is not set."""
        self._append(_PUT + key.encode() + b" " + text)
        if key in self._known:
            self._stale += 1
        self._known[key] = text
        self._tidy()

    def drop(self, key: str) -> None:
        """Remove the key."""
        if self._known.pop(key, None) is not None:
            self._append(_DROP + key.encode())
            self._stale += 2
            self._tidy()

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _append(self, line: bytes) -> None:
        data = (b"\n" if self._torn else b"") + line + b"\n"
        self._torn = True
        written = os.write(self._fd, data)
        if written < len(data):
            raise OSError(f"{self._path} took {written} of {len(data)} bytes")
        self._torn = False

    def _tidy(self) -> None:
        if self._stale > _MOST_STALE + len(self._known):
            os.close(self._fd)
            self._fd = self._rewritten()

    def _read(self) -> None:
        try:
            *lines, _ = self._path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines:
            key, _, text = line[1:].partition(b" ")
            if line.startswith(_PUT) and text:
                self._known[key.decode(errors="replace")] = text
            elif line.startswith(_DROP):
                self._known.pop(key.decode(errors="replace"), None)

    def _rewritten(self) -> int:
        """Write the current entries into a new file that replaces the old one; returns it open for appending."""
        draft = self._path.with_name(f"{self._path.name}.draft")
        lines = [_PUT + key.encode() + b" " + text + b"\n" for key, text in self._known.items()]
        opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            with open(opened, "wb", closefd=False) as file:
                file.write(b"".join(lines))
            draft.replace(self._path)
        except BaseException:
            os.close(opened)
            raise
        self._stale = 0
        return opened
