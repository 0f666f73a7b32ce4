"""Our scheduler on the stock API server, with a stock scheduler's rights: it leads, places and preempts."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.stock.clusters import EVENTS, LEASES, PODS, cluster
from tests.stock.test_scheduler import PRIORITIES, ZONE, anti_affinity, zoned

from rota.client import connecting, kubeconfig
from rota.kit import system
from rota.scheduler.service import Scheduler
from rota.testing import manifests, schedulers
from rota.testing.servers.kubernetes import StockApiServer

pytestmark = [pytest.mark.slow, pytest.mark.stock]


@pytest.fixture(scope="module")
def server() -> Iterator[StockApiServer]:
    # What these two do takes controllers, which do not run here.
    with StockApiServer(disable_admission_plugins="ServiceAccount,TaintNodesByCondition") as stock:
        yield stock


@contextlib.asynccontextmanager
async def scheduling(server: StockApiServer, identity: str = "ours") -> AsyncIterator[Scheduler]:
    """Our scheduler at work, as the user that every stock cluster knows."""
    clock, chance = system.SystemClock(), random.Random(0)
    endpoint = kubeconfig.load(server.kubeconfig("system:kube-scheduler"), clock=clock)
    async with connecting.to_server(endpoint, clock=clock, chance=chance) as client:
        scheduler = Scheduler(client, schedulers.configured(), clock=clock, chance=chance, identity=identity)
        running = asyncio.ensure_future(scheduler.run())
        async with asyncio.timeout(30):
            await scheduler.wait_synced()
        try:
            yield scheduler
        finally:
            running.cancel()
            await asyncio.wait([running])


def sized(name: str, cpu: str, **spec: Any) -> manifests.Document:
    """A pod that asks for processors."""
    made = manifests.pod(name, **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


async def test_it_leads_and_places_pods_one_binding_each(server: StockApiServer) -> None:
    names = [f"p{n}" for n in range(20)]
    async with cluster(server.kubeconfig(), zoned(3)) as it, scheduling(server) as scheduler:
        await it.create(PODS, *(manifests.pod(name) for name in names))
        placed = await it.placed(*names)
        lease = await it.client.get(LEASES, "kube-scheduler", namespace="kube-system")
        assert not scheduler.bindings.batches
        assert lease["spec"]["holderIdentity"] == "ours"
        assert set(placed.values()) == {"node-0", "node-1", "node-2"}
        assert "Scheduled" in {one["reason"] for one in await it.list(EVENTS)}
    lease_after = await _lease(server)
    assert not lease_after["spec"].get("holderIdentity")


async def test_rules_of_placement_hold_there_as_here(server: StockApiServer) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "wide"}},
    }
    names = [f"p{n}" for n in range(6)]
    async with cluster(server.kubeconfig(), zoned(3)) as it, scheduling(server):
        pods = [manifests.pod(n, labels={"app": "wide"}, topologySpreadConstraints=[constraint]) for n in names]
        await it.create(PODS, *pods)
        placed = await it.placed(*names)
        assert set(Counter(placed.values()).values()) == {2}
        lonely = [
            manifests.pod(f"l{n}", labels={"app": "lonely"}, affinity=anti_affinity(app="lonely")) for n in range(4)
        ]
        await it.create(PODS, *lonely[:3])
        await it.placed("l0", "l1", "l2")
        await it.create(PODS, lonely[3])
        message = await it.unschedulable("l3")
        assert message.startswith("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.")


async def test_it_makes_room_for_what_is_more_important(server: StockApiServer) -> None:
    async with cluster(server.kubeconfig(), zoned(1)) as it, scheduling(server):
        urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent-ours"}}
        await it.client.create(PRIORITIES, {**urgent, "value": 1000})
        try:
            node = await it.client.get(("", "v1", "nodes"), "node-0")
            cores = int(node["status"]["allocatable"]["cpu"])
            await it.create(PODS, sized("small", str(cores), terminationGracePeriodSeconds=0))
            await it.placed("small")
            await it.create(PODS, sized("important", str(cores), priorityClassName="urgent-ours"))
            assert await it.placed("important") == {"important": "node-0"}
            assert {one["metadata"]["name"] for one in await it.list(PODS)} == {"important"}
        finally:
            await it.client.delete(PRIORITIES, "urgent-ours")


async def _lease(server: StockApiServer) -> dict[str, Any]:
    clock, chance = system.SystemClock(), random.Random(0)
    endpoint = kubeconfig.load(server.kubeconfig(), clock=clock)
    async with connecting.to_server(endpoint, clock=clock, chance=chance) as client:
        return await client.get(LEASES, "kube-scheduler", namespace="kube-system")
