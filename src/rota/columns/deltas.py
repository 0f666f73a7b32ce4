"""Deltas taken down, to be applied somewhere else later."""

from typing import Any


class DeltaLog:
    """What was done to a cluster: names of methods (those of its catalog with a prefix) and their arguments."""

    __slots__ = ("__weakref__", "entries")

    def __init__(self) -> None:
        self.entries: list[tuple[str, tuple[Any, ...]]] = []
