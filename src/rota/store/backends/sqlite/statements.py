"""Statements over several rows at once.

Python releases its interpreter lock for every step of a statement and has to get it back, for which it waits until the
event loop yields. A commit that writes a hundred rows in a hundred steps waits a hundred times. So rows are read and
written in portions, with few sizes of portions, so that SQLite keeps all statements prepared.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

_T = TypeVar("_T")
_SIZES: Final = (128, 32, 8, 2, 1)

# ruff: noqa: S608 - only placeholders for values are inserted


def portions(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """All items in order, in portions of few sizes."""
    at = 0
    for size in _SIZES:
        while len(items) - at >= size:
            yield items[at : at + size]
            at += size


@functools.cache
def rows(count: int) -> str:
    """Entries by their keys, and whether their last write was a heartbeat."""
    return (
        f"SELECT key, value, revision, created, lease, heartbeat FROM entries WHERE key IN ({', '.join('?' * count)})"
    )


@functools.cache
def put(count: int) -> str:
    """Write entries, new or not."""
    return (
        f"INSERT INTO entries VALUES {_values(count)} ON CONFLICT (key) DO UPDATE SET value = excluded.value,"
        " revision = excluded.revision, created = excluded.created, lease = excluded.lease,"
        " heartbeat = excluded.heartbeat"
    )


@functools.cache
def log(count: int) -> str:
    """Append to history."""
    return f"INSERT INTO log VALUES {_values(count)}"


def _values(count: int) -> str:
    return ", ".join(["(?, ?, ?, ?, ?, ?)"] * count)
