from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from rota.client.pods import PODS
from rota.client.transports.transport import Call, Interrupted
from rota.columns.pods import PodInfo
from rota.scheduler.preemption.evictions import Evictions
from rota.testing.schedulers import SchedulingCluster

CLASSES = ("scheduling.k8s.io", "v1", "priorityclasses")
BUDGETS = ("policy", "v1", "poddisruptionbudgets")


@pytest.fixture(autouse=True)
async def urgent(cluster: SchedulingCluster) -> None:
    meta = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    await cluster.client.create(CLASSES, {**meta, "metadata": {"name": "urgent"}, "value": 1000})
    polite = {"metadata": {"name": "polite"}, "value": 1000, "preemptionPolicy": "Never"}
    await cluster.client.create(CLASSES, {**meta, **polite})


async def protect(cluster: SchedulingCluster, app: str, allowed: int) -> None:
    spec = {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1}
    meta = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    await cluster.client.create(BUDGETS, {**meta, "metadata": {"name": app, "namespace": "default"}, "spec": spec})
    status: Mapping[str, Any] = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        "observedGeneration": 1,
    }
    patch = {"status": status}
    await cluster.client.patch(BUDGETS, app, patch, namespace="default", subresource="status")


async def make_ready(cluster: SchedulingCluster, name: str) -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    patch = {"status": {"phase": "Running", "conditions": conditions}}
    await cluster.client.patch(PODS, name, patch, namespace="default", subresource="status")


async def test_less_important_pods_make_room(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling() as scheduler:
        await cluster.add_pod("small", cpu="3", terminationGracePeriodSeconds=0)
        await cluster.bound("small")
        await cluster.add_pod("important", cpu="3", priorityClassName="urgent")
        await cluster.bound("important", "n1")
        assert not await cluster.exists(PODS, "small", "default")
        pod = await cluster.pod("important")
        said = await cluster.said("small", "Preempted")
        assert said == f"Preempted by pod {pod['metadata']['uid']} on node n1"
        assert scheduler.metrics.value("preemption_attempts_total") == 1


async def test_a_pod_that_waits_for_room_is_nominated_and_its_victim_marked(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling() as scheduler:
        await cluster.add_pod("small", cpu="3", terminationGracePeriodSeconds=600)
        await cluster.bound("small")
        await cluster.add_pod("important", cpu="3", priorityClassName="urgent")

        async def nominated() -> bool:
            return bool((await cluster.pod("important"))["status"].get("nominatedNodeName") == "n1")

        await cluster.until(nominated)
        victim = await cluster.pod("small")
        assert victim["metadata"]["deletionTimestamp"]
        (mark,) = [one for one in victim["status"]["conditions"] if one["type"] == "DisruptionTarget"]
        assert (mark["status"], mark["reason"]) == ("True", "PreemptionByScheduler")
        assert list(scheduler.queue.nominations()) == ["n1"]
        await cluster.add_pod("late", cpu="3")
        await cluster.refused("late")
        await cluster.client.delete(PODS, "small", namespace="default", grace_period_s=0)
        await cluster.bound("important", "n1")
        assert not scheduler.queue.nominations()


async def test_evictions_are_charged_to_budgets_that_allow_them(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling():
        await cluster.add_pod("small", cpu="3", labels={"app": "a"}, terminationGracePeriodSeconds=0)
        await cluster.bound("small")
        await make_ready(cluster, "small")
        await protect(cluster, "a", 1)
        await cluster.add_pod("important", cpu="3", priorityClassName="urgent")
        await cluster.bound("important")
        budget = await cluster.client.get(BUDGETS, "a", namespace="default")
        assert budget["status"]["disruptionsAllowed"] == 0


async def test_a_budget_that_allows_nothing_is_overruled_in_the_end(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()
    async with cluster.scheduling(client=client):
        await cluster.add_pod("small", cpu="3", labels={"app": "a"}, terminationGracePeriodSeconds=0)
        await cluster.bound("small")
        await make_ready(cluster, "small")
        await protect(cluster, "a", 0)
        await cluster.add_pod("important", cpu="3", priorityClassName="urgent")
        await cluster.bound("important")

    def asked(call: Call) -> bool:
        return "/pods/small" in call.path and call.method in {"POST", "DELETE"}

    assert [call.path.rpartition("/")[2] for call in transport.calls if asked(call)] == ["eviction", "small"]


async def test_a_pod_that_never_preempts_waits(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling():
        await cluster.add_pod("small", cpu="3")
        await cluster.bound("small")
        await cluster.add_pod("polite", cpu="3", priorityClassName="polite")
        message = (await cluster.refused("polite"))["message"]
        assert message.endswith("preemption: not eligible due to preemptionPolicy=Never.")
        assert await cluster.exists(PODS, "small", "default")


async def crowded(cluster: SchedulingCluster) -> None:
    """A node whose only room is held by a pod that takes its time to leave, and a pod that wants it."""
    await cluster.add_node("n1")
    await cluster.add_pod("small", cpu="3", terminationGracePeriodSeconds=600)
    await cluster.bound("small")
    await cluster.add_pod("important", cpu="3", priorityClassName="urgent")

    async def leaving() -> bool:
        return bool((await cluster.pod("small"))["metadata"].get("deletionTimestamp"))

    await cluster.until(leaving)


async def test_a_pod_that_goes_while_room_is_made_for_it_leaves_the_room_to_others(cluster: SchedulingCluster) -> None:
    async with cluster.scheduling() as scheduler:
        await crowded(cluster)
        await cluster.add_pod("modest", cpu="3")
        await cluster.refused("modest")
        await cluster.client.delete(PODS, "important", namespace="default", grace_period_s=0)
        await cluster.client.delete(PODS, "small", namespace="default", grace_period_s=0)
        await cluster.bound("modest", "n1")
        assert not scheduler.queue.nominations()


async def test_a_pod_of_higher_priority_may_come_to_where_room_was_made_for_another(cluster: SchedulingCluster) -> None:
    meta = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    await cluster.client.create(CLASSES, {**meta, "metadata": {"name": "vital"}, "value": 2000})
    async with cluster.scheduling():
        await crowded(cluster)
        await cluster.add_pod("vital", cpu="3", priorityClassName="vital")
        await cluster.client.delete(PODS, "small", namespace="default", grace_period_s=0)
        await cluster.bound("vital", "n1")
        assert (await cluster.refused("important"))["reason"] == "Unschedulable"
        await cluster.add_node("n2")
        await cluster.bound("important", "n2")


async def test_a_victim_that_is_gone_before_its_eviction_is_no_obstacle(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()

    async def overtake(call: Call) -> None:
        if call.path.endswith("/pods/small/eviction"):
            transport.before = None
            await cluster.client.delete(PODS, "small", namespace="default", grace_period_s=0)

    async with cluster.scheduling(client=client):
        await cluster.add_pod("small", cpu="3")
        await cluster.bound("small")
        transport.before = overtake
        await cluster.add_pod("important", cpu="3", priorityClassName="urgent")
        await cluster.bound("important", "n1")
        assert transport.before is None


async def test_a_pod_whose_eviction_failed_looks_for_room_again_at_once(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()
    failed: list[float] = []

    async def fail_once(call: Call) -> None:
        if call.path.endswith("/pods/small/eviction") and not failed:
            failed.append(cluster.clock.monotonic())
            raise Interrupted("the server is away")

    async with cluster.scheduling(client=client):
        await cluster.add_pod("small", cpu="3", terminationGracePeriodSeconds=0)
        await cluster.bound("small")
        transport.before = fail_once
        await cluster.add_pod("important", cpu="3", priorityClassName="urgent")
        await cluster.bound("important", "n1")
        assert cluster.clock.monotonic() - failed[0] < 30


async def test_a_pod_whose_evictions_could_not_be_started_preempts_later(
    cluster: SchedulingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = Evictions.start
    broken: list[str] = []

    def first_raises(evictions: Evictions, preemptor: PodInfo, node_name: str, victims: Sequence[PodInfo]) -> None:
        if not broken:
            broken.append(preemptor.name)
            raise RuntimeError("no")
        start(evictions, preemptor, node_name, victims)

    monkeypatch.setattr(Evictions, "start", first_raises)
    await cluster.add_node("n1")
    async with cluster.scheduling():
        await cluster.add_pod("small", cpu="3", terminationGracePeriodSeconds=0)
        await cluster.bound("small")
        await cluster.add_pod("important", cpu="3", priorityClassName="urgent")
        await cluster.clock.advance(5)
        assert broken == ["important"]
        await cluster.clock.advance(400)
        await cluster.bound("important", "n1")
