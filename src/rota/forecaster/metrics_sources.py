"""Where measurements come from: metrics.k8s.io, or a Prometheus. A source that does not answer measures nothing.

Forecasts of nodes that are not measured count by requests, so an outage of a source changes nothing suddenly.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp

from rota.api import errors
from rota.client import prometheus_samples
from rota.client.prometheus_queries import PrometheusQueries
from rota.client.verbs import Client
from rota.forecast.node_series import METRICS, PROMETHEUS
from rota.forecaster import kinds
from rota.kit import logs

log = logs.get(__name__)


class MetricsSource(Protocol):
    """Measures nodes and pods."""

    #: What NodeForecasts name as their source.
    name: str

    async def nodes(self) -> Sequence[Mapping[str, Any]]:
        """NodeMetrics of the nodes that were measured."""
        ...

    async def pods(self) -> Sequence[Mapping[str, Any]]:
        """PodMetrics of the pods that were measured."""
        ...


class ApiMetrics:
    """Reads metrics.k8s.io."""

    name = METRICS

    def __init__(self, client: Client) -> None:
        self._client: Final = client

    async def nodes(self) -> Sequence[Mapping[str, Any]]:
        """See `MetricsSource.nodes`."""
        return await self._list(kinds.NODE_METRICS)

    async def pods(self) -> Sequence[Mapping[str, Any]]:
        """See `MetricsSource.pods`."""
        return await self._list(kinds.POD_METRICS)

    async def _list(self, target: tuple[str, str, str]) -> Sequence[Mapping[str, Any]]:
        try:
            return (await self._client.list(target)).items
        except (errors.NotFound, errors.ServiceUnavailable) as error:
            log.warning("the API server has no metrics.k8s.io; forecasts count by requests", error=error)
            return ()


class PrometheusMetrics:
    """Asks a Prometheus for the metrics of cAdvisor."""

    name = PROMETHEUS

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        *,
        node_label: str = "node",
        every_s: float = 60.0,
        token_file: Path | None = None,
    ) -> None:
        """`node_label` is the label that names a sample's node; the token is read for each request."""
        self._queries: Final = PrometheusQueries(session, url, token_file=token_file)
        self._label: Final = node_label
        self._every_s: Final = every_s

    async def nodes(self) -> Sequence[Mapping[str, Any]]:
        """See `MetricsSource.nodes`."""
        found = await self._answers(prometheus_samples.node_queries(self._label, self._every_s))
        measured = prometheus_samples.node_metrics(self._label, found)
        if any(found.values()) and not measured:
            log.warning("samples of nodes do not have the label that names the node", label=self._label)
        return measured

    async def pods(self) -> Sequence[Mapping[str, Any]]:
        """See `MetricsSource.pods`."""
        return prometheus_samples.pod_metrics(await self._answers(prometheus_samples.pod_queries(self._every_s)))

    async def _answers(self, queries: Mapping[str, str]) -> dict[str, list[tuple[Mapping[str, str], float]]]:
        found = {}
        for resource, query in queries.items():
            try:
                found[resource] = await self._queries.vector(query)
            except prometheus_samples.AnswerError as error:
                url = self._queries.url
                log.warning("Prometheus gives no answer; forecasts count by requests", url=url, error=error)
        return found
