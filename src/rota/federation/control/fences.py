"""The Leases of agents as the control plane sees them: when each was renewed, and when its member can run nothing
exclusive any more.

Clocks of two machines are not compared: what counts is when this process saw a renewal, by its own monotonic clock.
After a restart the time begins again, which only delays a takeover.
"""

import math
from typing import Final

from rota.api import errors, meta, times
from rota.client.informers.cache import Key
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.failover import exclusive
from rota.kit.clock import Clock

#: Added to T1 and the grace period: for requests under way, and for workers to end processes.
MARGIN_S: Final = 20.0


class Fences:
    """Follows the Leases of agents."""

    def __init__(self, client: Client, *, clock: Clock, margin_s: float = MARGIN_S) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._margin_s: Final = margin_s
        #: By cluster: the last renewal, and when it was seen.
        self._seen: Final[dict[str, tuple[str, float]]] = {}

    def changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        """Take note of a Lease; a handler of an informer."""
        if new is None:
            self._seen.pop(key.name, None)
        else:
            self._note(key.name, new)

    def renewed(self, cluster: str) -> float | None:
        """When the agent of a cluster renewed its Lease last, by the agent's clock; None if it never did."""
        seen = self._seen.get(cluster)
        return None if seen is None or not seen[0] else times.parse(seen[0])

    async def fences(self, cluster: str) -> bool:
        """Whether the agent of a cluster stops exclusive workloads itself."""
        lease = await self._lease(cluster)
        return lease is not None and exclusive.fence_after_s(lease) is not None

    async def remaining_s(self, cluster: str, stopping_s: float) -> float:
        """How long a cluster may still run an exclusive workload that takes `stopping_s` to stop, if its agent is cut
        off; infinity if nothing there stops it.

        The Lease is read from the server, not from a cache. A caller that has marked the Work of the cluster for
        deletion before can rely on 0: an agent that renews later reads the Work after that, and finds it deleted.
        """
        lease = await self._lease(cluster)
        fence_s = None if lease is None else exclusive.fence_after_s(lease)
        if lease is None or fence_s is None:
            return math.inf
        seen = self._note(cluster, lease)
        return max(0.0, seen + fence_s + stopping_s + self._margin_s - self._clock.monotonic())

    async def _lease(self, cluster: str) -> Object | None:
        try:
            return await self._client.get(kinds.LEASES, cluster, namespace=kinds.CLUSTER_NAMESPACE)
        except errors.NotFound:
            return None

    def _note(self, cluster: str, lease: Object) -> float:
        """When the present renewal was seen first."""
        renewed = str((lease.get("spec") or {}).get("renewTime") or "")
        seen = self._seen.get(cluster)
        if seen is None or seen[0] != renewed:
            seen = self._seen[cluster] = (renewed, self._clock.monotonic())
        return seen[1]


def is_ready(cluster: Object | None) -> bool:
    """Whether a cluster is known to be ready."""
    return cluster is not None and meta.is_condition_true(cluster, "Ready")
