"""The stock kube-scheduler with our extender: it decides as the policy says, whatever becomes of the extender."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.stock.clusters import NODES, PODS, Cluster, cluster
from tests.stock.test_extenders import StockScheduler

from rota.spot.policies import BASE, WISH
from rota.testing import manifests
from rota.testing.servers import processes
from rota.testing.servers.kubernetes import StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.stock]

CAPACITY = "node.kubernetes.io/capacity"
REPLICA_SETS = ("apps", "v1", "replicasets")


@pytest.fixture(scope="module")
def server() -> Iterator[StockApiServer]:
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        yield stock


def machines() -> list[manifests.Document]:
    return [
        manifests.node("spot-1", **{CAPACITY: "spot"}),
        manifests.node("spot-2", **{CAPACITY: "spot"}),
        manifests.node("stays-1", **{CAPACITY: "on-demand"}),
    ]


def settings(port: int, *, ignorable: bool) -> dict[str, Any]:
    return {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": 50,
        "nodeCacheCapable": True,
        "ignorable": ignorable,
        "httpTimeout": "1s",
    }


@contextlib.asynccontextmanager
async def extender(server: StockApiServer, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """`rota extender` as users start it, once it answers."""
    config = server.kubeconfig("system:kube-scheduler")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rota", "extender", "--kubeconfig", str(config), "--listen", f"127.0.0.1:{port}"),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(30):
            while not await _answers(port):
                assert process.returncode is None
                await asyncio.sleep(0.1)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.terminate()
        await process.wait()


async def _answers(port: int) -> bool:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.write(b"GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    line = await reader.readline()
    writer.close()
    return b" 200 " in line


@contextlib.asynccontextmanager
async def scheduling(server: StockApiServer, port: int, *, ignorable: bool) -> AsyncIterator[str]:
    name = "spot-aware"
    config = server.kubeconfig("system:kube-scheduler")
    running = StockScheduler(config, name=name, extenders=[settings(port, ignorable=ignorable)])
    await asyncio.to_thread(running.__enter__)
    try:
        yield name
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


def pod(
    name: str, scheduler: str, says: dict[str, str] | None = None, owner: dict[str, Any] | None = None
) -> manifests.Document:
    made = manifests.pod(name, schedulerName=scheduler)
    made["metadata"]["annotations"] = says or {}
    if owner is not None:
        made["metadata"]["ownerReferences"] = [owner]
    return made


async def _owner(it: Cluster) -> dict[str, Any]:
    """A replica set that makes no pods of its own: no controllers run here."""
    labels = {"app": "shop"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    made = {"metadata": {"name": "shop"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    await it.create(REPLICA_SETS, {"apiVersion": "apps/v1", "kind": "ReplicaSet", **made})
    uid = (await it.get(REPLICA_SETS, "shop"))["metadata"]["uid"]
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop", "uid": uid, "controller": True}


async def test_the_stock_scheduler_decides_as_the_policy_says(server: StockApiServer) -> None:
    port = processes.free_port()
    async with (
        cluster(server.kubeconfig(), machines()) as it,
        extender(server, port),
        scheduling(server, port, ignorable=False) as name,
    ):
        await it.create(PODS, pod("prefers", name), pod("never", name, {WISH: "never"}))
        placed = await it.placed("prefers", "never")
        assert placed["prefers"].startswith("spot-")
        assert placed["never"] == "stays-1"
        owner = await _owner(it)
        for number in range(4):
            await it.create(PODS, pod(f"based-{number}", name, {BASE: "2"}, owner))
            await it.placed(f"based-{number}")
        there = await it.placed(*(f"based-{number}" for number in range(4)))
        assert [there[f"based-{number}"] for number in range(2)] == ["stays-1", "stays-1"]
        assert all(there[f"based-{number}"].startswith("spot-") for number in (2, 3))
        taints = {"spec": {"taints": [{"key": "rota.dev/terminating", "effect": "PreferNoSchedule"}]}}
        for one in ("spot-1", "spot-2"):
            await it.client.patch(NODES, one, taints)
        await it.create(PODS, pod("only", name, {WISH: "only"}))
        assert "ends in" in await it.unschedulable("only")
        await it.create(PODS, pod("falls-back", name))
        assert await it.placed("falls-back") == {"falls-back": "stays-1"}
        await it.create(PODS, pod("contradicts", name, {WISH: "only", BASE: "1"}))
        await it.until(lambda: _told(it, "contradicts", "remove one of them"), "the contradiction is told")


async def _told(it: Cluster, name: str, words: str) -> bool:
    pod = await it.get(PODS, name)
    return any(words in one.get("message", "") for one in pod["status"].get("conditions", ()))


async def test_while_the_extender_is_away_pods_wait_or_go_on_as_configured(server: StockApiServer) -> None:
    port = processes.free_port()
    async with cluster(server.kubeconfig(), machines()) as it:
        async with scheduling(server, port, ignorable=True) as name:
            await it.create(PODS, pod("goes-on", name))
            await it.placed("goes-on")
        async with scheduling(server, port, ignorable=False) as name:
            await it.create(PODS, pod("waits", name, {WISH: "only"}))
            await it.until(lambda: _told(it, "waits", "connection refused"), "the pod says why it waits")
            async with extender(server, port) as process:
                placed = await it.placed("waits", patience_s=60)
                assert placed["waits"].startswith("spot-")
                # slower than the scheduler waits, and then quick again
                process.send_signal(signal.SIGSTOP)
                await it.create(PODS, pod("slow", name, {WISH: "only"}))
                await it.until(lambda: _told(it, "slow", "deadline exceeded"), "the pod says why it waits")
                process.send_signal(signal.SIGCONT)
                assert (await it.placed("slow", patience_s=60))["slow"].startswith("spot-")
