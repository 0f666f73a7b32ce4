"""Reads the measured usage of nodes at intervals, while the configuration has a plugin that decides by it."""

from typing import Final

from rota.api import errors
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client
from rota.columns.objects import MalformedObjectError
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.batch import node_usage, objects
from rota.scheduler.batch.conf import BatchConfiguration
from rota.scheduler.batch.node_usage import NodeUsage
from rota.scheduler.batch_profile.kinds import NODE_METRICS

log = logs.get(__name__)

#: The plugins that decide by measured usage.
PLUGINS: Final = ("usage", "rescheduling")


class UsageReader:
    """The last figures that metrics.k8s.io gave."""

    def __init__(self, client: Client, *, clock: Clock) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._read_at = float("-inf")
        self.usage: dict[str, NodeUsage] = {}

    def due(self, configuration: BatchConfiguration) -> bool:
        """Whether figures are needed and older than the interval."""
        if not configuration.uses(*PLUGINS):
            return False
        return self._clock.monotonic() - self._read_at >= configuration.metrics_s

    async def read(self) -> None:
        """Read new figures; without metrics the old ones stay until they are too old to be used."""
        self._read_at = self._clock.monotonic()
        try:
            found = (await self._client.list(NODE_METRICS)).items
            for each in found:
                objects.check("nodeMetrics", each, f"metrics of node {each['metadata']['name']}")
        except (errors.ApiError, TransportError, MalformedObjectError) as error:
            log.warning("usage of nodes cannot be read", error=error)
            return
        self.usage = node_usage.of_documents(found)
