"""The member clusters as one snapshot, with answers that many bindings share.

Sets of clusters are integers with one bit per cluster, so that filters are combined for all clusters at once. What a
placement, an API or a request for resources means for the clusters is worked out once per snapshot.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from rota.federation import tolerations
from rota.federation.affinities import Affinity
from rota.federation.clusters import Cluster
from rota.federation.estimation import summary
from rota.federation.gates import Gates

Object: TypeAlias = Mapping[str, Any]

#: How many different answers of one sort are kept before they are worked out anew.
_KEPT = 4096


class Fleet:
    """Clusters in a fixed order."""

    def __init__(self, clusters: Iterable[Cluster]) -> None:
        self.clusters = tuple(clusters)
        self.names = tuple(cluster.name for cluster in self.clusters)
        self.index = {name: place for place, name in enumerate(self.names)}
        self.every = (1 << len(self.clusters)) - 1
        #: Clusters that are not being removed.
        self.staying = self.mask(lambda cluster: not cluster.deleting)
        self._masks: dict[object, int] = {}
        self._capacities: dict[object, tuple[int, ...]] = {}
        self._weights: dict[object, tuple[int, ...]] = {}
        #: Values that callers compute once for this snapshot, under their own keys.
        self.kept: dict[object, Any] = {}

    def mask(self, accepts: Callable[[Cluster], bool]) -> int:
        """The clusters that something is true of."""
        return sum(1 << place for place, cluster in enumerate(self.clusters) if accepts(cluster))

    def mask_of_names(self, names: Iterable[str]) -> int:
        """The clusters of these names, as far as they exist."""
        found = 0
        for name in names:
            place = self.index.get(name)
            if place is not None:
                found |= 1 << place
        return found

    def kept_mask(self, key: object, accepts: Callable[[Cluster], bool]) -> int:
        """As `mask`, worked out once per key."""
        found = self._masks.get(key)
        if found is None:
            if len(self._masks) >= _KEPT:
                self._masks.clear()
            found = self._masks[key] = self.mask(accepts)
        return found

    def matching(self, affinity: Affinity) -> int:
        """The clusters that an affinity means."""
        return self.kept_mask(affinity, affinity.matches)

    def serving(self, api: tuple[str, str]) -> int:
        """The clusters that serve an API."""
        return self.kept_mask(api, lambda cluster: api in cluster.apis)

    def tolerated(self, given: tuple[Object, ...]) -> int:
        """The clusters whose taints are all tolerated by these tolerations."""
        return self.kept_mask(
            ("tolerations", msgspec.json.encode(given) if given else b""),
            lambda cluster: tolerations.first_untolerated(cluster.taints, given, tolerations.keeps_out) is None,
        )

    def weights(self, rules: tuple[tuple[Affinity, int], ...]) -> Sequence[int]:
        """The highest weight of the rules that mean a cluster, 0 where none does."""
        found = self._weights.get(rules)
        if found is None:
            if len(self._weights) >= _KEPT:
                self._weights.clear()
            masks = [(self.matching(affinity), weight) for affinity, weight in rules]
            found = self._weights[rules] = tuple(
                max((weight for mask, weight in masks if mask >> place & 1), default=0)
                for place in range(len(self.clusters))
            )
        return found

    def keep(self, key: object, value: Any) -> None:
        """Keep what was worked out."""
        if len(self.kept) >= _KEPT:
            self.kept.clear()
        self.kept[key] = value

    def replicas(self, requirements: Object | None, gates: Gates) -> Sequence[int]:
        """How many replicas each cluster can take by its own summary."""
        key = ("replicas", gates, None if requirements is None else msgspec.json.encode(requirements))
        return self._kept_capacity(key, lambda cluster: summary.replicas(cluster, requirements, gates))

    def sets(self, components: tuple[Object, ...], gates: Gates) -> Sequence[int]:
        """How many sets of components each cluster can take by its own summary."""
        key = ("sets", gates, msgspec.json.encode(components))
        return self._kept_capacity(key, lambda cluster: summary.sets(cluster, components, gates))

    def _kept_capacity(self, key: object, of: Callable[[Cluster], int]) -> Sequence[int]:
        found = self._capacities.get(key)
        if found is None:
            if len(self._capacities) >= _KEPT:
                self._capacities.clear()
            found = self._capacities[key] = tuple(of(cluster) for cluster in self.clusters)
        return found


def places(mask: int) -> Iterator[int]:
    """The places of the bits that are set, from the lowest."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
