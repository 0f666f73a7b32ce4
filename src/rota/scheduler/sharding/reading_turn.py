"""Whether a scheduler that starts may read the cluster now, or lets another one of its map read first.

Reading a large cluster costs the API server and the scheduler seconds of processor time. If all schedulers of a map
start at once and read at once, each of them is ready only when all are, and until then no pod is bound. So one reads
first, and the others follow as soon as one of the map decides pods, which they see from the renewals of its Lease: a
scheduler gets that Lease only after it has read the cluster. The first one is the holder of another Lease, which is
free between starts, so that one write acquires it; if its holder dies, it expires as any Lease does.

A scheduler waits for a limited time. Turns are for speed; nothing that is decided depends on them.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from rota.client.elections.elector import PROMPT, Election, LeaderElector, LeadershipLost
from rota.client.elections.lease_claims import Term
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.scheduler.sharding import instance_objects
from rota.scheduler.sharding.instance_objects import LEASE_NAMESPACE

log = logs.get(__name__)

Object = Mapping[str, Any]
#: How long a scheduler lets another one read first, and holds the turn itself at most.
PATIENCE_S: Final = 30.0


class ReadingTurn:
    """The turn of one scheduler."""

    def __init__(self, client: Client, shard_map: str, *, identity: str, clock: Clock, rng: Rng) -> None:
        self._map: Final = shard_map
        self._clock: Final = clock
        election = Election(
            name=instance_objects.reading_lease(shard_map), namespace=LEASE_NAMESPACE, identity=identity, pace=PROMPT
        )
        self._elector: Final = LeaderElector(client, election, clock=clock, rng=rng)
        self._may_read: Final = asyncio.Event()
        self._ended: Final = asyncio.Event()
        #: Whether this scheduler reads before the others.
        self.first = False
        self._instances: Informer[Object] | None = None
        self._leases: Informer[Object] | None = None

    def follow(self, instances: Informer[Object], leases: Informer[Object]) -> None:
        """See renewals in these informers, which others run."""
        self._instances, self._leases = instances, leases
        leases.add_handler(self._lease_changed)

    async def run(self) -> None:
        """Compete for the first turn, and keep it, until `end`."""
        works = [asyncio.ensure_future(self._elector.run(self._hold)), asyncio.ensure_future(self._ended.wait())]
        try:
            await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
            if works[0].done():
                works[0].result()
        except LeadershipLost as lost:
            # Another one may read at the same time now, which is slower and nothing else.
            log.info("turn to read the cluster lost", map=self._map, error=lost)
        finally:
            for one in works:
                one.cancel()
            await asyncio.gather(*works, return_exceptions=True)

    async def wait(self) -> None:
        """Wait until this scheduler may read the cluster."""
        try:
            await self._clock.wait_for(self._may_read.wait(), PATIENCE_S)
        except TimeoutError:
            log.warning("no scheduler of the map has begun to decide; reading now", map=self._map, waited_s=PATIENCE_S)
        if not self.first:
            self.end()

    def end(self) -> None:
        """This scheduler has read the cluster and decides, or needs no turn."""
        self._may_read.set()
        self._ended.set()

    async def _hold(self, _: Term) -> None:
        self.first = True
        self._may_read.set()
        await self._clock.sleep(PATIENCE_S)

    def _lease_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        assert self._instances is not None
        assert self._leases is not None
        if self._may_read.is_set() or new is None or not self._leases.synced:
            return
        if not (new.get("spec") or {}).get("holderIdentity"):
            return  # fenced or released
        settings = map(instance_objects.settings_of, self._instances.cache.values())
        if any(one.shard_of == self._map and instance_objects.lease_name(one.name) == key.name for one in settings):
            self._may_read.set()
