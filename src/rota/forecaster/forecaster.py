"""Reads metrics.k8s.io once a minute, publishes the forecasts of nodes and the recommendations of
VerticalPodAutoscalers, and the figures of ClusterStates where no master does.

One process at a time works, by a Lease.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, meta
from rota.client import status_writes
from rota.client.elections.elector import STEADY, SYSTEM, Election, LeaderElector, LeadershipLost
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.forecast.fleet import DEFAULTS, FleetSettings
from rota.forecast.node_series import NodeSeries, workers_own
from rota.forecaster import kinds
from rota.forecaster.cluster_states import ClusterStateController
from rota.forecaster.vertical_autoscalers import Recommender, is_target
from rota.kit import logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

log = logs.get(__name__)

LEASE: Final = "rota-forecaster"
_ESTABLISHED_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.2
#: Concurrent writes of forecasts.
_WRITES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of an operator."""

    every_s: float = 60.0
    lease_namespace: str = SYSTEM
    fleet: FleetSettings = DEFAULTS


class Forecaster:
    """Follows the usage of a cluster's nodes."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        *,
        clock: Clock,
        rng: Rng,
        identity: str,
        metrics: Metrics | None = None,
    ) -> None:
        self._client: Final = client
        self.metrics: Final = metrics or Metrics("forecaster")
        #: Whether the server leaves ClusterStates to this process.
        self._has_states = False
        self._settings: Final = settings
        self._clock: Final = clock
        self._rng: Final = rng
        self._election: Final = Election(name=LEASE, namespace=settings.lease_namespace, identity=identity, pace=STEADY)

    async def install(self) -> None:
        """Define the kinds that the server does not know, and wait until it serves them."""
        for target, definition in (
            (kinds.FORECASTS, kinds.definition()),
            (kinds.AUTOSCALERS, kinds.autoscaler_definition()),
            (kinds.CLUSTER_STATES, kinds.cluster_state_definition()),
        ):
            await self._define(target, definition)
        try:
            await self._client.get(kinds.DEFINITIONS, meta.name(kinds.cluster_state_definition()))
        except errors.NotFound:
            # The kind is built in: the server is a master of Rota, which writes the states itself.
            self._has_states = False
        else:
            self._has_states = True

    async def _define(self, target: tuple[str, str, str], definition: dict[str, Any]) -> None:
        with contextlib.suppress(errors.NotFound):
            await self._client.list(target, limit=1)
            return
        with contextlib.suppress(errors.AlreadyExists):
            await self._client.create(kinds.DEFINITIONS, definition)
        deadline = self._clock.monotonic() + _ESTABLISHED_S
        while not meta.is_condition_true(
            await self._client.get(kinds.DEFINITIONS, meta.name(definition)), "Established"
        ):
            if self._clock.monotonic() > deadline:
                raise errors.ServiceUnavailable(f"{meta.name(definition)} is not established")
            await self._clock.sleep(_LOOK_AGAIN_S)

    async def run(self) -> None:
        """Work while this process leads, until cancelled."""
        while True:
            elector = LeaderElector(self._client, self._election, clock=self._clock, rng=self._rng)
            try:
                await elector.run(self._work)
            except LeadershipLost as error:
                log.warning("another process leads now", error=str(error))

    async def _work(self, *_: object) -> None:
        async with tasks.Supervisor("forecaster", clock=self._clock, rng=self._rng) as running:
            running.start("forecasts", self._forecast)
            if self._has_states:
                states = ClusterStateController(
                    self._client, clock=self._clock, rng=self._rng, metrics=self.metrics.beside("cluster_state")
                )
                running.start("cluster states", states.run)
            await running.wait()

    async def _forecast(self) -> None:
        series, recommender = NodeSeries(self._settings.fleet), Recommender()
        while True:
            try:
                await self.step(series)
                await self.recommend(recommender)
            except (errors.ApiError, TransportError) as error:
                log.warning("usage of nodes cannot be read", error=error)
            await self._clock.sleep(self._settings.every_s)

    async def step(self, series: NodeSeries) -> int:
        """Measure once, and publish what is due; returns the number of objects written."""
        nodes = (await self._client.list(kinds.NODES)).items
        pods = (await self._client.list(kinds.PODS)).items
        try:
            measured = (await self._client.list(kinds.NODE_METRICS)).items
        except (errors.NotFound, errors.ServiceUnavailable) as error:
            log.warning("the API server has no metrics.k8s.io; forecasts count by requests", error=error)
            measured = []
        now = self._clock.now()
        present = (await self._client.list(kinds.FORECASTS)).items
        # A worker knows its node better: it tells batch pods apart.
        others = workers_own(present, now)
        series.add([node for node in nodes if meta.name(node) not in others], pods, measured, now)
        gate = asyncio.Semaphore(_WRITES)
        written = await asyncio.gather(*(self._publish(gate, series, each) for each in series.due(now)))
        await self._remove(present, {meta.name(node) for node in nodes})
        return sum(written)

    async def recommend(self, recommender: Recommender) -> int:
        """Measure the pods of autoscaled workloads, and publish recommendations; returns the number of writes."""
        autoscalers = (await self._client.list(kinds.AUTOSCALERS)).items
        if not autoscalers:
            return 0
        pods = (await self._client.list(kinds.PODS)).items
        try:
            measured = (await self._client.list(kinds.POD_METRICS)).items
        except (errors.NotFound, errors.ServiceUnavailable) as error:
            log.warning("the API server has no metrics.k8s.io; nothing is recommended", error=error)
            measured = []
        now = self._clock.now()
        recommender.add(autoscalers, pods, measured, now)
        written = 0
        for each in autoscalers:
            matched = any(is_target(each, pod) for pod in pods)
            status = recommender.status(each, matched=matched, now_s=now)
            if status == each.get("status"):
                continue
            try:
                await self._client.patch(
                    kinds.AUTOSCALERS,
                    meta.name(each),
                    {"status": status},
                    namespace=meta.namespace(each),
                    subresource="status",
                )
                written += 1
            except (errors.ApiError, TransportError) as error:
                log.warning("recommendation cannot be written", autoscaler=meta.qualified_name(each), error=error)
        return written

    async def _publish(self, gate: asyncio.Semaphore, series: NodeSeries, document: dict[str, Any]) -> bool:
        name = meta.name(document)
        async with gate:
            try:
                await status_writes.put_status(self._client, kinds.FORECASTS, document)
            except (errors.ApiError, TransportError) as error:
                log.warning("forecast cannot be written", node=name, error=error)
                series.unpublished(name)
                return False
        return True

    async def _remove(self, present: Sequence[Mapping[str, Any]], nodes: set[str]) -> None:
        """Delete the forecasts of nodes that are gone."""
        for each in present:
            if meta.name(each) not in nodes:
                with contextlib.suppress(errors.NotFound):
                    await self._client.delete(kinds.FORECASTS, meta.name(each))
