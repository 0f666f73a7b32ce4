"""A log of deltas, to be applied elsewhere later."""

from typing import Any


class DeltaLog:
    """Changes of a cluster: names of methods (those of its catalog with a prefix) and their arguments."""

    __slots__ = ("__weakref__", "entries")

    def __init__(self) -> None:
        self.entries: list[tuple[str, tuple[Any, ...]]] = []
