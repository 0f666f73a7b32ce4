"""The spot controller as its own process: leader election, and diagnostics pages.

Every term starts with a new controller, whose only state is the cluster's.
"""

from collections.abc import Mapping
from typing import Final

from rota.client.elections.elector import STEADY, SYSTEM, Election, LeaderElector, LeadershipLost
from rota.client.elections.leader_writes import LeaderWrites
from rota.client.verbs import Client
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.scheduler.framework.runtime import Framework
from rota.spot.node_signals import NodeSignals
from rota.spot.return_policy import USUAL, Settings
from rota.spot_control.controller import SpotController

log = logs.get(__name__)

LEASE: Final = "rota-spot-controller"


class SpotControl:
    """One candidate; a dry run, which changes nothing, needs no leadership."""

    def __init__(
        self,
        client: Client,
        frameworks: Mapping[str, Framework],
        marks: NodeSignals,
        *,
        clock: Clock,
        rng: Rng,
        identity: str,
        lease_namespace: str = SYSTEM,
        back: Settings = USUAL,
        dry_run: bool = False,
    ) -> None:
        self._client: Final = client
        self._frameworks: Final = frameworks
        self._marks: Final = marks
        self._clock: Final = clock
        self._rng: Final = rng
        self._dry_run: Final = dry_run
        self._namespace: Final = lease_namespace
        self._back: Final = back
        self._election: Final = Election(name=LEASE, namespace=lease_namespace, identity=identity, pace=STEADY)
        self._incumbent: Final = LeaderWrites()
        self.metrics: Final = Metrics("spot", process=True)
        self._leads: Final = self.metrics.gauge("leads", "1 if this process acts on notices, 0 if it stands by.")

    async def run(self) -> None:
        """Act on notices whenever this process leads, until cancelled."""
        if self._dry_run:
            await self._lead()
            return
        elector = LeaderElector(self._client, self._election, clock=self._clock, rng=self._rng)
        while True:
            try:
                await self._incumbent.run(elector, self._lead)
            except LeadershipLost as lost:
                log.warning("another spot controller leads", error=lost)

    async def _lead(self) -> None:
        controller = SpotController(
            # Writes carry the fence of the term, and are refused when another process leads.
            self._client.with_settings(term=self._incumbent.header),
            self._frameworks,
            clock=self._clock,
            rng=self._rng,
            marks=self._marks,
            metrics=self.metrics,
            namespace=self._namespace,
            back=self._back,
            dry_run=self._dry_run,
        )
        self._leads.set(1)
        try:
            await controller.run()
        finally:
            self._leads.set(0)
