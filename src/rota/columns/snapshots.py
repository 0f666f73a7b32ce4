"""Snapshots: a cluster that does not change while its source does.

The first snapshot costs a copy. After that `catch_up` applies the changes of the source since, at their cost. What-if
transactions on it (`cluster.what_if`) do not affect the source.
"""

from operator import attrgetter
from typing import Any, TypeAlias

from rota.columns.cluster import Cluster

#: Changes in order, for `Snapshot.apply`.
Deltas: TypeAlias = list[tuple[str, tuple[Any, ...]]]


class Snapshot:
    """A copy of a cluster at one moment. Do not catch up inside a what-if transaction."""

    __slots__ = ("_log", "cluster")

    def __init__(self, source: Cluster) -> None:
        #: The cluster at the last `catch_up`; same rows as in the source.
        self.cluster = source.copy()
        self._log = source.follow()

    @property
    def behind(self) -> int:
        """How many deltas the source is ahead."""
        return len(self._log.entries)

    def catch_up(self) -> None:
        """Apply all deltas of the source."""
        self.apply(self.take())

    def take(self) -> Deltas:
        """Give the deltas since the last time, to be applied before all later ones.

        A copy that is used in another thread takes them where the source changes, and applies them where it is used.
        """
        entries, self._log.entries = self._log.entries, []
        return entries

    def apply(self, deltas: Deltas) -> None:
        """Apply deltas of the source."""
        for method, args in deltas:
            attrgetter(method)(self.cluster)(*args)
