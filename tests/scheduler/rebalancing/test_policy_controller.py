"""The leader rebalances: a real scheduler, real controllers and a kubelet in a few lines, in virtual time."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.controllers.workloads import Kubelet

from rota.api import meta
from rota.client.informers import shared_decoding
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.pods import PODS
from rota.client.transports.transport import Call
from rota.client.verbs import Client, Object, PatchType, Selection
from rota.controllers.disruption import BUDGETS, DisruptionController
from rota.controllers.replica_sets import ReplicaSetController
from rota.scheduler.plugin_registry import configuration_source
from rota.scheduler.rebalancing.policies import NAME, POLICIES
from rota.scheduler.rebalancing.policy_controller import RebalancingController
from rota.scheduler.rebalancing.rebalance_plan import Plan
from rota.scheduler.snapshot import cluster_snapshot
from rota.testing import schedulers
from rota.testing.schedulers import EVENTS, SchedulingCluster, configured

NODES = ("", "v1", "nodes")
SETS = ("apps", "v1", "replicasets")
LEASES = ("coordination.k8s.io", "v1", "leases")


@pytest.fixture
async def cluster() -> AsyncIterator[SchedulingCluster]:
    async with schedulers.cluster() as made:
        yield made


async def at_once(plan: Callable[..., Plan], *arguments: Any, **more: Any) -> Plan:
    """In virtual time a thread would take hours."""
    return plan(*arguments, **more)


def leader(cluster: SchedulingCluster, client: Client | None = None) -> RebalancingController:
    return RebalancingController(
        client or cluster.acting_as("rota:controller:rebalancing"),
        configuration_source.frameworks(configured()),
        clock=cluster.clock,
        rng=random.Random(0),
        aside=at_once,
    )


@contextlib.asynccontextmanager
async def at_work(cluster: SchedulingCluster) -> AsyncIterator[None]:
    """All that makes pods come and go."""
    async with contextlib.AsyncExitStack() as parts:
        for make in (ReplicaSetController, DisruptionController):
            made = make(cluster.client, clock=cluster.clock, rng=random.Random(1))
            await parts.enter_async_context(cluster.running(made.run))
        await parts.enter_async_context(cluster.running(Kubelet(cluster, binds=False).run))
        await parts.enter_async_context(cluster.scheduling())
        yield


async def add_set(cluster: SchedulingCluster, name: str, replicas: int, *, cpu: str = "400m") -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    await cluster.client.create(SETS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


async def add_budget(cluster: SchedulingCluster, name: str, **spec: Any) -> None:
    selector = {"matchLabels": {"app": name}}
    metadata = {"name": name, "namespace": "default"}
    await cluster.client.create(BUDGETS, {"metadata": metadata, "spec": {"selector": selector, **spec}})


async def add_policy(cluster: SchedulingCluster, **spec: Any) -> None:
    usual = {"intervalSeconds": 60, "youngestSeconds": 0, **spec}
    await cluster.client.create(POLICIES, {"metadata": {"name": NAME}, "spec": usual})


async def change_policy(cluster: SchedulingCluster, **spec: Any) -> None:
    await cluster.client.patch(POLICIES, NAME, {"spec": spec}, type=PatchType.MERGE)


async def status(cluster: SchedulingCluster) -> Object:
    return (await cluster.client.get(POLICIES, NAME)).get("status") or {}


async def running(cluster: SchedulingCluster, name: str = "") -> list[Object]:
    found = await cluster.client.list(
        PODS, namespace="default", selection=Selection(labels=f"app={name}" if name else "")
    )
    return [one for one in found.items if one["status"]["phase"] == "Running" and not meta.is_deleting(one)]


async def are_running(cluster: SchedulingCluster, count: int) -> None:
    async def condition() -> bool:
        return len(await running(cluster)) == count

    await cluster.until(condition)


async def by_node(cluster: SchedulingCluster, name: str = "") -> Counter[str]:
    return Counter(one["spec"]["nodeName"] for one in await running(cluster, name))


async def drifted(cluster: SchedulingCluster, *, replicas: int = 6) -> None:
    """Two nodes with everything, beside two that came later."""
    for name in ("a", "b"):
        await cluster.add_node(name)
    await add_set(cluster, "web", replicas)
    await are_running(cluster, replicas)
    for name in ("c", "d"):
        await cluster.add_node(name)


class Availability:
    """How few pods were there at any moment, by every change that was written."""

    def __init__(self, cluster: SchedulingCluster) -> None:
        self.fewest = 10**6
        self._ready: set[Key] = set()
        self._pods = Informer[Object](
            Source(client=cluster.client, target=PODS, namespace="default"),
            decode=shared_decoding.shared,
            clock=cluster.clock,
            rng=random.Random(2),
        )
        self._pods.add_handler(self._changed)
        self.run = self._pods.run

    def _changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None and meta.is_condition_true(new, "Ready") and not meta.is_deleting(new):
            self._ready.add(key)
        else:
            self._ready.discard(key)
        if self._pods.synced:
            self.fewest = min(self.fewest, len(self._ready))


async def planned(cluster: SchedulingCluster, *, generation: int = 1) -> Object:
    """The status once a plan was made by this policy."""

    async def condition() -> bool:
        return (await status(cluster)).get("observedGeneration") == generation

    await cluster.until(condition)
    return await status(cluster)


@pytest.mark.slow
async def test_drift_is_repaired_within_its_budget_and_then_nothing_moves_any_more(cluster: SchedulingCluster) -> None:
    leading = leader(cluster)
    async with at_work(cluster), cluster.running(leading.run):
        await drifted(cluster)
        await add_budget(cluster, "web", maxUnavailable=1)
        await cluster.clock.advance(5)
        availability = Availability(cluster)
        async with cluster.running(availability.run):
            await cluster.clock.advance(5)
            await add_policy(cluster)
            await cluster.clock.advance(600)
        assert set((await by_node(cluster)).values()) == {1, 2}
        assert availability.fewest == 5
        there = {meta.uid(one) for one in await running(cluster)}
        said = await status(cluster)
        assert [one["reason"] for one in said["conditions"]] == ["NothingToMove"]
        assert said["before"] == said["after"]
        assert all(one["from"] in {"a", "b"} and one["to"] in {"c", "d"} for one in said["moves"])
        figures = leading.metrics
        assert figures.value("moves_total", strategy="duplicates") == len(said["moves"])
        assert figures.value("duplicates", when="after") == said["after"]["duplicates"]
        # for an hour
        for _ in range(6):
            await cluster.clock.advance(600)
            assert {meta.uid(one) for one in await running(cluster)} == there


@pytest.mark.slow
async def test_without_a_policy_or_with_a_suspended_one_nothing_moves(cluster: SchedulingCluster) -> None:
    async with at_work(cluster), cluster.running(leader(cluster).run):
        await drifted(cluster)
        there = {meta.uid(one) for one in await running(cluster)}
        await cluster.clock.advance(120)
        await add_policy(cluster, suspend=True)
        await cluster.clock.advance(120)
        assert {meta.uid(one) for one in await running(cluster)} == there
        assert not await status(cluster)
        await change_policy(cluster, suspend=False)
        assert len((await planned(cluster, generation=2))["moves"]) > 0


@pytest.mark.slow
async def test_a_dry_run_tells_and_changes_nothing_and_its_end_is_heeded_at_once(cluster: SchedulingCluster) -> None:
    async with at_work(cluster), cluster.running(leader(cluster).run):
        await drifted(cluster)
        there = {meta.uid(one): meta.name(one) for one in await running(cluster)}
        await add_policy(cluster, dryRun=True, intervalSeconds=3600)
        said = await planned(cluster)
        assert said["moves"]
        assert all(one["dryRun"] and one["why"] for one in said["moves"])
        assert said["before"]["duplicates"] > said["after"]["duplicates"]
        await cluster.clock.advance(30)
        assert {meta.uid(one) for one in await running(cluster)} == there.keys()
        events = (await cluster.client.list(EVENTS, namespace="default")).items
        told = {one["involvedObject"]["name"] for one in events if one["reason"] == "RebalancePlanned"}
        assert told == {one["name"] for one in said["moves"]}
        assert told <= set(there.values())
        await change_policy(cluster, dryRun=False)
        assert not any("dryRun" in one for one in (await planned(cluster, generation=2))["moves"])


@pytest.mark.slow
async def test_limits_hold_over_hours(cluster: SchedulingCluster) -> None:
    async with at_work(cluster), cluster.running(leader(cluster).run):
        await drifted(cluster)
        await add_policy(cluster, mostPerHour=1)
        before = await by_node(cluster)
        await planned(cluster)
        await cluster.clock.advance(1800)
        assert [one["reason"] for one in (await status(cluster))["conditions"]] == ["EnoughForNow"]
        assert sum((before - await by_node(cluster)).values()) == 1
        await cluster.clock.advance(2400)
        assert sum((before - await by_node(cluster)).values()) == 2


async def test_pods_with_work_that_ends_or_without_a_controller_stay(cluster: SchedulingCluster) -> None:
    async with at_work(cluster):
        await cluster.add_node("a")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u", "controller": True}
        for name, owners in (("of-a-job", [owner]), ("bare", [])):
            spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never" if owners else "Always"}
            metadata = {"name": name, "namespace": "default", "ownerReferences": owners}
            await cluster.client.create(PODS, {"metadata": metadata, "spec": spec})
        await are_running(cluster, 2)
        await cluster.add_node("b")
        taint = {"key": "dedicated", "effect": "NoSchedule"}
        await cluster.client.patch(NODES, "a", {"spec": {"taints": [taint]}}, type=PatchType.MERGE)
        async with cluster.running(leader(cluster).run):
            await add_policy(cluster)
            said = await planned(cluster)
            assert not said["moves"]
            assert {one["pod"]: one["why"] for one in said["stays"]} == {
                "default/of-a-job": "would begin its work anew",
                "default/bare": "nothing would replace it",
            }
            await cluster.clock.advance(60)
            await change_policy(cluster, jobs=True)
            assert [one["name"] for one in (await planned(cluster, generation=2))["moves"]] == ["of-a-job"]


async def test_a_plan_by_usage_without_usage_metrics_is_not_made(cluster: SchedulingCluster) -> None:
    async with cluster.running(leader(cluster).run):
        await add_policy(cluster, by="usage")
        [condition] = (await planned(cluster))["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "NobodyMeasures")
        assert "no usage metrics" in condition["message"]


@pytest.mark.slow
async def test_a_leader_that_dies_between_two_moves_leaves_limits_and_places_as_they_were(
    cluster: SchedulingCluster,
) -> None:
    async def lease(holder: str, transitions: int) -> None:
        metadata = {"name": "duty", "namespace": "kube-system"}
        spec = {"holderIdentity": holder, "leaseTransitions": transitions, "leaseDurationSeconds": 10}
        if transitions:
            found = await cluster.client.get(LEASES, "duty", namespace="kube-system")
            await cluster.client.update(LEASES, {**found, "spec": spec})
        else:
            await cluster.client.create(LEASES, {"metadata": metadata, "spec": spec})

    stuck, go_on, evictions = asyncio.Event(), asyncio.Event(), 0

    async def falls_asleep(call: Call) -> None:
        nonlocal evictions
        if call.path.endswith("/eviction"):
            evictions += 1
            if evictions == 2:
                stuck.set()
                await go_on.wait()

    client, way = cluster.meddling()
    way.before = falls_asleep
    async with at_work(cluster):
        await drifted(cluster)
        await lease("first", 0)
        there = {meta.uid(one) for one in await running(cluster)}
        await add_policy(cluster, intervalSeconds=600, mostPerHour=3)
        first = leader(cluster, client.with_settings(term=lambda: "kube-system/duty/0/first"))
        second = leader(cluster, cluster.client.with_settings(term=lambda: "kube-system/duty/1/second"))
        async with cluster.running(first.run):
            for _ in range(100):
                await cluster.clock.advance(0.1)
                if stuck.is_set():
                    break
            assert stuck.is_set()
            await are_running(cluster, 6)
            await lease("second", 1)
            async with cluster.running(second.run):
                await cluster.clock.advance(30)
                go_on.set()
                await cluster.clock.advance(300)
                # the first moved one pod, and nothing after its term; the second waits for its turn
                gone = there - {meta.uid(one) for one in await running(cluster)}
                assert len(gone) == 1
                planned_by_first = (await status(cluster))["moves"]
                assert len(planned_by_first) >= 2
                # and counts what the first has announced
                await cluster.clock.advance(1200)
                now_there = {meta.uid(one) for one in await running(cluster)}
                assert len(there - now_there) <= 1 + 3 - len(planned_by_first)
                await cluster.clock.advance(3600)
                assert set((await by_node(cluster)).values()) == {1, 2}
        await way.close()


async def test_what_the_rebalancer_may_read_is_all_that_decisions_look_at(cluster: SchedulingCluster) -> None:
    snapshot = await cluster_snapshot.take(cluster.acting_as("rota:controller:rebalancing"))
    assert snapshot.left_out == []
