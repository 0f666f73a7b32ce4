"""Pods for a batch scheduler get a group, whatever made them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers.batch.batch_objects import PODS
from tests.controllers.workloads import listed

from rota.api import meta
from rota.api.batch import kinds
from rota.client.verbs import Object
from rota.controllers.batch.pod_groups import PodGroupController
from rota.testing.virtual_api import VirtualCluster

SETS = ("apps", "v1", "replicasets")


@pytest.fixture(autouse=True)
async def _controller(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:batch-groups")
    async with cluster.running(PodGroupController(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


def pod(
    name: str, owner: Object | None = None, *, scheduler: str = "volcano", annotations: dict[str, str] | None = None
) -> Object:
    requests = {"cpu": "250m", "memory": "64Mi"}
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "annotations": annotations or {}}
    if owner is not None:
        metadata["ownerReferences"] = [meta.controller_reference(owner)]
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    return {"metadata": metadata, "spec": {"schedulerName": scheduler, "containers": [container]}}


async def replica_set(cluster: VirtualCluster, **annotations: str) -> Object:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    made = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "rs", "namespace": "default", "annotations": annotations},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }
    return {**await cluster.client.create(SETS, made), "apiVersion": "apps/v1", "kind": "ReplicaSet"}


async def groups(cluster: VirtualCluster) -> dict[str, Object]:
    await cluster.clock.advance(1)
    return {meta.name(one): one for one in await listed(cluster, kinds.POD_GROUPS)}


async def group_of(cluster: VirtualCluster, name: str) -> str:
    found = await cluster.client.get(PODS, name, namespace="default")
    return meta.annotations(found).get("scheduling.k8s.io/group-name", "")


async def test_a_bare_pod_has_a_group_of_its_own(cluster: VirtualCluster) -> None:
    made = await cluster.client.create(PODS, pod("p", annotations={"scheduling.volcano.sh/queue-name": "default"}))
    (group,) = (await groups(cluster)).values()
    assert meta.name(group) == f"podgroup-{meta.uid(made)}" == await group_of(cluster, "p")
    assert group["spec"] == {"minMember": 1, "minResources": {"cpu": "250m", "memory": "64Mi"}, "queue": "default"}
    assert meta.controller_of(group) == {**meta.controller_reference({**made, "apiVersion": "v1", "kind": "Pod"})}


async def test_pods_of_one_set_share_a_group_of_the_size_that_the_set_asks_for(cluster: VirtualCluster) -> None:
    owner = await replica_set(cluster, **{"scheduling.volcano.sh/group-min-member": "2"})
    for name in ("a", "b"):
        await cluster.client.create(PODS, pod(name, owner))
    found = await groups(cluster)
    assert set(found) == {f"podgroup-{meta.uid(owner)}"}
    (group,) = found.values()
    assert (group["spec"]["minMember"], group["spec"]["minResources"]["cpu"]) == (2, "500m")
    assert await group_of(cluster, "a") == await group_of(cluster, "b") == meta.name(group)


async def test_the_group_of_a_set_goes_when_the_set_is_scaled_to_nothing(cluster: VirtualCluster) -> None:
    owner = await replica_set(cluster)
    await cluster.client.create(PODS, pod("a", owner))
    assert len(await groups(cluster)) == 1
    await cluster.client.patch(SETS, "rs", {"spec": {"replicas": 0}}, namespace="default")
    assert await groups(cluster) == {}


async def test_pods_of_other_schedulers_and_pods_with_a_group_are_left_alone(cluster: VirtualCluster) -> None:
    await cluster.client.create(PODS, pod("other", scheduler="default-scheduler"))
    await cluster.client.create(PODS, pod("member", annotations={"scheduling.k8s.io/group-name": "mine"}))
    assert await groups(cluster) == {}
    assert await group_of(cluster, "member") == "mine"
