"""Pods whose worker never confirms that they ended."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.controllers.pod_gc import PATIENCE_S, PODS, PodGarbageCollector
from rota.testing.virtual_api import VirtualCluster

NODES = ("", "v1", "nodes")
_GRACE_S = 20


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    controller = PodGarbageCollector(
        cluster.acting_as("rota:controller:pod-garbage-collector"), clock=cluster.clock, rng=cluster.rng
    )
    async with cluster.running(controller.run):
        yield


async def _running_pod(cluster: VirtualCluster, name: str, **metadata: Any) -> None:
    status = {"allocatable": {"cpu": "4", "pods": "10"}}
    if not await cluster.exists(NODES, "n"):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}
        await cluster.client.create(NODES, node)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {
            "nodeName": "n",
            "terminationGracePeriodSeconds": _GRACE_S,
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    await cluster.client.create(PODS, pod)


async def test_a_pod_past_its_grace_goes_without_its_worker(cluster: VirtualCluster) -> None:
    await _running_pod(cluster, "lost")
    await cluster.client.delete(PODS, "lost", namespace="default")
    await cluster.clock.advance(_GRACE_S)
    assert await cluster.exists(PODS, "lost", "default")
    await cluster.clock.advance(PATIENCE_S + 1)
    await cluster.gone(PODS, "lost", "default")


async def test_a_worker_that_seems_well_is_given_more_time(cluster: VirtualCluster) -> None:
    await _running_pod(cluster, "slow")
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.client.patch(NODES, "n", {"status": ready}, subresource="status")
    await cluster.client.delete(PODS, "slow", namespace="default")
    await cluster.clock.advance(_GRACE_S + PATIENCE_S + 10)
    assert await cluster.exists(PODS, "slow", "default")
    unwell = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    await cluster.client.patch(NODES, "n", {"status": unwell}, subresource="status")
    await cluster.gone(PODS, "slow", "default")


async def test_a_shortened_grace_is_the_one_that_counts(cluster: VirtualCluster) -> None:
    await _running_pod(cluster, "hurried")
    await cluster.client.delete(PODS, "hurried", namespace="default")
    await cluster.clock.advance(1)
    await cluster.client.delete(PODS, "hurried", namespace="default", grace_period_s=2)
    await cluster.clock.advance(2 + PATIENCE_S)
    assert not await cluster.exists(PODS, "hurried", "default")


async def test_a_finalizer_still_holds_a_pod_that_is_overdue(cluster: VirtualCluster) -> None:
    await _running_pod(cluster, "held", finalizers=["example.com/hold"])
    await cluster.client.delete(PODS, "held", namespace="default")
    await cluster.clock.advance(_GRACE_S + PATIENCE_S + 60)
    assert await cluster.exists(PODS, "held", "default")
    await cluster.client.patch(PODS, "held", {"metadata": {"finalizers": None}}, namespace="default")
    await cluster.gone(PODS, "held", "default")


async def test_pods_that_were_not_deleted_and_their_successors_stay(cluster: VirtualCluster) -> None:
    await _running_pod(cluster, "fine")
    await _running_pod(cluster, "again")
    await cluster.client.delete(PODS, "again", namespace="default")
    await cluster.clock.advance(1)
    await cluster.client.delete(PODS, "again", namespace="default", grace_period_s=0)
    await _running_pod(cluster, "again")
    await cluster.clock.advance(_GRACE_S + PATIENCE_S + 60)
    assert await cluster.exists(PODS, "fine", "default")
    assert await cluster.exists(PODS, "again", "default")


async def test_a_pod_that_is_still_to_be_counted_is_marked_as_lost_to_a_disruption(cluster: VirtualCluster) -> None:
    await _running_pod(cluster, "counted", finalizers=["batch.kubernetes.io/job-tracking"])
    await cluster.client.delete(PODS, "counted", namespace="default")
    await cluster.clock.advance(_GRACE_S + PATIENCE_S + 2)
    pod = await cluster.client.get(PODS, "counted", namespace="default")
    assert pod["status"]["phase"] == "Failed"
    (disrupted,) = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (disrupted["status"], disrupted["reason"]) == ("True", "DeletionByPodGC")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 0
