"""Two schedulers that decide at the same moment: which constraint the binding transaction holds, and which routing.

The rows of the table in docs/howto/run-many-schedulers.md. In the rows of the transaction, two schedulers that know
nothing of each other send conflicting bindings, which are held until both have been decided. In the rows of routing,
the schedulers share the pods by a shard map.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.scheduler.process.racing import race, racing

from rota.api import conflict_reasons, gangs
from rota.client.pods import PODS
from rota.client.transports.transport import Call
from rota.client.verbs import PatchType
from rota.scheduler.batch_profile.settings import LiveBatchSettings
from rota.scheduler.core import attempts
from rota.scheduler.core.events import BindingEnded, Event
from rota.scheduler.service import NODES, Scheduler
from rota.scheduler.sharding.instance_objects import InstanceSettings
from rota.scheduler.sharding.shard_map import BATCH_KEY
from rota.testing.allocation_observer import AllocationObserver
from rota.testing.clusters import make_pod
from rota.testing.schedulers import SchedulingCluster

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


class _Chance:
    def random(self) -> float:
        return 0.5


def _container(**more: Any) -> list[dict[str, Any]]:
    return [{"name": "c", "image": "app:1", **more}]


def _apart(topology: str) -> dict[str, Any]:
    term = {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(
    ("reason", "about", "allocatable"),
    [
        (conflict_reasons.CAPACITY, {"cpu": "3"}, {}),
        (conflict_reasons.PORT, {"containers": _container(ports=[{"containerPort": 80, "hostPort": 80}])}, {}),
        (conflict_reasons.PORT, {"labels": {gangs.INDEX_LABEL: "0", gangs.PORT_LABEL: "20007"}}, {}),
        (conflict_reasons.ANTI_AFFINITY, {"labels": {"app": "web"}, "affinity": _apart(HOSTNAME)}, {}),
        (
            conflict_reasons.CAPACITY,
            {"containers": _container(resources={"limits": {"rota.dev/gpu-milli": "600"}})},
            {"nvidia.com/gpu": "1", "rota.dev/gpu-milli": "1000"},
        ),
        (
            # Enough thousandths are left on the node, on no single device.
            conflict_reasons.DEVICE,
            {"containers": _container(resources={"limits": {"rota.dev/gpu-milli": "600"}})},
            {"nvidia.com/gpu": "2", "rota.dev/gpu-milli": "2000"},
        ),
    ],
)
async def test_the_transaction_refuses_the_second_of_two_pods_that_do_not_fit_together(
    cluster: SchedulingCluster, reason: str, about: dict[str, Any], allocatable: dict[str, str]
) -> None:
    await cluster.add_node("n1", labels={HOSTNAME: "n1"}, cpu="4", **allocatable)
    if reason == conflict_reasons.DEVICE:
        # A pod that has most of the first device: one of the two fits beside it.
        before = {"apiVersion": "v1", **make_pod("before", **about, nodeName="n1")}
        before["metadata"] |= {"annotations": {"rota.dev/gpu-devices": "0"}, "uid": ""}
        await cluster.client.create(PODS, before)
    async with racing(cluster) as (reasons, _):
        places = await race(cluster, reasons, about, about)
    assert sorted(places) == ["", "n1"]
    assert reasons == [reason]


async def test_a_scheduler_puts_the_first_processes_of_two_gangs_with_one_port_on_two_nodes(
    cluster: SchedulingCluster,
) -> None:
    for name in ("n1", "n2"):
        await cluster.add_node(name, cpu="8")
    async with cluster.scheduling():
        for gang, index in itertools.product("ab", "012"):
            labels = {gangs.INDEX_LABEL: index, gangs.PORT_LABEL: "20007"}
            await cluster.add_pod(f"{gang}-{index}", labels=labels)

        async def all_placed() -> bool:
            return all([await cluster.node_of(f"{gang}-{index}") for gang, index in itertools.product("ab", "012")])

        await cluster.until(all_placed)
    assert sorted([await cluster.node_of("a-0"), await cluster.node_of("b-0")]) == ["n1", "n2"]


async def test_a_plain_pod_does_not_slip_in_beside_a_pod_that_excludes_it(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", labels={HOSTNAME: "n1"})
    async with racing(cluster) as (reasons, _):
        await cluster.add_pod("one", schedulerName="one", labels={"app": "db"}, affinity=_apart(HOSTNAME))
        await cluster.add_pod("two", schedulerName="two", labels={"app": "web"})

        async def refused() -> bool:
            return bool(reasons)

        await cluster.until(refused)
        await cluster.clock.advance(1)
        places = [await cluster.node_of("one"), await cluster.node_of("two")]
    assert sorted(places) == ["", "n1"]
    assert reasons == [conflict_reasons.ANTI_AFFINITY]


async def test_the_loser_takes_its_next_best_node_without_returning_to_the_queue(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", cpu="4")
    # The second node is worse for every scheduler, and good enough.
    await cluster.client.create(
        NODES,
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n2"},
            "spec": {"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]},
            "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "10"}},
        },
    )
    async with racing(cluster) as (reasons, _):
        places = await race(cluster, reasons, {"cpu": "3"}, {"cpu": "3"})
    assert sorted(places) == ["n1", "n2"]
    assert reasons == [conflict_reasons.CAPACITY]


async def test_no_pod_gets_a_node_that_was_cordoned_meanwhile(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with racing(cluster) as (reasons, go_on):
        await cluster.add_pod("one", schedulerName="one")
        await cluster.clock.advance(1)
        await cluster.client.patch(NODES, "n1", {"spec": {"unschedulable": True}}, type=PatchType.MERGE)
        go_on.set()

        async def refused() -> bool:
            return bool(reasons)

        await cluster.until(refused)
        assert await cluster.node_of("one") == ""
    assert reasons == [conflict_reasons.UNSCHEDULABLE]


async def test_a_pod_that_both_decide_is_bound_once(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    await cluster.add_node("n2")
    async with contextlib.AsyncExitStack() as stack:
        reasons: list[str] = []
        go_on = asyncio.Event()

        async def hold(call: Call) -> None:
            if call.path.endswith("/bindingbatches"):
                await go_on.wait()

        def listen(event: Event, _: float) -> None:
            if isinstance(event, BindingEnded) and not event.status.ok:
                reasons.append(attempts.conflict_reason(event.status))

        for seed in range(2):
            client, transport = cluster.meddling()
            transport.before = hold
            scheduler = await stack.enter_async_context(cluster.scheduling(seed=seed, client=client))
            scheduler.core.listeners.append(listen)
        await cluster.add_pod("web")
        await cluster.clock.advance(1)
        go_on.set()
        await cluster.bound("web")
        await cluster.clock.advance(1)
    assert reasons == [conflict_reasons.POD_MOVED]


# --- held by routing --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _sharing(cluster: SchedulingCluster, **more: Any) -> AsyncIterator[list[Scheduler]]:
    async with contextlib.AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(
                cluster.scheduling(seed=number, shard=InstanceSettings(name=f"s{number}"), **more)
            )
            for number in range(2)
        ]

        async def settled() -> bool:
            return all(
                one.shard is not None and one.shard.active and len(one.shard.ownership.current.members) == 2
                for one in made
            )

        await cluster.until(settled)
        yield made


async def _zones(cluster: SchedulingCluster) -> dict[str, str]:
    zones = {}
    for number in range(6):
        zones[f"n{number}"] = f"z{number % 3}"
        await cluster.add_node(f"n{number}", labels={ZONE: f"z{number % 3}", HOSTNAME: f"n{number}"}, pods="100")
    return zones


async def _placed(cluster: SchedulingCluster, prefix: str) -> list[str]:
    pods = (await cluster.client.list(PODS)).items
    return [
        one["spec"]["nodeName"] for one in pods if one["spec"].get("nodeName") and prefix in one["metadata"]["name"]
    ]


async def test_anti_affinity_over_zones_is_decided_by_one_scheduler(cluster: SchedulingCluster) -> None:
    zones = await _zones(cluster)
    async with _sharing(cluster) as schedulers:
        for number in range(8):
            await cluster.add_pod(f"web-{number}", labels={"app": "web"}, affinity=_apart(ZONE))
        for number in range(8):
            await cluster.add_pod(f"plain-{number}")
        await cluster.clock.advance(3)
        placed = await _placed(cluster, "web-")
        assert len(await _placed(cluster, "plain-")) == 8
    assert sorted(zones[node] for node in placed) == ["z0", "z1", "z2"]
    assert sum(one.attempts.using.figures.conflicts_total for one in schedulers) == 0


async def test_hard_spread_is_decided_by_one_scheduler(cluster: SchedulingCluster) -> None:
    zones = await _zones(cluster)
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    async with _sharing(cluster):
        for number in range(20):
            await cluster.add_pod(f"web-{number}", labels={"app": "web"}, topologySpreadConstraints=[constraint])
        await cluster.clock.advance(3)
        found = [zones[node] for node in await _placed(cluster, "web-")]
    counts = [found.count(zone) for zone in ("z0", "z1", "z2")]
    assert sum(counts) == 20
    assert max(counts) - min(counts) <= 1


async def test_batches_and_their_quotas_have_one_scheduler(cluster: SchedulingCluster) -> None:
    batch = LiveBatchSettings(None, clock=cluster.clock)
    async with _sharing(cluster, batch=batch) as schedulers:
        owners = [one for one in schedulers if one.shard is not None and one.shard.ownership.owns_key(BATCH_KEY)]
        assert len(owners) == 1


async def test_two_schedulers_fill_a_cluster_without_overselling_it(cluster: SchedulingCluster) -> None:
    for number in range(4):
        await cluster.add_node(f"n{number}", cpu="2", pods="50")
    observer = AllocationObserver()
    async with contextlib.AsyncExitStack() as stack:
        following = observer.following(cluster.client, clock=cluster.clock, rng=_Chance())
        entering = asyncio.ensure_future(stack.enter_async_context(following))

        async def entered() -> bool:
            return entering.done()

        await cluster.until(entered)
        await stack.enter_async_context(_sharing(cluster))
        ports = [{"containerPort": 80, "hostPort": 8080}]
        for number in range(30):
            about: dict[str, Any] = {"cpu": "300m"} if number % 3 else {"containers": _container(ports=ports)}
            await cluster.add_pod(f"web-{number}", **about)
        await cluster.clock.advance(3)

        async def seen() -> bool:
            return observer.bindings == len(await _placed(cluster, "web-"))

        await cluster.until(seen)
    assert observer.violations == []
    assert observer.bindings == 24  # 20 of 300m, and a host port on each of four nodes
