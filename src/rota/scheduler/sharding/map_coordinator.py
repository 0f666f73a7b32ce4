"""The coordinator of a shard map: the elected scheduler that writes the map.

Every scheduler of the map is a candidate. The coordinator follows the Leases of all instances by its own clock. If one
was not renewed for its whole duration, the coordinator first ends its term, so that the API server refuses everything
that the instance may still send, and then writes a map without it. An instance whose Lease is held again is added.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from rota.api import errors, times
from rota.client.elections import lease_claims
from rota.client.elections.elector import LEASES, PROMPT, Election, LeaderElector, LeadershipLost
from rota.client.elections.leader_writes import LeaderWrites
from rota.client.elections.lease_claims import Observation
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.scheduler.sharding import instance_objects
from rota.scheduler.sharding.instance_objects import INSTANCES, LEASE_NAMESPACE, SHARD_MAPS
from rota.scheduler.sharding.map_planning import REBALANCE_S, LiveScheduler, next_map
from rota.scheduler.sharding.shard_map import ShardMap

log = logs.get(__name__)

Object = Mapping[str, Any]

#: How often Leases are checked for expiry.
CHECK_S: Final = 0.1
#: How long the object of a dead instance stays, so that people can see it.
_KEEP_DEAD_S: Final = 300.0


class MapCoordinator:
    """A candidate for the coordination of one map."""

    def __init__(self, client: Client, shard_map: str, *, identity: str, clock: Clock, rng: Rng) -> None:
        self._name: Final = shard_map
        self._identity: Final = identity
        self._clock: Final = clock
        self._rng: Final = rng
        self._incumbent: Final = LeaderWrites()
        self._campaigning: Final = client
        self._client: Final = client.with_settings(term=self._incumbent.header)
        #: Leases of instances as they were last seen to change, by the name of the Lease.
        self._seen: Final[dict[str, Observation]] = {}
        self._leases: Final[dict[str, Object]] = {}
        self._balanced_at = clock.monotonic()
        self._changed: Final = asyncio.Event()
        self._instances: Informer[Object] | None = None
        self._maps: Informer[Object] | None = None

    def follow(self, instances: Informer[Object], maps: Informer[Object], leases: Informer[Object]) -> None:
        """Read the cluster from these informers, which others run."""
        self._instances, self._maps = instances, maps
        leases.add_handler(self._lease_changed)
        instances.add_handler(lambda *_: self._changed.set())
        maps.add_handler(lambda *_: self._changed.set())

    async def run(self) -> None:
        """Campaign, and coordinate while elected, until cancelled."""
        election = Election(
            name=instance_objects.coordinator_lease(self._name),
            namespace=LEASE_NAMESPACE,
            identity=self._identity,
            pace=PROMPT,
        )
        elector = LeaderElector(self._campaigning, election, clock=self._clock, rng=self._rng)
        while True:
            try:
                await self._incumbent.run(elector, self._coordinate)
            except LeadershipLost as lost:
                log.info("another scheduler coordinates the shard map", map=self._name, error=lost)

    def _lease_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is None:
            self._seen.pop(key.name, None)
            self._leases.pop(key.name, None)
        else:
            self._leases[key.name] = new
            self._seen[key.name] = lease_claims.observe(self._seen.get(key.name), new, self._clock.monotonic())
        self._changed.set()

    async def _coordinate(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._round()
            except (errors.ApiError, TransportError) as error:
                log.info("shard map not written; trying again", map=self._name, error=error)
            try:
                await self._clock.wait_for(self._changed.wait(), CHECK_S)
            except TimeoutError:
                continue
            # Changes come in groups; one round serves all of a group.
            await self._clock.sleep(CHECK_S / 10)

    async def _round(self) -> None:
        """Fence the instances that do not renew their Leases, and write the map if it changes."""
        assert self._instances is not None
        assert self._maps is not None
        now = self._clock.monotonic()
        known = self._maps.cache.get(self._name)
        present = instance_objects.read_map(known)
        mine = [one for one in self._instances.cache.values() if self._is_ours(one)]
        live = [one for one in map(self._live, mine) if one is not None]
        names = {one.name for one in live}
        for member in present.members:
            if member.name not in names:
                await self._fence(member.name)
        balances = now >= self._balanced_at + REBALANCE_S
        if balances:
            self._balanced_at = now
        together = instance_objects.wanted_together(known)
        following = next_map(present, live, together=together, may_balance=balances)
        if following is not None:
            await self._write(known, following)
        await self._remove_dead(mine, names)

    def _is_ours(self, obj: Object) -> bool:
        return instance_objects.settings_of(obj).shard_of == self._name

    def _live(self, obj: Object) -> LiveScheduler | None:
        settings = instance_objects.settings_of(obj)
        seen = self._seen.get(instance_objects.lease_name(settings.name))
        if seen is None or not seen.valid(self._clock.monotonic()):
            return None
        return LiveScheduler(
            name=settings.name,
            term=seen.transitions,
            weight=settings.weight,
            selector=settings.selector,
            queued=instance_objects.queued(obj),
        )

    async def _fence(self, name: str) -> None:
        """End the term of an instance, unless it has no holder already: from here on its writes are refused."""
        lease = self._leases.get(instance_objects.lease_name(name))
        if lease is None or not (lease.get("spec") or {}).get("holderIdentity"):
            return
        spec = dict(lease["spec"])
        spec["holderIdentity"] = ""
        spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        # With the resourceVersion that was seen: if the instance renewed meanwhile, this is a conflict.
        await self._client.update(LEASES, {**lease, "spec": spec})
        log.warning("scheduler does not renew its lease; its pods go to others", instance=name)

    async def _write(self, known: Object | None, following: ShardMap) -> None:
        obj = known or await self._client.create(SHARD_MAPS, instance_objects.new_map(self._name))
        status = instance_objects.map_status(following, now=self._clock.now())
        await self._client.update(SHARD_MAPS, {**obj, "status": status}, subresource="status")
        log.info("shard map", map=self._name, epoch=following.epoch, members=[one.name for one in following.members])
        # The informer's answer comes later; until then the same map must not be written again.
        await self._seen_epoch(following.epoch)

    async def _seen_epoch(self, epoch: int) -> None:
        assert self._maps is not None
        until = self._clock.monotonic() + 1.0
        while instance_objects.read_map(self._maps.cache.get(self._name)).epoch < epoch:
            if self._clock.monotonic() >= until:
                return
            await self._clock.sleep(CHECK_S / 10)

    async def _remove_dead(self, instances: list[Object], live: set[str]) -> None:
        """Remove the objects of instances that ended long ago."""
        for obj in instances:
            name = obj["metadata"]["name"]
            told = (obj.get("status") or {}).get("heartbeatTime") or obj["metadata"].get("creationTimestamp")
            if name in live or not told or self._clock.now() - times.parse(told) < _KEEP_DEAD_S:
                continue
            await self._client.delete(INSTANCES, name)
            lease = instance_objects.lease_name(name)
            if lease in self._leases:
                await self._client.delete(LEASES, lease, namespace=LEASE_NAMESPACE)
