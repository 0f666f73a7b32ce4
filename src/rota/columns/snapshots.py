"""Snapshots: a cluster that stands still while the one it was taken from goes on.

Taking the first snapshot costs a copy. From then on it catches up when its holder says so, at the cost of what has
happened since, and stands still again. What-if questions on it (`cluster.trial`) do not reach the source.
"""

from operator import attrgetter

from rota.columns.cluster import Cluster


class Snapshot:
    """A view of a cluster at one moment. Catch up outside of trials only."""

    __slots__ = ("_log", "cluster")

    def __init__(self, source: Cluster) -> None:
        #: The cluster as it was when the snapshot last caught up; same rows as in the source.
        self.cluster = source.copy()
        self._log = source.follow()

    @property
    def behind(self) -> int:
        """How many deltas the source is ahead."""
        return len(self._log.entries)

    def catch_up(self) -> None:
        """Take over everything that has happened to the source."""
        entries, self._log.entries = self._log.entries, []
        for method, args in entries:
            attrgetter(method)(self.cluster)(*args)
