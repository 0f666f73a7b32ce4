"""Volcano's own programs and ours: their scheduler with our server and controllers, ours with their controllers."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rota.api.batch import kinds
from rota.client import client_factory, kubeconfig
from rota.client.pods import PODS
from rota.client.verbs import Client, Object
from rota.controllers.batch import beside
from rota.kit import system
from rota.scheduler.batch import conf
from rota.testing import process_cluster
from rota.testing.clusters import make_node
from rota.testing.servers.kubernetes import StockApiServer

ROTA = str(Path(sys.executable).with_name("rota"))
PROGRAMS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rota" / "volcano" / "current"
#: Options of Volcano's scheduler that keep it to itself: no election, no ports.
ALONE = ("--leader-elect=false", "--enable-healthz=false", "--enable-metrics=false")
#: A busy machine needs longer than the limit of other tests to start four programs.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def job(name: str, pods: int) -> Object:
    container = {"name": "main", "image": "none", "command": ["sleep", "1000"]}
    requests = {"requests": {"cpu": "50m", "memory": "16Mi"}}
    pod = {"restartPolicy": "Never", "containers": [{**container, "resources": requests}]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "volcano",
            "queue": "default",
            "minAvailable": pods,
            "tasks": [{"name": "w", "replicas": pods, "template": {"spec": pod}}],
        },
    }


@contextlib.contextmanager
def running(folder: Path, name: str, command: Sequence[str]) -> Iterator[Path]:
    """Run a process; its log."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def connected(file: Path) -> AsyncIterator[Client]:
    clock = system.SystemClock()
    endpoint = kubeconfig.load(file, clock=clock)
    async with client_factory.to_server(endpoint, clock=clock, rng=system.rng()) as client:
        yield client


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(90):
        while not await condition():  # noqa: ASYNC110 - other processes bring it about
            await asyncio.sleep(0.3)


async def test_their_scheduler_runs_a_job_of_ours_and_their_cli_lists_it(tmp_path: Path) -> None:
    data, settings = tmp_path / "data", tmp_path / "settings"
    settings.mkdir()
    (settings / "volcano-scheduler.conf").write_text(conf.DEFAULT)
    up = [
        ROTA,
        "up",
        "--workers",
        "2",
        "--scheduler",
        "off",
        "--data",
        str(data),
        "--port",
        "0",
        "--dashboard-port",
        "0",
    ]
    file = str(data / "kubeconfig")
    theirs = [str(PROGRAMS / "scheduler"), "--kubeconfig", file, *ALONE]
    theirs += ["--scheduler-conf", str(settings / "volcano-scheduler.conf")]
    try:
        with running(tmp_path, "up", up) as log:

            async def is_up() -> bool:
                return "Rota is up" in log.read_text()

            await until(is_up)
            with running(tmp_path, "scheduler", theirs):
                async with connected(data / "kubeconfig") as client:
                    await client.create(kinds.JOBS, job("ours", 3))

                    async def runs() -> bool:
                        found = await client.get(kinds.JOBS, "ours", namespace="default")
                        return bool(((found.get("status") or {}).get("state") or {}).get("phase") == "Running")

                    await until(runs)
                listing = [str(PROGRAMS / "cli"), "job", "list", "--kubeconfig", file]
                shown = subprocess.run(listing, capture_output=True, text=True, check=True, timeout=60)  # noqa: ASYNC221
                rows = [line.split() for line in shown.stdout.splitlines()]
                # Name, creation, phase, type, replicas, minimum.
                assert [row[0:1] + row[2:6] for row in rows[1:]] == [["ours", "Running", "Batch", "3", "3"]]
    finally:
        process_cluster.end_tasks(data)


@pytest.mark.stock
async def test_our_scheduler_serves_a_job_of_their_controllers_on_a_stock_server(tmp_path: Path) -> None:
    file = tmp_path / "volcano-scheduler.conf"
    file.write_text(conf.DEFAULT)
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as server:
        access = server.kubeconfig()
        theirs = [str(PROGRAMS / "controller-manager"), "--kubeconfig", str(access), "--leader-elect=false"]
        ours = [ROTA, "scheduler", "--kubeconfig", str(access), "--batch-config", str(file)]
        async with connected(access) as client:
            await beside.install(client, clock=system.SystemClock())
            await beside.create_queues(client)
            for name in ("n1", "n2"):
                await client.create(("", "v1", "nodes"), {"apiVersion": "v1", **make_node(name)})
            with running(tmp_path, "controllers", theirs), running(tmp_path, "scheduler", ours):
                await client.create(kinds.JOBS, job("theirs", 4))

                async def is_bound() -> bool:
                    pods = (await client.list(PODS, namespace="default")).items
                    return len(pods) == 4 and all(one["spec"].get("nodeName") for one in pods)

                await until(is_bound)

                async def is_told() -> bool:
                    [group] = (await client.list(kinds.POD_GROUPS, namespace="default")).items
                    conditions = (group.get("status") or {}).get("conditions") or ()
                    return ("Scheduled", "True") in {(one["type"], one["status"]) for one in conditions}

                await until(is_told)
