"""`rota batch-controller` beside the stock API server: kinds, webhooks, jobs."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.batch.batch_objects import job, on, task

from rota.api import errors, meta
from rota.api.batch import kinds
from rota.client import client_factory, kubeconfig
from rota.kit import system
from rota.testing import webhook_files
from rota.testing.servers.kubernetes import StockApiServer

ROTA = str(Path(sys.executable).with_name("rota"))
PODS = ("", "v1", "pods")
pytestmark = [pytest.mark.slow, pytest.mark.stock]


@pytest.fixture(scope="module")
def server() -> Iterator[StockApiServer]:
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        yield stock


@pytest.fixture(scope="module")
def controller(server: StockApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("webhooks")
    command = [ROTA, "batch-controller", "--kubeconfig", str(server.kubeconfig()), *webhook_files.options(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any("Running batch jobs" in line for line in iter(process.stdout.readline, ""))
            yield
        finally:
            process.terminate()
            process.communicate(timeout=30)


@pytest.mark.usefixtures("controller")
async def test_jobs_are_defaulted_validated_and_run(server: StockApiServer) -> None:
    clock, rng = system.SystemClock(), system.rng()
    endpoint = kubeconfig.load(server.kubeconfig(), clock=clock)
    async with client_factory.to_server(endpoint, clock=clock, rng=rng) as client:
        made: dict[str, Any] = {**job(task("w", 2), policies=[on("PodFailed", "RestartJob")], plugins={"mpi": []})}
        created = await client.create(kinds.JOBS, made)
        assert (created["spec"]["minAvailable"], set(created["spec"]["plugins"])) == (2, {"mpi", "svc", "ssh"})
        with pytest.raises(errors.ApiError, match="total replicas in tasks"):
            await client.create(kinds.JOBS, {**job(task("w", 2), minAvailable=3, name="no")})
        with pytest.raises(errors.ApiError, match="default queue can not be deleted"):
            await client.delete(kinds.QUEUES, "default")
        end = time.monotonic() + 60
        while True:
            found = {meta.name(one) for one in (await client.list(PODS, namespace="default")).items}
            if found == {"work-w-0", "work-w-1"}:
                break
            assert time.monotonic() < end, found
            await clock.sleep(0.2)
        queue = await client.get(kinds.QUEUES, "default")
        assert queue["status"]["state"] == "Open"
