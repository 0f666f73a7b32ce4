"""Reads measurements once a minute, publishes the forecasts of nodes and the recommendations of
VerticalPodAutoscalers, and the figures of ClusterStates where no master does.

One process at a time works, by a Lease.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from rota.api import errors, meta
from rota.client import status_writes
from rota.client.elections.elector import STEADY, SYSTEM, Election, LeaderElector, LeadershipLost
from rota.client.informers import shared_decoding
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.paths import Target
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.forecast.fleet import DEFAULTS, FleetSettings
from rota.forecast.node_series import NodeSeries, workers_own
from rota.forecaster import autoscaler_webhook, checkpoints, kinds
from rota.forecaster.autoscaler_webhook import AutoscalerWebhook
from rota.forecaster.cluster_states import ClusterStateController
from rota.forecaster.metrics_sources import ApiMetrics, MetricsSource
from rota.forecaster.pod_updater import UNREACHED, PodUpdater
from rota.forecaster.vertical_autoscalers import NO_WEBHOOK, Recommender, is_target
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
#: How often histories are saved.
CHECKPOINTS_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Where the webhook for new pods answers."""

    address: tuple[str, int]
    tls: ssl.SSLContext | None
    #: The URL under which the API server reaches it and the CA of its certificate, to register it.
    registered: tuple[str, bytes] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusSettings:
    """The Prometheus that is asked instead of metrics.k8s.io."""

    url: str
    node_label: str = "node"
    token_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of an operator."""

    every_s: float = 60.0
    lease_namespace: str = SYSTEM
    fleet: FleetSettings = DEFAULTS
    #: Without it, modes of VerticalPodAutoscalers other than Off are not applied.
    webhook: WebhookSettings | None = None
    prometheus: PrometheusSettings | None = None


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
        source: MetricsSource | None = None,
    ) -> None:
        """`source` measures; without it, metrics.k8s.io does."""
        self._client: Final = client
        self._source: Final[MetricsSource] = source or ApiMetrics(client)
        self.metrics: Final = metrics or Metrics("forecaster")
        #: Whether the server leaves ClusterStates to this process.
        self._has_states = False
        self._settings: Final = settings
        self._clock: Final = clock
        self._rng: Final = rng
        self._autoscalers: Final = self._informer(kinds.AUTOSCALERS)
        self._ranges: Final = self._informer(kinds.LIMIT_RANGES)
        self.webhook: Final = AutoscalerWebhook(self._autoscalers, self._ranges, metrics=self.metrics)
        self._updater: Final = PodUpdater(client, clock=clock, metrics=self.metrics)
        #: Autoscalers whose new pods the webhook does not see.
        self._unreached: set[str] = set()
        self._saved_s = 0.0
        self._election: Final = Election(name=LEASE, namespace=settings.lease_namespace, identity=identity, pace=STEADY)

    async def install(self) -> None:
        """Define the kinds that the server does not know, and wait until it serves them."""
        for target, definition in (
            (kinds.FORECASTS, kinds.definition()),
            (kinds.AUTOSCALERS, kinds.autoscaler_definition()),
            (kinds.CHECKPOINTS, kinds.checkpoint_definition()),
            (kinds.CLUSTER_STATES, kinds.cluster_state_definition()),
        ):
            await self._define(target, definition)
        try:
            await self._client.get(kinds.DEFINITIONS, meta.name(kinds.cluster_state_definition()))
        except (errors.NotFound, errors.Forbidden):
            # The kind is built in: the server is a master of Rota, which writes the states itself. Or it is not known.
            self._has_states = False
        else:
            self._has_states = True

    async def _define(self, target: tuple[str, str, str], definition: dict[str, Any]) -> None:
        try:
            with contextlib.suppress(errors.NotFound):
                await self._client.list(target, limit=1)
                return
        except errors.Forbidden as error:
            # The check of permissions has said what is lost.
            log.warning("kind cannot be read", kind=target[2], error=error)
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

    def _informer(self, target: Target) -> Informer[Object]:
        source = Source(client=self._client, target=target)
        return Informer(source, decode=shared_decoding.shared, clock=self._clock, rng=self._rng, metrics=self.metrics)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Answer reviews of new pods while the block runs, and have the API server ask; yields the URL."""
        settings = self._settings.webhook
        if settings is None:
            yield ""
            return
        runner = web.AppRunner(self.webhook.application(), access_log=None)
        await runner.setup()
        try:
            host, port = settings.address
            await web.TCPSite(runner, host, port, ssl_context=settings.tls).start()
            # Before it knows the autoscalers it would let their pods pass.
            await self._autoscalers.wait_synced()
            await self._ranges.wait_synced()
            if settings.registered is not None:
                made = autoscaler_webhook.configuration(*settings.registered)
                await self._client.apply(autoscaler_webhook.MUTATING, made, field_manager=LEASE, force=True)
            yield f"{'https' if settings.tls is not None else 'http'}://{host}:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def run(self) -> None:
        """Follow what the webhook answers from, and work while this process leads, until cancelled."""
        async with tasks.Supervisor("forecaster", clock=self._clock, rng=self._rng) as running:
            if self._settings.webhook is not None:
                running.start("autoscalers", self._autoscalers.run)
                running.start("limit ranges", self._ranges.run)
            running.start("election", self._campaign)
            await running.wait()

    async def _campaign(self) -> None:
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
        series, recommender = NodeSeries(self._settings.fleet, source=self._source.name), Recommender()
        has_histories = False
        while True:
            try:
                await self.step(series)
                if not has_histories:
                    await self.restore(recommender)
                    has_histories = True
                await self.recommend(recommender)
                await self.save(recommender)
            except (errors.ApiError, TransportError, ArithmeticError, ValueError) as error:
                # Also figures that cannot be understood: hours of history would be lost with this task.
                log.warning("usage of nodes cannot be read", error=error)
            await self._clock.sleep(self._settings.every_s)

    async def step(self, series: NodeSeries) -> int:
        """Measure once, and publish what is due; returns the number of objects written."""
        nodes = (await self._client.list(kinds.NODES)).items
        pods = (await self._client.list(kinds.PODS)).items
        measured = await self._source.nodes()
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
        measured = await self._source.pods()
        now = self._clock.now()
        recommender.add(autoscalers, pods, measured, now)
        written, present = 0, []
        for each in autoscalers:
            matched = any(is_target(each, pod) for pod in pods)
            unapplied = UNREACHED if meta.uid(each) in self._unreached else ""
            if self._settings.webhook is None:
                unapplied = NO_WEBHOOK
            try:
                status = recommender.status(each, matched=matched, now_s=now, unapplied=unapplied)
            except ValueError as error:
                # The bounds of its policy are no amounts; that concerns this object only.
                log.warning("autoscaler cannot be served", autoscaler=meta.qualified_name(each), error=error)
                continue
            present.append({**each, "status": status})
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
        if self._settings.webhook is not None:
            ranges = (await self._client.list(kinds.LIMIT_RANGES)).items
            self._unreached = await self._updater.turn(present, pods, ranges)
        return written

    async def restore(self, recommender: Recommender) -> None:
        """Take the histories that a former process has left."""
        try:
            found = (await self._client.list(kinds.CHECKPOINTS)).items
        except (errors.Forbidden, errors.NotFound) as error:
            log.warning("histories begin anew: there are no checkpoints to read", error=error)
            found = []
        for each in (await self._client.list(kinds.AUTOSCALERS)).items if found else ():
            recommender.restore(each, found)
        self._saved_s = self._clock.now()

    async def save(self, recommender: Recommender, *, at_once: bool = False) -> int:
        """Write the histories for a next process if it is time; returns the number of objects."""
        now = self._clock.now()
        if now - self._saved_s < CHECKPOINTS_S and not at_once:
            return 0
        self._saved_s = now
        autoscalers = (await self._client.list(kinds.AUTOSCALERS)).items
        documents = [document for each in autoscalers for document in recommender.checkpoints(each, now)]
        gate = asyncio.Semaphore(_WRITES)
        saved = sum(await asyncio.gather(*(self._save(gate, document) for document in documents)))
        await self._collect(autoscalers, {(meta.namespace(each), meta.name(each)) for each in documents}, now)
        return saved

    async def _collect(self, autoscalers: Sequence[Object], written: set[tuple[str, str]], now: float) -> None:
        """Delete checkpoints that nothing will read any more."""
        try:
            for each in (await self._client.list(kinds.CHECKPOINTS)).items:
                if checkpoints.is_stale(each, autoscalers, written, now):
                    with contextlib.suppress(errors.NotFound):
                        await self._client.delete(kinds.CHECKPOINTS, meta.name(each), namespace=meta.namespace(each))
        except (errors.Forbidden, errors.NotFound) as error:
            log.warning("old checkpoints cannot be deleted", error=error)

    async def _save(self, gate: asyncio.Semaphore, document: dict[str, Any]) -> bool:
        name, namespace = meta.name(document), meta.namespace(document)
        async with gate:
            try:
                try:
                    present = await self._client.get(kinds.CHECKPOINTS, name, namespace=namespace)
                except errors.NotFound:
                    await self._client.create(kinds.CHECKPOINTS, document, namespace=namespace)
                else:
                    # A whole update: a patch would keep buckets that are empty now.
                    version = {"resourceVersion": meta.metadata(present)["resourceVersion"]}
                    metadata = {**document["metadata"], **version}
                    await self._client.update(kinds.CHECKPOINTS, {**document, "metadata": metadata})
            except (errors.ApiError, TransportError) as error:
                log.warning("history cannot be written", checkpoint=f"{namespace}/{name}", error=error)
                return False
        return True

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
