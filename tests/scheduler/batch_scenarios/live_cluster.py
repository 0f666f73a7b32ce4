"""`rota up` for scenarios: workers with the resources that scenarios need, and a configuration that can be replaced."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Final

from tests.scheduler.batch_scenarios import worlds
from tests.scheduler.batch_scenarios.stage import LANES, NODES, Scenario
from tests.scheduler.batch_scenarios.worlds import Watched

from rota.client import client_factory, kubeconfig
from rota.client.verbs import PatchType
from rota.kit import system
from rota.testing import process_cluster

_ROTA: Final = str(Path(sys.executable).with_name("rota"))
_LOADED: Final = "batch configuration loaded"
_START_S: Final = 120.0
_LOOK_AGAIN_S: Final = 0.1


class LiveCluster:
    """A running `rota up`."""

    def __init__(self, world: Watched, folder: Path) -> None:
        self.world: Final = world
        self._folder: Final = folder
        self._loaded = 0

    async def configure(self, conf: str) -> None:
        """Replace the volcano-scheduler.conf, and wait until the scheduler has taken it over."""
        if self._conf.read_text() == conf:
            return
        self._loaded += 1
        beside = self._conf.with_suffix(".new")
        beside.write_text(conf)
        beside.replace(self._conf)
        await _printed(self._folder / "output.log", _LOADED, self._loaded)

    @property
    def _conf(self) -> Path:
        return conf_file(self._folder)


def conf_file(folder: Path) -> Path:
    """Where a cluster's configuration is."""
    return folder / "volcano-scheduler.conf"


async def _printed(log: Path, words: str, times: int = 1) -> None:
    """Return once a process has printed words so many times."""
    async with asyncio.timeout(_START_S):
        while log.read_text().count(words) < times:  # noqa: ASYNC110 - another process prints them
            await asyncio.sleep(_LOOK_AGAIN_S)


@contextlib.asynccontextmanager
async def running(folder: Path, scenarios: Collection[Scenario], conf: str) -> AsyncIterator[LiveCluster]:
    """Start `rota up` with a worker for each node of the lanes; end it and its tasks afterwards."""
    conf_file(folder).write_text(conf)
    data, log = folder / "data", folder / "output.log"
    command = [_ROTA, "up", "--workers", str(4 * LANES), "--data", str(data), "--port", "0", "--dashboard-port", "0"]
    command += ["--batch-config", str(conf_file(folder))]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)  # noqa: ASYNC220 - forks only
    try:
        await _printed(log, "Rota is up")
        clock = system.SystemClock()
        endpoint = kubeconfig.load(data / "kubeconfig", clock=clock)
        async with client_factory.to_server(endpoint, clock=clock, rng=system.rng()) as client:
            await worlds.prepare(client)
            for name, extended in worlds.amounts(scenarios).items():
                status = {"status": {"capacity": extended, "allocatable": extended}}
                await client.patch(NODES, name, status, type=PatchType.MERGE, subresource="status")
            yield LiveCluster(Watched(client, asyncio.sleep), folder)
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()
            process_cluster.end_tasks(data)
