"""Has the capacity that CapacitySources name read from push members; agents do that in pull members."""

from typing import Final

from rota.api import errors, meta
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.federation import kinds
from rota.federation.member import capacity, connections
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError

log = logs.get(__name__)


class CapacityLoop:
    """Reconciles a cluster every few seconds while there is a CapacitySource."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, every_s: float) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._rng: Final = rng
        self._every_s: Final = every_s
        self._frame: Final = Reconciler[str](
            client, "capacity", self._process, clock=clock, rng=rng, retries=connections.RETRIES
        )
        self._sources: Final = self._frame.follow(kinds.CAPACITY_SOURCES, self._source_changed).cache
        self._clusters: Final = self._frame.follow(kinds.CLUSTERS, self._cluster_changed).cache

    async def run(self) -> None:
        """Work until cancelled."""
        await self._frame.run()

    def _source_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        for name in [one.name for one, _ in self._clusters.items()]:
            self._frame.queue.add(name)

    def _cluster_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is None or (new is not None and old.get("spec") != new.get("spec")):
            self._frame.queue.add(key.name)

    async def _process(self, name: str) -> float | None:
        cluster = self._clusters.get(name)
        sources = list(self._sources.values())
        if cluster is None or meta.is_deleting(cluster) or (cluster.get("spec") or {}).get("syncMode") == "Pull":
            return None
        if not sources and not capacity.published(cluster):
            return None
        try:
            async with connections.connected(self._client, cluster, clock=self._clock, rng=self._rng) as member:
                await capacity.publish(self._client, cluster, member, sources)
        except (errors.ApiError, TransportError, UserError, OSError, connections.NoConnection) as error:
            log.info("a member gives no capacity", cluster=name, error=str(error))
            return self._every_s
        return self._every_s if sources else None
