"""The forecast of a worker's own node: whose it is, and when it is published."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from rota.api import errors
from rota.client import client_factory
from rota.forecast.fleet import DEFAULTS
from rota.forecast.node_series import AT_LEAST_S, FORECASTS
from rota.kit import system
from rota.testing.api import ApiServer
from rota.testing.clocks import FakeClock
from rota.worker.host_resources import HostResources
from rota.worker.node import NODES
from rota.worker.node_forecasts import NodeForecasts
from rota.worker.runtimes.runtime_interface import Runtime

MACHINE = HostResources(node="w1", address="127.0.0.1", capacity={}, allocatable={"cpu": 4000, "memory": 8 * 1024**3})


async def test_the_owner_of_a_forecast_is_the_node_that_there_is_now(tmp_path: Path) -> None:
    clock = FakeClock()
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1"}}
    async with (
        ApiServer() as server,
        client_factory.to_application(server.app, clock=system.SystemClock(), rng=random.Random(0)) as client,
    ):
        forecasts = NodeForecasts(
            client,
            MACHINE,
            runtime=lambda: cast(Runtime, SimpleNamespace(places=dict)),
            pods=list,
            share=0.5,
            folder=tmp_path,
            settings=DEFAULTS,
            clock=clock,
        )

        async def owner() -> str | None:
            forecasts.measure()
            await forecasts.publish()
            try:
                found = await client.get(FORECASTS, "w1")
            except errors.NotFound:
                return None
            return str(found["metadata"]["ownerReferences"][0]["uid"])

        assert await owner() is None, "the node is not registered yet"
        first = await client.create(NODES, node)
        assert await owner() == first["metadata"]["uid"], "no pause follows"
        await client.delete(NODES, "w1")
        await client.delete(FORECASTS, "w1")
        second = await client.create(NODES, node)
        await clock.advance(AT_LEAST_S)
        assert await owner() == second["metadata"]["uid"]
