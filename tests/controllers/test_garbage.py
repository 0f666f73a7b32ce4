"""The garbage collector on a real API server, in virtual time."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import errors
from rota.client.verbs import Object, Propagation
from rota.controllers.garbage import GarbageCollector
from rota.testing.virtual_api import VirtualCluster

# Following every kind of the server takes its time at each start.
pytestmark = pytest.mark.slow

MAPS = ("", "v1", "configmaps")
NODES = ("", "v1", "nodes")
CRDS = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
WIDGETS = ("example.com", "v1", "widgets")


@pytest.fixture(autouse=True)
async def collecting(cluster: VirtualCluster) -> AsyncIterator[None]:
    collector = GarbageCollector(cluster.acting_as("rota:controller:garbage"), clock=cluster.clock, rng=cluster.rng)
    async with cluster.running(collector.run):
        await collector.wait_synced()
        yield


def _reference(owner: Object, **changes: Any) -> Object:
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    return {**reference, "uid": owner["metadata"]["uid"], **changes}


async def _make(cluster: VirtualCluster, name: str, *owners: Object, finalizers: tuple[str, ...] = ()) -> Object:
    metadata = {"name": name, "namespace": "default", "ownerReferences": owners, "finalizers": finalizers}
    return await cluster.client.create(MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


async def _names(cluster: VirtualCluster) -> set[str]:
    listed = await cluster.client.list(MAPS, namespace="default")
    return {one["metadata"]["name"] for one in listed.items} & set("abcdef")


async def _settle(cluster: VirtualCluster) -> None:
    await cluster.clock.advance(20)


async def test_what_belonged_to_a_deleted_object_goes_after_it(cluster: VirtualCluster) -> None:
    a = await _make(cluster, "a")
    b = await _make(cluster, "b", _reference(a))
    await _make(cluster, "c", _reference(b))
    await _make(cluster, "d")
    await cluster.client.delete(MAPS, "a", namespace="default")
    await cluster.gone(MAPS, "c", "default")
    assert await _names(cluster) == {"d"}


async def test_an_object_with_another_owner_stays_and_forgets_the_gone_one(cluster: VirtualCluster) -> None:
    a, b = await _make(cluster, "a"), await _make(cluster, "b")
    await _make(cluster, "c", _reference(a), _reference(b))
    await cluster.client.delete(MAPS, "a", namespace="default")
    await _settle(cluster)
    c = await cluster.client.get(MAPS, "c", namespace="default")
    assert [one["name"] for one in c["metadata"]["ownerReferences"]] == ["b"]


async def test_an_object_whose_owner_never_was_goes(cluster: VirtualCluster) -> None:
    a = await _make(cluster, "a")
    await _make(cluster, "b", _reference(a, uid="another"))
    await cluster.gone(MAPS, "b", "default")
    assert await _names(cluster) == {"a"}


async def test_a_collector_that_runs_again_sees_what_it_missed(cluster: VirtualCluster) -> None:
    # Beside the one that every test has; both may act, neither minds the other.
    collector = GarbageCollector(cluster.acting_as("rota:controller:garbage"), clock=cluster.clock, rng=cluster.rng)
    for number in range(2):
        owner = await _make(cluster, f"owner-{number}")
        await _make(cluster, "a", _reference(owner))
        async with cluster.running(collector.run):
            await cluster.clock.advance(0)
            await collector.wait_synced()
            await cluster.client.delete(MAPS, f"owner-{number}", namespace="default")
            await cluster.gone(MAPS, "a", "default")


async def test_an_owner_of_a_kind_that_is_not_served_protects(cluster: VirtualCluster) -> None:
    await _make(cluster, "a", {"apiVersion": "nowhere/v1", "kind": "Thing", "name": "x", "uid": "u"})
    await cluster.clock.advance(120)
    assert await _names(cluster) == {"a"}


async def test_in_the_foreground_dependents_go_first(cluster: VirtualCluster) -> None:
    a = await _make(cluster, "a")
    b = await _make(cluster, "b", _reference(a, blockOwnerDeletion=True))
    await _make(cluster, "c", _reference(b, blockOwnerDeletion=True), finalizers=("example.com/hold",))
    await cluster.client.delete(MAPS, "a", namespace="default", propagation=Propagation.FOREGROUND)
    await _settle(cluster)
    assert await _names(cluster) == {"a", "b", "c"}
    await cluster.client.patch(MAPS, "c", {"metadata": {"finalizers": None}}, namespace="default")
    await cluster.gone(MAPS, "a", "default")
    assert await _names(cluster) == set()


async def test_in_the_foreground_those_that_do_not_block_are_not_waited_for(cluster: VirtualCluster) -> None:
    a = await _make(cluster, "a")
    await _make(cluster, "b", _reference(a), finalizers=("example.com/hold",))
    await cluster.client.delete(MAPS, "a", namespace="default", propagation=Propagation.FOREGROUND)
    await cluster.gone(MAPS, "a", "default")
    assert await _names(cluster) == {"b"}


async def test_two_that_own_each_other_do_not_wait_for_ever(cluster: VirtualCluster) -> None:
    a = await _make(cluster, "a")
    b = await _make(cluster, "b", _reference(a, blockOwnerDeletion=True))
    references = [_reference(b, blockOwnerDeletion=True)]
    await cluster.client.patch(MAPS, "a", {"metadata": {"ownerReferences": references}}, namespace="default")
    await _settle(cluster)
    await cluster.client.delete(MAPS, "a", namespace="default", propagation=Propagation.FOREGROUND)
    await cluster.gone(MAPS, "a", "default")
    await cluster.gone(MAPS, "b", "default")


async def test_orphans_stay_and_forget_their_owner(cluster: VirtualCluster) -> None:
    a = await _make(cluster, "a")
    await _make(cluster, "b", _reference(a))
    await cluster.client.delete(MAPS, "a", namespace="default", propagation=Propagation.ORPHAN)
    await cluster.gone(MAPS, "a", "default")
    await _settle(cluster)
    b = await cluster.client.get(MAPS, "b", namespace="default")
    assert not b["metadata"].get("ownerReferences")


async def test_a_namespaced_object_can_belong_to_one_without_a_namespace(cluster: VirtualCluster) -> None:
    node = await cluster.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    await _make(cluster, "a", _reference(node))
    await _settle(cluster)
    assert await _names(cluster) == {"a"}
    await cluster.client.delete(NODES, "n1")
    await cluster.gone(MAPS, "a", "default")


async def test_an_object_without_a_namespace_cannot_belong_to_one_with(cluster: VirtualCluster) -> None:
    a = await _make(cluster, "a")
    metadata = {"name": "n1", "ownerReferences": [_reference(a)]}
    await cluster.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    await cluster.client.delete(MAPS, "a", namespace="default")
    await _settle(cluster)
    assert await cluster.exists(NODES, "n1")


async def _define_widgets(cluster: VirtualCluster) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    await cluster.client.create(
        CRDS,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                "versions": [version],
            },
        },
    )

    async def served() -> bool:
        with contextlib.suppress(errors.NotFound):
            await cluster.client.list(WIDGETS)
            return True
        return False

    await cluster.until(served)


async def _widget(cluster: VirtualCluster, *owners: Object) -> Object:
    metadata = {"name": "w", "namespace": "default", "ownerReferences": owners}
    return await cluster.client.create(
        WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
    )


async def test_custom_kinds_own_and_are_owned(cluster: VirtualCluster) -> None:
    await _define_widgets(cluster)
    a = await _make(cluster, "a")
    widget = await _widget(cluster, _reference(a))
    await _make(cluster, "b", _reference(widget))
    await cluster.clock.advance(40)
    assert await _names(cluster) == {"a", "b"}
    await cluster.client.delete(MAPS, "a", namespace="default")
    await cluster.gone(WIDGETS, "w", "default")
    await cluster.gone(MAPS, "b", "default")


async def test_what_belonged_to_a_custom_object_goes_when_its_kind_does(cluster: VirtualCluster) -> None:
    await _define_widgets(cluster)
    await _make(cluster, "b", _reference(await _widget(cluster)))
    await cluster.clock.advance(40)
    await cluster.client.delete(CRDS, "widgets.example.com")
    await cluster.gone(MAPS, "b", "default")
