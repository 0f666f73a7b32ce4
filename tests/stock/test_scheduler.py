"""The stock kube-scheduler on our API server: it leads, places and preempts as it does on its own."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.stock.clusters import EVENTS, LEASES, PODS, cluster

from rota.testing import manifests
from rota.testing.servers.kubernetes import Scheduler
from rota.testing.servers.rota import RotaServer

pytestmark = [pytest.mark.slow, pytest.mark.stock]

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
PRIORITIES = ("scheduling.k8s.io", "v1", "priorityclasses")
#: Rota's own scheduler serves the pods that ask for none by name; these are for the stock one.
STOCK = "stock-scheduler"
#: A leadership that changes hands within a test's patience, and one that outlasts a restart of the server: a stock
#: scheduler that cannot renew its lease in time gives up for good.
SHORT_S, LONG_S = 3, 90


@pytest.fixture(scope="module")
def server() -> Iterator[RotaServer]:
    with RotaServer() as rota:
        yield rota


@pytest.fixture(scope="module")
def scheduler(server: RotaServer) -> Iterator[Scheduler]:
    with Scheduler(server.kubeconfig("system:kube-scheduler"), name=STOCK, lease_s=LONG_S) as running:
        yield running


def pod(name: str, **spec: Any) -> manifests.Document:
    """A pod for the stock scheduler."""
    return manifests.pod(name, schedulerName=STOCK, **spec)


def zoned(count: int) -> list[manifests.Document]:
    """Nodes in zones a, b and c in turn."""
    return [manifests.node(f"node-{number}", **{ZONE: "abc"[number % 3]}) for number in range(count)]


def sized(name: str, cpu: str, **spec: Any) -> manifests.Document:
    """A pod that asks for processors."""
    made = pod(name, **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def anti_affinity(**labels: str) -> manifests.Document:
    """An affinity that keeps a pod off the hosts of pods with these labels."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOST}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


async def test_pods_go_where_their_node_affinity_allows(server: RotaServer, scheduler: Scheduler) -> None:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    async with cluster(server.kubeconfig(), zoned(6)) as it:
        await it.create(PODS, *(pod(f"p{n}", affinity={"nodeAffinity": required}) for n in range(4)))
        placed = await it.placed("p0", "p1", "p2", "p3")
    assert set(placed.values()) <= {"node-1", "node-4"}


async def test_pods_go_to_those_they_like_and_not_to_those_they_avoid(server: RotaServer, scheduler: Scheduler) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "base"}}, "topologyKey": ZONE}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}, **anti_affinity(app="base")}
    async with cluster(server.kubeconfig(), zoned(6)) as it:
        await it.create(PODS, pod("base", labels={"app": "base"}, nodeSelector={HOST: "node-2"}))
        await it.create(PODS, pod("friend", affinity=affinity))
        placed = await it.placed("base", "friend")
    assert placed == {"base": "node-2", "friend": "node-5"}  # the other one of zone c


async def test_pods_that_avoid_each_other_take_a_node_each_and_the_last_one_waits(
    server: RotaServer, scheduler: Scheduler
) -> None:
    async with cluster(server.kubeconfig(), zoned(3)) as it:
        lonely = [pod(f"p{n}", labels={"app": "lonely"}, affinity=anti_affinity(app="lonely")) for n in range(3)]
        await it.create(PODS, *lonely)
        placed = await it.placed("p0", "p1", "p2")
        await it.create(PODS, pod("p3", labels={"app": "lonely"}, affinity=anti_affinity(app="lonely")))
        message = await it.unschedulable("p3")
        reasons = {one["reason"] for one in await it.list(EVENTS)}
        assert sorted(placed.values()) == ["node-0", "node-1", "node-2"]
        assert message.startswith("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.")
        assert {"Scheduled", "FailedScheduling"} <= reasons
        await it.client.delete(PODS, "p0", namespace=it.namespace, grace_period_s=0)
        assert await it.placed("p3") == {"p3": placed["p0"]}


async def test_pods_are_spread_over_zones(server: RotaServer, scheduler: Scheduler) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "wide"}},
    }
    names = [f"p{n}" for n in range(9)]
    async with cluster(server.kubeconfig(), zoned(4)) as it:  # two nodes in zone a, one in b, one in c
        pods = [pod(name, labels={"app": "wide"}, topologySpreadConstraints=[constraint]) for name in names]
        await it.create(PODS, *pods)
        placed = await it.placed(*names)
    assert Counter(int(node[-1]) % 3 for node in placed.values()) == {0: 3, 1: 3, 2: 3}


async def test_taints_keep_pods_without_tolerations_away(server: RotaServer, scheduler: Scheduler) -> None:
    nodes = zoned(2)
    nodes[0]["spec"] = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
    toleration = {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    async with cluster(server.kubeconfig(), nodes) as it:
        await it.create(PODS, *(pod(f"p{n}") for n in range(3)))
        await it.create(PODS, pod("tolerant", tolerations=[toleration], nodeSelector={HOST: "node-0"}))
        placed = await it.placed("p0", "p1", "p2", "tolerant")
    assert placed == {"p0": "node-1", "p1": "node-1", "p2": "node-1", "tolerant": "node-0"}


async def test_a_pod_of_higher_priority_takes_the_place_of_the_lowest(server: RotaServer, scheduler: Scheduler) -> None:
    async with cluster(server.kubeconfig(), zoned(2)) as it:
        for name, value in (("low", 1), ("middle", 10), ("high", 100)):
            body = {"metadata": {"name": f"{it.namespace}-{name}"}, "value": value}
            await it.client.create(PRIORITIES, body)
        # 4 processors on each node: both are full
        await it.create(PODS, sized("little", "3", priorityClassName=f"{it.namespace}-low"))
        await it.create(PODS, sized("more", "3", priorityClassName=f"{it.namespace}-middle"))
        before = await it.placed("little", "more")
        async with it.client.watch(PODS, namespace=it.namespace) as events:
            await it.create(PODS, sized("most", "3", priorityClassName=f"{it.namespace}-high"))
            after = await it.placed("most", "more")
            told = await _conditions_of(events, "little")
    assert after == {"most": before["little"], "more": before["more"]}
    assert ("DisruptionTarget", "True", "PreemptionByScheduler") in told


async def _conditions_of(events: Any, name: str) -> set[tuple[str, str, str]]:
    """What was said of a pod until it was gone."""
    told = set()
    async with asyncio.timeout(60):
        async for event in events:
            seen = event.object
            if seen["metadata"].get("name") == name:
                conditions = seen["status"].get("conditions", ())
                told |= {(one["type"], one["status"], one.get("reason", "")) for one in conditions}
                if event.type.value == "DELETED":
                    break
    return told


async def test_a_second_scheduler_waits_and_takes_over_when_the_first_is_killed(server: RotaServer) -> None:
    config, name = server.kubeconfig("system:kube-scheduler"), "paired"
    async with cluster(server.kubeconfig(), zoned(2)) as it:
        with (
            Scheduler(config, name=name, lease_s=SHORT_S) as first,
            Scheduler(config, name=name, lease_s=SHORT_S),
        ):
            await it.create(PODS, manifests.pod("one", schedulerName=name))
            await it.placed("one")
            lease = await it.client.get(LEASES, name, namespace="kube-system")
            await asyncio.to_thread(first.kill)
            await it.create(PODS, manifests.pod("two", schedulerName=name))
            await it.placed("two")
            heir = await it.client.get(LEASES, name, namespace="kube-system")
    assert heir["spec"]["holderIdentity"] != lease["spec"]["holderIdentity"]
    assert heir["spec"]["leaseTransitions"] == lease["spec"].get("leaseTransitions", 0) + 1


def large(number: int) -> manifests.Document:
    """A node with room for a hundred pods."""
    node = manifests.node(f"large-{number:03}", **{ZONE: "abc"[number % 3]})
    node["status"]["capacity"] = node["status"]["allocatable"] = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    return node


@pytest.mark.timeout(300)
async def test_two_thousand_pods_are_placed_and_no_node_is_oversold(server: RotaServer, scheduler: Scheduler) -> None:
    names = [f"p{n:04}" for n in range(2000)]
    async with cluster(server.kubeconfig(), [large(n) for n in range(40)]) as it:
        for start in range(0, len(names), 50):
            await it.create(PODS, *(sized(name, "500m") for name in names[start : start + 50]))
        placed = await it.placed(*names, patience_s=200)
    # 40 nodes of 32 processors have room for 64 such pods each
    assert max(Counter(placed.values()).values()) <= 64


@pytest.mark.timeout(240)
async def test_it_survives_a_restart_of_the_server_and_places_everything(
    server: RotaServer, scheduler: Scheduler
) -> None:
    names = [f"p{n:03}" for n in range(300)]
    async with cluster(server.kubeconfig(), [large(n) for n in range(10)]) as it:
        for start in range(0, 200, 50):
            await it.create(PODS, *(pod(name) for name in names[start : start + 50]))
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        await it.create(PODS, *(pod(name) for name in names[200:]))
        placed = await it.placed(*names, patience_s=120)
        assert scheduler.running
    assert len(placed) == len(names)
