"""Which pods a scheduler may decide while the shard map changes. Pure.

For a moment no scheduler decides a pod that moves, so that two never do. A scheduler takes a new map in two
steps. At once it stops deciding pods that the map gives to others, and acknowledges the map's epoch when none of them
is still being bound. It begins to decide pods that it gained when all members of the map have acknowledged exactly this
epoch. A member that was removed is not waited for: the coordinator has fenced it before it wrote the map.

A scheduler that missed a map has not acknowledged it, so no other member has acted on that map either.
"""

from collections.abc import Mapping
from typing import Final

from rota.columns.pods import PodInfo
from rota.scheduler.sharding.shard_map import NO_MAP, ShardMap, Together, routing_key


class Ownership:
    """The pods that one scheduler may decide."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        #: The settled map, and those after it that are not settled yet.
        self._maps: list[ShardMap] = [NO_MAP]
        #: The routing keys of pods that wait, by uid.
        self._keys: Final[dict[str, str]] = {}
        self._together = Together.OWNER

    @property
    def current(self) -> ShardMap:
        """The newest map."""
        return self._maps[-1]

    @property
    def settled(self) -> bool:
        """Whether all members obey the newest map."""
        return len(self._maps) == 1

    def take(self, shard_map: ShardMap) -> bool:
        """Obey a newer map from now on; returns whether it is newer."""
        if shard_map.epoch <= self.current.epoch:
            return False
        self._maps.append(shard_map)
        if shard_map.together is not self._together:
            self._together = shard_map.together
            self._keys.clear()
        return True

    def settle(self, acknowledged: Mapping[str, int]) -> bool:
        """Take the gains of the newest map if all its members have acknowledged it; returns whether that is new.

        `acknowledged` has the last epoch that each member acknowledged.
        """
        newest = self.current
        others = (member.name for member in newest.members if member.name != self.name)
        if self.settled or any(acknowledged.get(name) != newest.epoch for name in others):
            return False
        self._maps = [newest]
        return True

    def reset(self) -> None:
        """Decide nothing, as after the loss of the Lease."""
        self._maps = [NO_MAP]

    def owns_key(self, key: str, labels: Mapping[str, str] | None = None) -> bool:
        """Whether pods of this key are decided here."""
        return all(one.decider(key, labels or {}) == self.name for one in self._maps)

    def owns(self, pod: PodInfo) -> bool:
        """Whether the pod is decided here."""
        key = self._keys.get(pod.uid)
        if key is None:
            key = self._keys[pod.uid] = routing_key(pod, self._together)
        return self.owns_key(key, pod.labels)

    def forget(self, uid: str) -> None:
        """A pod no longer waits."""
        self._keys.pop(uid, None)
