"""All loops of a federation's control plane, on one API server."""

from typing import Final, Protocol

from rota.api import errors, meta
from rota.client.elections.elector import STEADY, Election, LeaderElector, LeadershipLost
from rota.client.elections.leader_writes import LeaderWrites
from rota.client.verbs import Client
from rota.federation import kinds
from rota.federation.control.cluster_loop import EVERY_S, THRESHOLD_S, ClusterLoop, ensure_namespace
from rota.federation.control.detector import Detector
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
        gates: Gates = DEFAULT,
        every_s: float = EVERY_S,
        threshold_s: float = THRESHOLD_S,
        identity: str = "",
    ) -> None:
        """`identity` is this process's name among several on one store; without it there is no other."""
        self._client: Final = client
        self._clock: Final = clock
        self._rng: Final = rng
        self._gates: Final = gates
        self._every_s: Final = every_s
        self._threshold_s: Final = threshold_s
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
        loops: dict[str, _Loop] = {
            "clusters": ClusterLoop(client, clock=clock, rng=rng, every_s=self._every_s, threshold_s=self._threshold_s),
            "detector": Detector(client, types, self._gates, clock=clock, rng=rng),
            "scheduling": SchedulingLoop(client, self._gates, clock=clock, rng=rng),
            "works": WorksLoop(client, types, self._gates, clock=clock, rng=rng),
            "engines": Engines(client, clock=clock, rng=rng),
        }
        async with tasks.Supervisor("federation", clock=clock, rng=rng) as running:
            for name, loop in loops.items():
                running.start(name, loop.run)
            await running.wait()
