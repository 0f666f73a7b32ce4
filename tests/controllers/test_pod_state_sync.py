"""Pods for which no worker speaks: what the API says of them becomes true all the same."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import meta
from rota.controllers.pod_state_sync import NODES, PODS, QUARANTINE_S, TAKING_UP_S, PodStateSync
from rota.testing.virtual_api import VirtualCluster

KEPT = 3


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    controller = PodStateSync(
        cluster.acting_as("rota:controller:pod-state-sync"), clock=cluster.clock, rng=cluster.rng, kept=KEPT
    )
    async with cluster.running(controller.run):
        yield


async def node(cluster: VirtualCluster, name: str, *, ready: str = "True") -> None:
    status = {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": ready}]}
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
    await cluster.client.create(NODES, made)


async def pod(cluster: VirtualCluster, name: str, *, on: str = "n", **status: Any) -> None:
    spec = {"nodeName": on, "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "namespace": "default"}
    await cluster.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    if status:
        await cluster.client.patch(PODS, name, {"status": status}, namespace="default", subresource="status")


async def status_of(cluster: VirtualCluster, name: str) -> Any:
    return (await cluster.client.get(PODS, name, namespace="default"))["status"]


async def test_pods_of_a_node_that_is_gone_for_good_are_disrupted_and_go(cluster: VirtualCluster) -> None:
    await node(cluster, "n")
    await pod(cluster, "p", phase="Running", startTime="2026-01-01T00:00:00Z")
    await cluster.client.patch(PODS, "p", {"metadata": {"finalizers": ["example.com/count"]}}, namespace="default")
    await cluster.client.delete(NODES, "n")
    await cluster.clock.advance(QUARANTINE_S - 1)
    assert (await status_of(cluster, "p"))["phase"] == "Running"
    await cluster.clock.advance(5)
    found = await cluster.client.get(PODS, "p", namespace="default")
    assert found["status"]["phase"] == "Failed"
    assert (meta.condition(found, "DisruptionTarget") or {})["reason"] == "DeletionByPodGC"
    assert meta.is_deleting(found)
    await cluster.client.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace="default")
    await cluster.gone(PODS, "p", "default")


async def test_a_node_that_comes_back_in_time_keeps_its_pods(cluster: VirtualCluster) -> None:
    await node(cluster, "n")
    await pod(cluster, "p", phase="Running", startTime="2026-01-01T00:00:00Z")
    await cluster.client.delete(NODES, "n")
    await cluster.clock.advance(QUARANTINE_S / 2)
    await node(cluster, "n")
    await cluster.clock.advance(QUARANTINE_S * 2)
    assert (await status_of(cluster, "p"))["phase"] == "Running"


async def test_a_pod_that_a_living_worker_never_takes_up_is_given_back(cluster: VirtualCluster) -> None:
    await node(cluster, "n")
    await pod(cluster, "claimed")
    await cluster.clock.advance(TAKING_UP_S - 5)
    assert (await status_of(cluster, "claimed"))["phase"] == "Pending"
    await cluster.clock.advance(10)
    found = await cluster.client.get(PODS, "claimed", namespace="default")
    assert found["status"]["phase"] == "Failed"
    assert found["status"]["reason"] == "NeverTakenUp"
    assert meta.is_condition_true(found, "DisruptionTarget")


@pytest.mark.parametrize(("ready", "status"), [("Unknown", {}), ("True", {"startTime": "2026-01-01T00:00:00Z"})])
async def test_silent_and_started_pods_are_left_alone(
    cluster: VirtualCluster, ready: str, status: dict[str, Any]
) -> None:
    await node(cluster, "n", ready=ready)
    await pod(cluster, "p", **status)
    await cluster.clock.advance(TAKING_UP_S * 3)
    assert (await status_of(cluster, "p")).get("phase") == "Pending"


async def test_of_pods_that_are_over_the_oldest_go(cluster: VirtualCluster) -> None:
    await node(cluster, "n")
    for number in range(KEPT + 2):
        await pod(cluster, f"p{number}", phase="Succeeded")
        await cluster.clock.advance(1)
    await pod(cluster, "running", phase="Running", startTime="2026-01-01T00:00:00Z")
    await cluster.gone(PODS, "p0", "default")
    await cluster.gone(PODS, "p1", "default")
    left = {meta.name(one) for one in (await cluster.client.list(PODS)).items}
    assert left == {"p2", "p3", "p4", "running"}
