"""ReplicaSets have as many pods as they say, whoever makes or takes pods."""

import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.workloads import PODS, Kubelet, a_few_steps, listed, reaches, reasons

from rota.api import meta, times
from rota.client.verbs import Propagation
from rota.controllers import pod_states
from rota.controllers.replica_sets import REPLICA_SETS, ReplicaSetController
from rota.testing import manifests
from rota.testing.virtual_api import VirtualCluster

QUOTAS = ("", "v1", "resourcequotas")


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    async with running(cluster):
        yield


@contextlib.asynccontextmanager
async def running(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:replica-sets")
    async with cluster.running(ReplicaSetController(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


@pytest.fixture
async def kubelet(cluster: VirtualCluster) -> AsyncIterator[Kubelet]:
    it = Kubelet(cluster)
    async with cluster.running(it.run):
        yield it


def replica_set(name: str = "web", replicas: int = 3, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


async def scale(cluster: VirtualCluster, name: str, replicas: int) -> None:
    await cluster.client.patch(REPLICA_SETS, name, {"spec": {"replicas": replicas}}, namespace="default")


async def test_a_set_has_as_many_pods_as_it_says(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await cluster.client.create(REPLICA_SETS, replica_set(replicas=5))
    found = await reaches(cluster, REPLICA_SETS, "web", readyReplicas=5, availableReplicas=5, observedGeneration=1)
    assert found["status"]["fullyLabeledReplicas"] == 5
    pods = await listed(cluster, PODS)
    assert all(meta.name(one).startswith("web-") for one in pods)
    assert {meta.controller_of(one)["uid"] for one in pods} == {meta.uid(found)}  # type: ignore[index]
    await scale(cluster, "web", 2)
    await reaches(cluster, REPLICA_SETS, "web", replicas=2, readyReplicas=2, observedGeneration=2)
    assert len(await listed(cluster, PODS)) == 2
    assert await reasons(cluster, "web") == {"SuccessfulCreate": 5, "SuccessfulDelete": 3}


async def test_a_pod_that_ends_or_is_taken_away_is_made_again(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await cluster.client.create(REPLICA_SETS, replica_set(replicas=2))
    await reaches(cluster, REPLICA_SETS, "web", readyReplicas=2)
    first, second = await listed(cluster, PODS)
    await cluster.client.patch(
        PODS, meta.name(first), {"status": {"phase": "Failed"}}, namespace="default", subresource="status"
    )
    await cluster.client.delete(PODS, meta.name(second), namespace="default")
    await cluster.clock.advance(2)
    await reaches(cluster, REPLICA_SETS, "web", readyReplicas=2)
    active = {meta.name(one) for one in await listed(cluster, PODS) if pod_states.is_active(one)}
    assert len(active) == 2
    assert not active & {meta.name(first), meta.name(second)}


async def test_pods_are_adopted_by_their_labels_and_let_go_by_them(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await cluster.client.create(PODS, manifests.pod("stray", labels={"app": "web"}), namespace="default")
    await cluster.client.create(REPLICA_SETS, replica_set(replicas=1))
    owner = await reaches(cluster, REPLICA_SETS, "web", readyReplicas=1)
    stray = await cluster.client.get(PODS, "stray", namespace="default")
    assert meta.controller_of(stray) == meta.controller_reference(owner)
    await cluster.client.patch(PODS, "stray", {"metadata": {"labels": {"app": "off"}}}, namespace="default")
    await cluster.clock.advance(1)
    await reaches(cluster, REPLICA_SETS, "web", readyReplicas=1)
    stray = await cluster.client.get(PODS, "stray", namespace="default")
    assert meta.controller_of(stray) is None
    assert len(await listed(cluster, PODS)) == 2
    # Back again it is one too many, and one of them goes.
    await cluster.client.patch(PODS, "stray", {"metadata": {"labels": {"app": "web"}}}, namespace="default")
    await cluster.clock.advance(1)
    await reaches(cluster, REPLICA_SETS, "web", replicas=1, readyReplicas=1)
    assert len(await listed(cluster, PODS)) == 1


async def test_a_set_deleted_with_orphans_leaves_them_for_the_next(cluster: VirtualCluster, kubelet: Kubelet) -> None:
    await cluster.client.create(REPLICA_SETS, replica_set(replicas=2))
    await reaches(cluster, REPLICA_SETS, "web", readyReplicas=2)
    before = {meta.name(one) for one in await listed(cluster, PODS)}
    await cluster.client.delete(REPLICA_SETS, "web", namespace="default", propagation=Propagation.ORPHAN)
    for name in before:  # what the garbage collector does
        await cluster.client.patch(PODS, name, {"metadata": {"ownerReferences": None}}, namespace="default")
    await cluster.client.patch(REPLICA_SETS, "web", {"metadata": {"finalizers": None}}, namespace="default")
    await cluster.client.create(REPLICA_SETS, replica_set(replicas=2))
    await reaches(cluster, REPLICA_SETS, "web", readyReplicas=2)
    assert {meta.name(one) for one in await listed(cluster, PODS)} == before


async def test_pods_count_as_available_after_they_were_ready_for_long_enough(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    await cluster.client.create(REPLICA_SETS, replica_set(replicas=2, minReadySeconds=30))
    await reaches(cluster, REPLICA_SETS, "web", readyReplicas=2, availableReplicas=0)
    await cluster.clock.advance(20)
    await reaches(cluster, REPLICA_SETS, "web", readyReplicas=2, availableReplicas=0)
    await reaches(cluster, REPLICA_SETS, "web", readyReplicas=2, availableReplicas=2)


async def test_what_the_server_refuses_is_said_in_a_condition_until_it_is_over(
    cluster: VirtualCluster, kubelet: Kubelet
) -> None:
    await cluster.client.create(
        QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}, namespace="default"
    )
    await cluster.client.patch(
        QUOTAS,
        "q",
        {"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}},
        namespace="default",
        subresource="status",
    )
    await cluster.client.create(REPLICA_SETS, replica_set(replicas=3))
    found = await reaches(cluster, REPLICA_SETS, "web", readyReplicas=1)
    failure = meta.condition(found, "ReplicaFailure")
    assert failure is not None
    assert (failure["status"], failure["reason"]) == ("True", "FailedCreate")
    assert "exceeded quota" in failure["message"]
    await cluster.client.delete(QUOTAS, "q", namespace="default")
    found = await reaches(cluster, REPLICA_SETS, "web", readyReplicas=3)
    assert meta.condition(found, "ReplicaFailure") is None


@pytest.mark.slow
async def test_a_controller_that_dies_at_any_moment_leaves_no_pod_too_many_or_too_few(cluster: VirtualCluster) -> None:
    rng, wanted = random.Random(7), 0
    kubelet = Kubelet(cluster)
    async with cluster.running(kubelet.run):
        await cluster.client.create(REPLICA_SETS, replica_set(replicas=0))
        for _ in range(30):
            wanted = rng.randrange(9)
            await scale(cluster, "web", wanted)
            async with running(cluster):
                await a_few_steps(rng)
            await cluster.clock.advance(1)
        async with running(cluster):
            await reaches(cluster, REPLICA_SETS, "web", replicas=wanted, readyReplicas=wanted)
            assert len([one for one in await listed(cluster, PODS) if pod_states.is_active(one)]) == wanted


NOW = 1_700_000_000.0


def pod(
    uid: str, *, node: str = "", phase: str = "Running", ready_for: float = -1, cost: str = "", restarts: int = 0
) -> Any:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": times.format_time(NOW - ready_for)}
    return {
        "metadata": {
            "uid": uid,
            "annotations": {pod_states.DELETION_COST: cost} if cost else {},
            "creationTimestamp": times.format_time(NOW - 5000),
        },
        "spec": {"nodeName": node},
        "status": {
            "phase": phase,
            "conditions": [ready] if ready_for >= 0 else [],
            "containerStatuses": [{"restartCount": restarts}],
        },
    }


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (pod("a", node="n"), pod("b", phase="Pending")),
        (pod("a", node="n"), pod("b", node="n", phase="Pending")),
        (pod("a", node="n", ready_for=5), pod("b", node="n")),
        (pod("a", node="n", ready_for=5), pod("b", node="n", ready_for=500, cost="-10")),
        (pod("a", node="n", ready_for=5, cost="10"), pod("b", node="n", ready_for=500)),
        (pod("a", node="lonely", ready_for=5), pod("b", node="crowded", ready_for=500)),
        (pod("a", node="n", ready_for=500), pod("b", node="n", ready_for=5)),
        (pod("a", node="n", ready_for=500), pod("b", node="n", ready_for=500, restarts=3)),
        (pod("b", node="n", ready_for=500), pod("a", node="n", ready_for=499)),
        (pod("a", node="n", ready_for=5, cost="+10"), pod("b", node="n", ready_for=5, cost="010")),
    ],
)
def test_the_pod_that_is_missed_least_goes_first(better: Any, worse: Any) -> None:
    related = [pod("c", node="crowded")] * 3
    for pods in ([better, worse], [worse, better]):
        assert pod_states.deletion_order(pods, 1, related=related, now=NOW) == [worse]


@given(st.lists(st.sampled_from(["Pending", "Running", "Unknown"]), min_size=1, max_size=6), st.integers(0, 8))
def test_as_many_go_as_should_and_none_twice(phases: list[str], count: int) -> None:
    pods = [pod(str(number), phase=phase) for number, phase in enumerate(phases)]
    chosen = pod_states.deletion_order(pods, count, related=pods, now=NOW)
    assert len({meta.uid(one) for one in chosen}) == len(chosen) == min(count, len(pods))
