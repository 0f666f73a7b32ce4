"""One of several schedulers: it holds its own Lease, follows the shard map, and reports itself.

While it holds the Lease, it obeys every new map at once, acknowledges it when no lost pod is still being bound, and
takes its gains when all members have acknowledged (`ownership`). Without the Lease it decides nothing. Its bindings
carry the term of the Lease, so the API server refuses those that arrive after the coordinator has ended the term.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from rota.api import errors
from rota.client.elections.elector import LEASES, PROMPT, Election
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.tasks import Supervisor
from rota.scheduler.sharding import instance_objects
from rota.scheduler.sharding.instance_objects import (
    INSTANCES,
    LEASE_NAMESPACE,
    SHARD_MAPS,
    InstanceReport,
    InstanceSettings,
)
from rota.scheduler.sharding.map_coordinator import MapCoordinator
from rota.scheduler.sharding.node_knowledge import Choices
from rota.scheduler.sharding.ownership import Ownership
from rota.scheduler.sharding.reading_turn import ReadingTurn
from rota.scheduler.sharding.shard_map import ShardMap

log = logs.get(__name__)

Object = Mapping[str, Any]
#: How often a scheduler reports itself, besides acknowledgements.
REPORT_S: Final = 2.0
#: How often the attempts of lost pods are looked at until they have ended.
_ENDING_S: Final = 0.01


class Figures(msgspec.Struct, kw_only=True):
    """Totals of a scheduler, for its report."""

    queued: int
    bound: int
    conflicts: int
    decided: int


class ShardMember:
    """The membership of one scheduler in a shard map."""

    def __init__(
        self, client: Client, fenced: Client, settings: InstanceSettings, *, identity: str, clock: Clock, rng: Rng
    ) -> None:
        """`fenced` is the same client with the term of this instance's Lease; reports are written with it."""
        self.settings: Final = settings
        self.ownership: Final = Ownership(settings.name)
        #: Called after each change of what this scheduler owns; returns how many lost pods are still being bound.
        self.reassign: Callable[[], int] = lambda: 0
        #: Called when the operator has chosen another criterion or synchronisation.
        self.choose: Callable[[], None] = lambda: None
        self.choices = Choices()
        self.figures: Callable[[], Figures] = lambda: Figures(queued=0, bound=0, conflicts=0, decided=0)
        self._client: Final = client
        self._fenced: Final = fenced
        self._identity: Final = identity
        self._clock: Final = clock
        self._rng: Final = rng
        self._maps: Final = self._informer(SHARD_MAPS)
        self._instances: Final = self._informer(INSTANCES)
        self._leases: Final = self._informer(LEASES, LEASE_NAMESPACE)
        self._coordinator: Final = MapCoordinator(client, settings.shard_of, identity=identity, clock=clock, rng=rng)
        self._coordinator.follow(self._instances, self._maps, self._leases)
        self._turn: Final = ReadingTurn(client, settings.shard_of, identity=identity, clock=clock, rng=rng)
        self._turn.follow(self._instances, self._leases)
        self._changed: Final = asyncio.Event()
        self._maps.add_handler(lambda *_: self._changed.set())
        self._instances.add_handler(lambda *_: self._changed.set())
        self._acknowledged = 0
        self._before: tuple[float, float, int] | None = None
        self._rates = (0.0, 0.0)

    def _informer(self, target: tuple[str, str, str], namespace: str = "") -> Informer[Object]:
        source = Source(client=self._client, target=target, namespace=namespace)
        return Informer(source, decode=msgspec.json.decode, clock=self._clock, rng=self._rng)

    @property
    def election(self) -> Election:
        """The election of this instance: it competes only with processes of the same name."""
        return Election(
            name=instance_objects.lease_name(self.settings.name),
            namespace=LEASE_NAMESPACE,
            identity=self._identity,
            pace=PROMPT,
        )

    @property
    def active(self) -> bool:
        """Whether it is a member of the newest map and has all its pods."""
        newest = self.ownership.current
        return self.ownership.settled and any(one.name == self.settings.name for one in newest.members)

    @property
    def share(self) -> tuple[int, int]:
        """Its position among the members of the newest map, and their number."""
        names = [one.name for one in self.ownership.current.members]
        return (names.index(self.settings.name), len(names)) if self.settings.name in names else (0, 1)

    def start(self, supervisor: Supervisor) -> None:
        """Follow the map and stand for its coordination, whether or not this process holds its Lease."""
        supervisor.start("shard maps", self._maps.run)
        supervisor.start("scheduler instances", self._instances.run)
        supervisor.start("shard leases", self._leases.run)
        supervisor.start("shard map coordinator", self._coordinator.run)
        supervisor.start("turn to read", self._turn.run)

    async def wait_for_turn(self) -> None:
        """Wait until this scheduler may read the cluster: while none of the map decides pods, one reads first."""
        await self._turn.wait()

    async def run(self) -> None:
        """Be a member, while this process holds the Lease, until cancelled."""
        self._turn.end()
        try:
            await self._maps.wait_synced()
            await self._instances.wait_synced()
            await self._register()
            reporting = asyncio.ensure_future(self._report_always())
            try:
                while True:
                    self._changed.clear()
                    await self._obey()
                    await self._changed.wait()
            finally:
                reporting.cancel()
        finally:
            self.ownership.reset()
            self._acknowledged = 0
            self.reassign()

    async def _register(self) -> None:
        obj = instance_objects.instance(self.settings)
        while True:
            try:
                found = await self._fenced.get(INSTANCES, self.settings.name)
            except errors.NotFound:
                await self._fenced.create(INSTANCES, obj)
                return
            if found.get("spec") == obj["spec"]:
                return
            try:
                await self._fenced.update(INSTANCES, {**found, "spec": obj["spec"]})
            except errors.Conflict:
                continue
            return

    async def _obey(self) -> None:
        """Follow the newest map as far as the other members have."""
        known = self._maps.cache.get(self.settings.shard_of)
        newest = instance_objects.read_map(known)
        choices = instance_objects.choices(known, self.settings)
        if choices != self.choices:
            self.choices = choices
            self.choose()
            log.info("shard choices", criterion=choices.criterion.value, synchronisation=choices.synchronisation.value)
        if self.ownership.take(newest):
            while self.reassign():
                await self._clock.sleep(_ENDING_S)
        await self._acknowledge(newest)
        told = {one["metadata"]["name"]: instance_objects.acknowledged(one) for one in self._instances.cache.values()}
        if self.ownership.settle(told):
            self.reassign()
            log.info("shard", map=self.settings.shard_of, epoch=newest.epoch, members=len(newest.members))

    async def _acknowledge(self, newest: ShardMap) -> None:
        if newest.epoch == self._acknowledged:
            return
        while not await self._write_report(newest.epoch):
            await self._clock.sleep(_ENDING_S * 10)
        self._acknowledged = newest.epoch

    async def _report_always(self) -> None:
        while True:
            await self._clock.sleep(REPORT_S)
            await self._write_report(self._acknowledged)

    async def _write_report(self, epoch: int) -> bool:
        figures = self.figures()
        decisions, load = self._measure(figures.decided)
        report = InstanceReport(
            epoch=epoch,
            active=self.active,
            queued=figures.queued,
            bound=figures.bound,
            conflicts=figures.conflicts,
            decisions_per_second=decisions,
            load=load,
        )
        patch = {"status": instance_objects.report_status(report, now=self._clock.now())}
        try:
            await self._fenced.patch(INSTANCES, self.settings.name, patch, subresource="status")
        except (errors.ApiError, TransportError) as error:
            log.info("scheduler instance not reported", error=error)
            if isinstance(error, errors.NotFound):
                await self._register()
            return False
        return True

    def _measure(self, decided: int) -> tuple[float, float]:
        """Decisions per second and processor time per second since the last report."""
        now, spent = self._clock.monotonic(), time.process_time()
        if self._before is None:
            self._before = (now, spent, decided)
        passed = now - self._before[0]
        if passed >= REPORT_S / 2:
            self._rates = (decided - self._before[2]) / passed, (spent - self._before[1]) / passed
            self._before = (now, spent, decided)
        return self._rates


def instance_name(text: str, *, fallback: str = "") -> str:
    """A text as an object name: lower case, only letters, digits and dashes."""
    name = "".join(one if one.isascii() and one.isalnum() else "-" for one in text.lower()).strip("-")
    return name or fallback or f"scheduler-{os.getpid()}"
