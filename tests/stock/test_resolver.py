"""Two stock kube-schedulers on a stock API server: they oversell nodes, and with `rota resolver` they do not."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.stock.clusters import NODES, PODS, Cluster, cluster

from rota.kit import system
from rota.testing import manifests, webhook_files
from rota.testing.allocation_observer import AllocationObserver
from rota.testing.servers.kubernetes import Scheduler, StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.stock, pytest.mark.timeout(240)]

ROTA = str(Path(sys.executable).with_name("rota"))
NODE_COUNT, SLOTS, POD_COUNT = 4, 10, 120


@pytest.fixture
def server() -> Iterator[StockApiServer]:
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        yield stock


def _node(number: int) -> manifests.Document:
    made = manifests.node(f"node-{number}")
    made["spec"] = {"unschedulable": True}
    made["status"]["allocatable"] = {"cpu": str(SLOTS), "memory": "32Gi", "pods": "110"}
    return made


def _pod(number: int) -> manifests.Document:
    made = manifests.pod(f"p{number}", schedulerName=("one", "two")[number % 2])
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return made


def _resolver(server: StockApiServer, folder: Path, *, settle: str = "60") -> tuple["subprocess.Popen[str]", list[str]]:
    serving = webhook_files.options(folder, listen="--listen", url="--url", ca="--ca")
    command = [ROTA, "resolver", "--kubeconfig", str(server.kubeconfig()), *serving, "--settle", settle]
    return _started(command), command


def _started(command: list[str]) -> "subprocess.Popen[str]":
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert any("Checking bindings" in line for line in iter(process.stdout.readline, ""))
    return process


async def _bound(it: Cluster) -> int:
    return sum(bool(one["spec"].get("nodeName")) for one in await it.list(PODS))


async def _fill(server: StockApiServer, observer: AllocationObserver) -> int:
    """Two schedulers at once for three times as many pods as fit; how many are bound."""
    clock, rng = system.SystemClock(), system.rng()
    nodes = [_node(number) for number in range(NODE_COUNT)]
    with ExitStack() as schedulers:
        for name in ("one", "two"):
            schedulers.enter_context(Scheduler(server.kubeconfig("system:kube-scheduler"), name=name))
        async with (
            cluster(server.kubeconfig(), nodes, heartbeat_s=60.0) as it,
            observer.following(it.client, clock=clock, rng=rng),
        ):
            await it.create(PODS, *(_pod(number) for number in range(POD_COUNT)))

            async def waiting() -> bool:
                return all(one["status"].get("conditions") for one in await it.list(PODS))

            # Both have tried all pods and found every node cordoned: they decide at the same moment, when none is.
            await it.until(waiting, "every pod was tried", patience_s=120.0)
            await asyncio.gather(
                *(it.client.patch(NODES, one["metadata"]["name"], {"spec": {"unschedulable": False}}) for one in nodes)
            )

            async def full() -> bool:
                return await _bound(it) >= NODE_COUNT * SLOTS

            await it.until(full, "the cluster is full", patience_s=120.0)

            async def seen() -> bool:
                return observer.bindings >= await _bound(it)

            await it.until(seen, "the observer has seen all bindings")
            return await _bound(it)


async def test_two_stock_schedulers_oversell_a_stock_cluster(server: StockApiServer) -> None:
    observer = AllocationObserver()
    await _fill(server, observer)
    assert observer.violations


async def test_with_the_resolver_they_oversell_nothing_also_across_a_restart(
    server: StockApiServer, tmp_path: Path
) -> None:
    observer = AllocationObserver()
    process, command = _resolver(server, tmp_path, settle="3")
    try:
        bound = await _fill(server, observer)
        assert bound == NODE_COUNT * SLOTS
        assert observer.violations == []
        # A resolver that was killed is missed at once, and its successor does not approve before it is safe.
        process.kill()
        process.communicate(timeout=30)
        process = _started(command)
    finally:
        process.terminate()
        process.communicate(timeout=30)
