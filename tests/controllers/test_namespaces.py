"""The namespace controller: its judgement, and a real API server in virtual time."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import errors, meta
from rota.api.kinds import ResourceType
from rota.controllers import namespaces
from rota.controllers.namespaces import NAMESPACES, NamespaceController, RemainingContent
from rota.testing.virtual_api import VirtualCluster

MAPS = ("", "v1", "configmaps")
LEASES = ("coordination.k8s.io", "v1", "leases")
PODS = ("", "v1", "pods")
POD_TYPE = ResourceType(group="", version="v1", kind="Pod", plural="pods", namespaced=True)


def _statuses(conditions: list[dict[str, Any]]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in conditions}


def test_an_empty_namespace_may_go() -> None:
    verdict = namespaces.judge([], RemainingContent(), now="t1")
    assert verdict.again_after_s is None
    assert set(_statuses(verdict.conditions).values()) == {"False"}


def test_remaining_content_and_its_finalizers_are_reported_and_awaited() -> None:
    remains = RemainingContent()
    objects: list[dict[str, Any]] = [
        {"metadata": {"finalizers": ["a/b"], "deletionGracePeriodSeconds": 0}},
        {"metadata": {"deletionGracePeriodSeconds": 30}},
    ]
    remains.add(POD_TYPE, objects)
    verdict = namespaces.judge([], remains, now="t1")
    assert verdict.again_after_s == 16.0
    told = {one["type"]: one for one in verdict.conditions}
    assert (
        told["NamespaceContentRemaining"]["message"] == "Some resources are remaining: pods. has 2 resource instances"
    )
    assert told["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: a/b in 1 resource instances"
    )
    assert told["NamespaceDeletionContentFailure"]["status"] == "False"


def test_what_is_not_known_keeps_a_namespace() -> None:
    verdict = namespaces.judge([], RemainingContent(undiscovered=("metrics.k8s.io/v1beta1",)), now="t1")
    assert verdict.again_after_s == 10.0
    assert _statuses(verdict.conditions)["NamespaceDeletionDiscoveryFailure"] == "True"
    failed = namespaces.judge(verdict.conditions, RemainingContent(failures=["pods: no"]), now="t2")
    assert failed.again_after_s is not None
    assert _statuses(failed.conditions)["NamespaceDeletionContentFailure"] == "True"
    assert _statuses(failed.conditions)["NamespaceDeletionDiscoveryFailure"] == "False"


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    controller = NamespaceController(
        cluster.acting_as("rota:controller:namespaces"), clock=cluster.clock, rng=cluster.rng
    )
    async with cluster.running(controller.run):
        yield


async def _namespace(cluster: VirtualCluster, name: str) -> None:
    await cluster.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def _map(cluster: VirtualCluster, name: str, namespace: str, *finalizers: str) -> None:
    metadata = {"name": name, "namespace": namespace, "finalizers": finalizers}
    await cluster.client.create(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


@pytest.mark.slow
async def test_a_deleted_namespace_is_emptied_and_goes(cluster: VirtualCluster) -> None:
    for name in ("doomed", "other"):
        await _namespace(cluster, name)
        for number in range(3):
            await _map(cluster, f"m{number}", name)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "doomed"}}
    await cluster.client.create(LEASES, lease)
    await cluster.client.delete(NAMESPACES, "doomed")
    await cluster.gone(NAMESPACES, "doomed")
    assert not (await cluster.client.list(LEASES, namespace="doomed")).items
    assert not (await cluster.client.list(MAPS, namespace="doomed")).items
    assert len((await cluster.client.list(MAPS, namespace="other")).items) >= 3


@pytest.mark.slow
async def test_content_with_finalizers_holds_a_namespace_and_is_named(cluster: VirtualCluster) -> None:
    await _namespace(cluster, "doomed")
    await _map(cluster, "held", "doomed", "example.com/hold")
    await cluster.client.delete(NAMESPACES, "doomed")

    async def told() -> bool:
        found = await cluster.client.get(NAMESPACES, "doomed")
        return meta.is_condition_true(found, "NamespaceFinalizersRemaining")

    await cluster.until(told)
    namespace = await cluster.client.get(NAMESPACES, "doomed")
    assert namespace["status"]["phase"] == "Terminating"
    remaining = meta.condition(namespace, "NamespaceContentRemaining")
    assert remaining is not None
    assert "configmaps. has 1 resource instances" in remaining["message"]
    await cluster.client.patch(MAPS, "held", {"metadata": {"finalizers": None}}, namespace="doomed")
    await cluster.gone(NAMESPACES, "doomed")


@pytest.mark.slow
async def test_pods_go_before_what_they_may_need(cluster: VirtualCluster) -> None:
    await _namespace(cluster, "doomed")
    await _map(cluster, "config", "doomed")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "doomed", "finalizers": ["example.com/hold"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await cluster.client.create(PODS, pod)
    await cluster.client.delete(NAMESPACES, "doomed")
    await cluster.clock.advance(30)
    assert await cluster.exists(MAPS, "config", "doomed")
    await cluster.client.patch(PODS, "p", {"metadata": {"finalizers": None}}, namespace="doomed")
    await cluster.gone(NAMESPACES, "doomed")


async def test_a_namespace_that_was_not_deleted_is_left_alone(cluster: VirtualCluster) -> None:
    await _namespace(cluster, "fine")
    await _map(cluster, "m", "fine")
    await cluster.clock.advance(60)
    assert await cluster.exists(MAPS, "m", "fine")
    with pytest.raises(errors.NotFound):
        await cluster.client.get(NAMESPACES, "nowhere")
