"""Reads the measured usage of nodes at intervals, while the configuration has a plugin that decides by it.

The source is metrics.k8s.io, or a Prometheus with the metrics of cAdvisor, as the configuration says. A pass waits for
new figures for a moment only: a source that hangs must not stop decisions.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import aiohttp

from rota.api import errors, times
from rota.client import prometheus_samples
from rota.client.prometheus_queries import PrometheusQueries
from rota.client.prometheus_samples import AnswerError
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.columns.objects import MalformedObjectError
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.batch import node_usage, objects
from rota.scheduler.batch.conf import BatchConfiguration, MetricsSource
from rota.scheduler.batch.node_usage import NodeUsage
from rota.scheduler.batch_profile.kinds import NODE_METRICS

log = logs.get(__name__)

#: The plugins that decide by measured usage.
PLUGINS: Final = ("usage", "rescheduling")
#: How long a pass waits for new figures; those that come later count from the next pass on.
_PATIENCE_S: Final = 2.0


class UsageReader:
    """The last figures that the source gave."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self.usage: dict[str, NodeUsage] = {}

    def due(self, configuration: BatchConfiguration) -> bool:
        """Whether figures are needed and older than the interval, and none are under way."""
        if not configuration.uses(*PLUGINS) or (self._reading is not None and not self._reading.done()):
            return False
        return self._clock.monotonic() - self._read_at >= configuration.metrics.interval_s

    async def refresh(self, source: MetricsSource) -> None:
        """Begin to read new figures, and wait for them for a moment."""
        self._reading = asyncio.ensure_future(self.read(source))
        try:
            await self._clock.wait_for(asyncio.shield(self._reading), _PATIENCE_S)
        except TimeoutError:
            log.info("usage of nodes takes long to read; decisions go on with the figures there are")

    async def close(self) -> None:
        """Give up a reading that has not ended."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    async def read(self, source: MetricsSource) -> None:
        """Read new figures; without metrics the old ones stay until they are too old to be used."""
        self._read_at = self._clock.monotonic()
        try:
            found = await (self._ask(source) if source.address else self._list())
            for each in found:
                objects.check("nodeMetrics", each, f"metrics of node {each['metadata']['name']}")
        except (errors.ApiError, TransportError, MalformedObjectError, AnswerError) as error:
            log.warning("usage of nodes cannot be read", error=error)
            return
        self.usage = node_usage.of_documents(found)

    async def _list(self) -> Sequence[Any]:
        return (await self._client.list(NODE_METRICS)).items

    async def _ask(self, source: MetricsSource) -> Sequence[Any]:
        """Ask the Prometheus; an instant query answers with figures of now."""
        now = times.format_time(self._clock.now())
        async with aiohttp.ClientSession() as session:
            prometheus = PrometheusQueries(session, source.address)
            queries = prometheus_samples.node_queries(source.node_label, source.interval_s)
            found = {resource: await prometheus.vector(query) for resource, query in queries.items()}
        measured = prometheus_samples.node_metrics(source.node_label, found)
        if any(found.values()) and not measured:
            raise AnswerError(f"samples have no label {source.node_label}; name the one of nodes in metrics.nodeLabel")
        # A node with one figure of two would seem to use nothing of the other resource.
        return [{**each, "timestamp": now} for each in measured if each["usage"].keys() == found.keys()]
