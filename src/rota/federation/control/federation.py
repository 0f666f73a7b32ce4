"""All loops of a federation's control plane, on one API server."""

from dataclasses import dataclass
from typing import Final, Protocol

from rota.api import errors, meta
from rota.client.elections.elector import STEADY, Election, LeaderElector, LeadershipLost
from rota.client.elections.leader_writes import LeaderWrites
from rota.client.verbs import Client
from rota.federation import kinds
from rota.federation.control.cluster_loop import EVERY_S, THRESHOLD_S, ClusterLoop, ensure_namespace
from rota.federation.control.detector import Detector
from rota.federation.control.eviction_loop import TIMEOUT_S, EvictionLoop
from rota.federation.control.execution import Engines
from rota.federation.control.scheduler_loop import SchedulingLoop
from rota.federation.control.types import Types
from rota.federation.control.works_loop import WorksLoop
from rota.federation.gates import DEFAULT, Gates
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

LEASE: Final = "rota-federation"
_ESTABLISHED_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator decides about a federation."""

    #: How often members are asked how they are.
    every_s: float = EVERY_S
    #: For how long a member must be well or ill before that counts.
    threshold_s: float = THRESHOLD_S
    #: Whether bindings leave clusters with NoExecute taints that they do not tolerate.
    evict_tainted: bool = False
    #: How long a graceful eviction may take where its policy says nothing.
    eviction_timeout_s: float = TIMEOUT_S
    gates: Gates = DEFAULT


class _Loop(Protocol):
    async def run(self) -> None: ...


async def install(client: Client, *, clock: Clock) -> None:
    """Have the server serve the kinds of a federation, and wait until it does."""
    for definition in kinds.definitions():
        await client.apply(kinds.DEFINITIONS, definition, field_manager="rota-federation", force=True)
    deadline = clock.monotonic() + _ESTABLISHED_S
    for definition in kinds.definitions():
        while True:
            present = await client.get(kinds.DEFINITIONS, meta.name(definition))
            if meta.is_condition_true(present, "Established"):
                break
            if clock.monotonic() > deadline:
                raise errors.ServiceUnavailable(f"{meta.name(definition)} is not established")
            await clock.sleep(_LOOK_AGAIN_S)
    await ensure_namespace(client, kinds.CLUSTER_NAMESPACE)


class Federation:
    """The loops, each restarted on its own if it fails."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        settings: Settings,
        identity: str = "",
    ) -> None:
        """`identity` is this process's name among several on one store; without it there is no other."""
        self._client: Final = client
        self._clock: Final = clock
        self._rng: Final = rng
        self._settings: Final = settings
        self._identity: Final = identity

    async def run(self) -> None:
        """Work until cancelled, if others share the store only while this process leads."""
        if not self._identity:
            await self._work(self._client)
            return
        election = Election(name=LEASE, identity=self._identity, pace=STEADY)
        incumbent = LeaderWrites()
        leading = self._client.with_settings(term=incumbent.header)
        while True:
            elector = LeaderElector(self._client, election, clock=self._clock, rng=self._rng)
            try:
                await incumbent.run(elector, lambda: self._work(leading))
            except LeadershipLost as error:
                log.warning("another leads the federation now", error=str(error))

    async def _work(self, client: Client) -> None:
        await install(client, clock=self._clock)
        clock, rng = self._clock, self._rng
        types = Types(client)
        settings, gates = self._settings, self._settings.gates
        loops: dict[str, _Loop] = {
            "clusters": ClusterLoop(
                client, clock=clock, rng=rng, every_s=settings.every_s, threshold_s=settings.threshold_s
            ),
            "detector": Detector(client, types, gates, clock=clock, rng=rng),
            "scheduling": SchedulingLoop(client, gates, clock=clock, rng=rng),
            "works": WorksLoop(client, types, gates, clock=clock, rng=rng),
            "evictions": EvictionLoop(
                client,
                gates,
                clock=clock,
                rng=rng,
                by_taints=settings.evict_tainted,
                timeout_s=settings.eviction_timeout_s,
            ),
            "engines": Engines(client, clock=clock, rng=rng),
        }
        async with tasks.Supervisor("federation", clock=clock, rng=rng) as running:
            for name, loop in loops.items():
                running.start(name, loop.run)
            await running.wait()
