"""Snapshots: a cluster that does not change while its source does.

The first snapshot costs a copy. After that `catch_up` applies the changes of the source since, at their cost. What-if
transactions on it (`cluster.what_if`) do not affect the source.
"""

from operator import attrgetter

from rota.columns.cluster import Cluster


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
        entries, self._log.entries = self._log.entries, []
        for method, args in entries:
            attrgetter(method)(self.cluster)(*args)
