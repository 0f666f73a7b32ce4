"""Where measurements come from: metrics.k8s.io, or a Prometheus. A source that does not answer measures nothing.

Forecasts of nodes that are not measured count by requests, so an outage of a source changes nothing suddenly.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp
import msgspec

from rota.api import errors
from rota.client.verbs import Client
from rota.forecast.node_series import METRICS, PROMETHEUS
from rota.forecaster import kinds, prometheus_samples
from rota.kit import logs

log = logs.get(__name__)

_ANSWER_S: Final = 30.0
_MOST_BYTES: Final = 256 * 2**20
_OK: Final = 200


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
        self._session: Final = session
        self._url: Final = f"{url.rstrip('/')}/api/v1/query"
        self._label: Final = node_label
        self._every_s: Final = every_s
        self._token_file: Final = token_file

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
                found[resource] = prometheus_samples.vector(await self._answer(query))
            except (aiohttp.ClientError, TimeoutError, OSError, prometheus_samples.AnswerError) as error:
                log.warning("Prometheus gives no answer; forecasts count by requests", url=self._url, error=error)
        return found

    async def _answer(self, query: str) -> Any:
        headers = {}
        if self._token_file is not None:
            headers["Authorization"] = f"Bearer {self._token_file.read_text().strip()}"
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
        async with self._session.post(self._url, data={"query": query}, headers=headers, timeout=timeout) as answer:
            body = await _read(answer)
            if answer.status != _OK:
                raise prometheus_samples.AnswerError(f"HTTP {answer.status}: {body[:200].decode(errors='replace')}")
        try:
            return msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise prometheus_samples.AnswerError(str(error)) from None


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """The whole body; a stream gives no more at a time than has arrived."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise prometheus_samples.AnswerError(f"the answer has more than {_MOST_BYTES} bytes")
    return bytes(body)
