"""Evictions in progress, by preemptor: no others are planned for a pod until their effect has been seen."""

from collections.abc import Sequence
from typing import Final

from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo

#: How long the watch may take to show that victims are terminating.
UNSEEN_S: Final = 10.0


class PendingEvictions:
    """The preemptors whose victims are being evicted or were evicted and are not seen to leave yet."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self._under_way: Final[set[str]] = set()
        #: The evicted victims of each preemptor, and the time of their eviction.
        self._evicted: Final[dict[str, tuple[Sequence[PodInfo], float]]] = {}

    def start(self, uid: str) -> None:
        """Evictions for a preemptor begin."""
        self._under_way.add(uid)

    def end(self, uid: str, victims: Sequence[PodInfo], now: float, *, failed: bool) -> None:
        """They have ended; nothing is kept for a pod that no longer needs room."""
        if uid not in self._under_way:
            return
        self._under_way.discard(uid)
        if not failed:
            self._evicted[uid] = victims, now

    def forget(self, uid: str) -> None:
        """The pod no longer needs room."""
        self._under_way.discard(uid)
        self._evicted.pop(uid, None)

    def awaited(self, uid: str, now: float) -> bool:
        """Whether the pod's evictions are in progress or not seen yet."""
        if uid in self._under_way:
            return True
        if uid not in self._evicted:
            return False
        victims, at = self._evicted[uid]
        if now - at < UNSEEN_S and any(map(self._stays, victims)):
            return True
        del self._evicted[uid]
        return False

    def _stays(self, victim: PodInfo) -> bool:
        known = self._cluster.pods.get(victim.uid)
        return known is not None and not known.terminating
