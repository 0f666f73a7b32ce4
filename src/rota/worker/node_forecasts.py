"""The forecast of a worker's own node: measured here, published as its NodeForecast.

The series are what the node uses apart from batch pods, because those yield. A worker that has only a share of its
machine counts its other pods instead of the machine.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from rota.api import errors, meta, reclaimed, resources
from rota.client import status_writes
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.forecast.fleet import FleetSettings
from rota.forecast.node_series import FORECASTS, WORKER, NodeSeries
from rota.kit import logs
from rota.kit.clock import Clock
from rota.worker.colocation.measurements import Measurements
from rota.worker.host_resources import HostResources
from rota.worker.node import NODES
from rota.worker.runtimes.runtime_interface import Runtime
from rota.worker.usage import Meter

log = logs.get(__name__)

EVERY_S: Final = 15.0
#: A server that does not know the kind, or does not let workers write it, is asked again after this time.
_REFUSED_S: Final = 600.0


class NodeForecasts:
    """Measures and publishes."""

    def __init__(
        self,
        client: Client,
        machine: HostResources,
        *,
        runtime: Callable[[], Runtime],
        pods: Callable[[], Iterable[Object]],
        share: float,
        folder: Path,
        settings: FleetSettings,
        clock: Clock,
    ) -> None:
        self._client: Final = client
        self._machine: Final = machine
        self._pods: Final = pods
        self._share: Final = share
        self._clock: Final = clock
        self._series: Final = NodeSeries(settings, source=WORKER, rows=1)
        self._measurements: Final = Measurements(lambda: runtime().batch_tier() if machine.sold else None, clock=clock)
        self._meter: Final = Meter(lambda: dict(runtime().places()), folder=folder, clock=clock)
        self._refused_until = -math.inf

    async def run(self) -> None:
        """Measure and publish until cancelled."""
        while True:
            try:
                self.measure()
            except OSError as problem:
                log.warning("the node cannot be measured", error=problem)
            await self.publish()
            await self._clock.sleep(EVERY_S)

    def measure(self) -> None:
        """Take one sample."""
        pods = list(self._pods())
        used = self._used_by_machine() if self._share >= 1 else self._used_by_pods(pods)
        node = {
            "metadata": {"name": self._machine.node},
            "status": {"allocatable": {name: _wire(name, n) for name, n in self._machine.allocatable.items()}},
        }
        measured = [] if used is None else [{"metadata": node["metadata"], "usage": used}]
        self._series.add([node], pods, measured, self._clock.now())

    def peaks(self) -> dict[str, float]:
        """The peak to expect, by resource; NaN before the first sample."""
        return self._series.peaks(self._machine.node, self._clock.now())

    async def publish(self) -> None:
        """Publish the forecast if it is due."""
        if self._clock.monotonic() < self._refused_until:
            return
        for document in self._series.due(self._clock.now()):
            try:
                owner = await self._owner_reference()
                if owner is None:
                    self._series.unpublished(self._machine.node)
                    return
                owned = {**document["metadata"], "ownerReferences": [owner]}
                await status_writes.put_status(self._client, FORECASTS, {**document, "metadata": owned})
            except (errors.NotFound, errors.Forbidden) as problem:
                log.warning("forecasts are not published: the server does not take them", error=problem)
                self._refused_until = self._clock.monotonic() + _REFUSED_S
            except (errors.ApiError, TransportError) as problem:
                log.warning("the forecast cannot be written", error=problem)
                self._series.unpublished(self._machine.node)

    async def _owner_reference(self) -> dict[str, Any] | None:
        """The node, so that its forecast is deleted with it; None while there is none.

        It is read each time: a node that was deleted and registered again has another uid, and the garbage collector
        would delete a forecast with the former one.
        """
        try:
            node = await self._client.get(NODES, self._machine.node)
        except errors.NotFound:
            return None
        return {"apiVersion": "v1", "kind": "Node", "name": self._machine.node, "uid": meta.uid(node)}

    def _used_by_machine(self) -> dict[str, str] | None:
        sample = self._measurements.take()
        if sample is None:
            return None
        return {resources.CPU: f"{math.ceil(sample.others_milli)}m", resources.MEMORY: str(sample.others_memory)}

    def _used_by_pods(self, pods: Iterable[Object]) -> dict[str, str]:
        batch = {meta.uid(pod) for pod in pods if reclaimed.is_batch(pod)}
        found = [one.total for uid, one in self._meter.everything().items() if uid not in batch]
        cpu = sum(one.cpu_nanocores or 0 for one in found)
        return {
            resources.CPU: f"{math.ceil(cpu / 1e6)}m",
            resources.MEMORY: str(sum(one.working_set_bytes or 0 for one in found)),
        }


def _wire(name: str, amount: int) -> str:
    return f"{amount}m" if name == resources.CPU else str(amount)
