"""Nodes whose workers fall silent, and the pods on them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import meta, times
from rota.controllers import node_lifecycle, taint_eviction
from rota.controllers.node_lifecycle import GRACE_S, LEASE_NAMESPACE, LEASES, NODES, PODS, NodeLifecycle
from rota.controllers.taint_eviction import TaintEviction
from rota.testing.virtual_api import VirtualCluster


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    lifecycle = NodeLifecycle(cluster.acting_as("rota:controller:node-lifecycle"), clock=cluster.clock, rng=cluster.rng)
    eviction = TaintEviction(cluster.acting_as("rota:controller:taint-eviction"), clock=cluster.clock, rng=cluster.rng)
    async with cluster.running(lifecycle.run), cluster.running(eviction.run):
        yield


async def _node(cluster: VirtualCluster, name: str, zone: str = "z") -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {
            "allocatable": {"cpu": "8", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    await cluster.client.create(NODES, node)
    await _renew(cluster, name)


async def _renew(cluster: VirtualCluster, *names: str) -> None:
    stamp = times.format_micro_time(cluster.clock.now())
    for name in names:
        metadata = {"name": name, "namespace": LEASE_NAMESPACE}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        lease["spec"] = {"holderIdentity": name, "renewTime": stamp}
        await cluster.client.apply(LEASES, lease, force=True)


async def _pod(cluster: VirtualCluster, name: str, node: str, **spec: Any) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], **spec},
    }
    await cluster.client.create(PODS, pod)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.client.patch(PODS, name, {"status": status}, namespace="default", subresource="status")


async def _effects(cluster: VirtualCluster, name: str) -> list[str]:
    node = await cluster.client.get(NODES, name)
    return sorted(one["effect"] for one in ((node.get("spec") or {}).get("taints") or ()))


async def _lives(cluster: VirtualCluster, seconds: float, *names: str) -> None:
    """Time passes in which these workers renew."""
    for _ in range(int(seconds / 10)):
        await cluster.clock.advance(10)
        await _renew(cluster, *names)
    await cluster.clock.advance(1)


async def test_a_worker_that_renews_is_left_alone(cluster: VirtualCluster) -> None:
    await _node(cluster, "a")
    await _lives(cluster, 200, "a")
    assert await _effects(cluster, "a") == []


async def test_a_silent_worker_is_unknown_tainted_and_its_pods_leave_after_their_patience(
    cluster: VirtualCluster,
) -> None:
    for name in ("a", "b", "c"):
        await _node(cluster, name)
    await _pod(cluster, "p", "a")
    await _lives(cluster, GRACE_S + 20, "b", "c")
    node = await cluster.client.get(NODES, "a")
    ready = meta.condition(node, "Ready")
    assert ready is not None
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert await _effects(cluster, "a") == ["NoExecute", "NoSchedule"]
    pod = await cluster.client.get(PODS, "p", namespace="default")
    assert not meta.is_condition_true(pod, "Ready")
    assert not meta.is_deleting(pod)
    await _lives(cluster, 310, "b", "c")
    pod = await cluster.client.get(PODS, "p", namespace="default")
    assert meta.is_deleting(pod)
    disrupted = meta.condition(pod, "DisruptionTarget")
    assert disrupted is not None
    assert disrupted["reason"] == "DeletionByTaintManager"


async def test_a_worker_that_comes_back_loses_its_taints_and_keeps_its_pods(cluster: VirtualCluster) -> None:
    for name in ("a", "b"):
        await _node(cluster, name)
    await _pod(cluster, "p", "a")
    await _lives(cluster, 100, "b")
    assert "NoExecute" in await _effects(cluster, "a")
    await _renew(cluster, "a", "b")
    await cluster.clock.advance(1)
    node = await cluster.client.get(NODES, "a")
    conditions = meta.with_condition(
        meta.conditions(node), {"type": "Ready", "status": "True"}, now="2026-01-01T00:00:00Z"
    )
    await cluster.client.update(
        NODES, {**node, "status": {**node["status"], "conditions": conditions}}, subresource="status"
    )
    await _lives(cluster, 400, "a", "b")
    assert await _effects(cluster, "a") == []
    assert not meta.is_deleting(await cluster.client.get(PODS, "p", namespace="default"))


async def test_a_node_that_has_said_nothing_yet_receives_nothing_and_is_given_a_minute(cluster: VirtualCluster) -> None:
    for name in ("other", "another"):
        await _node(cluster, name)
    await cluster.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}})
    await cluster.clock.advance(0.1)
    assert await _effects(cluster, "new") == ["NoSchedule"]
    await _lives(cluster, 50, "other", "another")
    assert await _effects(cluster, "new") == ["NoSchedule"]
    ready = meta.condition(await cluster.client.get(NODES, "new"), "Ready")
    assert ready is None
    await _lives(cluster, 40, "other", "another")
    assert await _effects(cluster, "new") == ["NoExecute", "NoSchedule"]


async def test_a_new_node_receives_pods_when_it_says_that_it_is_ready(cluster: VirtualCluster) -> None:
    await cluster.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "new"}})
    await cluster.clock.advance(0.1)
    await _renew(cluster, "new")
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.client.patch(NODES, "new", {"status": status}, subresource="status")
    await cluster.clock.advance(0.1)
    assert await _effects(cluster, "new") == []


async def test_a_silent_node_is_tainted_at_the_end_of_its_time_and_before_its_pods_are_marked(
    cluster: VirtualCluster,
) -> None:
    """So that nothing new is bound to it: with many pods, marking them takes a while."""
    for name in ("a", "b"):
        await _node(cluster, name)
    await _pod(cluster, "p", "a")
    await cluster.clock.advance(GRACE_S / 2)
    await _renew(cluster, "b")
    seen = (await cluster.client.list(NODES)).resource_version
    await cluster.clock.advance(GRACE_S / 2 + 0.1)
    pod = await cluster.client.get(PODS, "p", namespace="default")
    assert not meta.is_condition_true(pod, "Ready")
    async with cluster.client.watch(NODES, resource_version=seen, timeout_s=1) as events:
        while not _taint_keys(changed := (await anext(events)).object):
            pass
    assert "NoSchedule" in await _effects(cluster, "a")
    assert int(changed["metadata"]["resourceVersion"]) < int(pod["metadata"]["resourceVersion"])


async def test_a_pod_that_claims_to_be_ready_on_a_lost_node_is_marked_again(cluster: VirtualCluster) -> None:
    for name in ("a", "b"):
        await _node(cluster, name)
    await _pod(cluster, "p", "a")
    await _lives(cluster, GRACE_S + 10, "b")
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.client.patch(PODS, "p", {"status": status}, namespace="default", subresource="status")
    await cluster.clock.advance(0.1)
    pod = await cluster.client.get(PODS, "p", namespace="default")
    assert not meta.is_condition_true(pod, "Ready")


def _taint_keys(node: Any) -> list[str]:
    return [one["key"] for one in (node.get("spec") or {}).get("taints") or ()]


async def test_when_everything_is_dark_nothing_is_driven_out(cluster: VirtualCluster) -> None:
    for name in ("a", "b", "c"):
        await _node(cluster, name, zone=name)
    await _lives(cluster, 300)
    for name in ("a", "b", "c"):
        assert await _effects(cluster, name) == ["NoSchedule"]


async def test_nodes_of_a_zone_are_cleared_one_after_the_other(cluster: VirtualCluster) -> None:
    names = [f"n{number}" for number in range(10)]
    for name in names:
        await _node(cluster, name)
    # Three of ten fall silent: no disruption of the zone, so one every ten seconds.
    await _lives(cluster, GRACE_S + 10, *names[3:])
    early = [("NoExecute" in await _effects(cluster, name)) for name in names[:3]]
    assert early.count(True) <= 2
    await _lives(cluster, 60, *names[3:])
    assert all([("NoExecute" in await _effects(cluster, name)) for name in names[:3]])


@pytest.mark.parametrize(
    ("ready", "unready", "all_dark", "rate"),
    [
        (10, 0, False, 0.1),
        (10, 3, False, 0.1),
        (4, 6, False, 0.0),
        (40, 60, False, 0.01),
        (0, 6, False, 0.1),
        (0, 6, True, 0.0),
        (0, 1, False, 0.1),
    ],
)
def test_the_rate_of_a_zone(ready: int, unready: int, all_dark: bool, rate: float) -> None:
    assert node_lifecycle.zone_rate(ready, unready, all_dark=all_dark) == rate


async def test_a_taint_that_does_not_say_when_it_came_counts_from_when_it_was_seen(cluster: VirtualCluster) -> None:
    await _node(cluster, "a")
    patience = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    await _pod(cluster, "p", "a", tolerations=[patience])
    taint = {"key": "k", "effect": "NoExecute"}
    await cluster.client.patch(NODES, "a", {"spec": {"taints": [taint]}})
    await _lives(cluster, 40, "a")
    assert not meta.is_deleting(await cluster.client.get(PODS, "p", namespace="default"))
    await _lives(cluster, 30, "a")
    assert meta.is_deleting(await cluster.client.get(PODS, "p", namespace="default"))


def test_a_pod_stays_as_long_as_all_its_tolerations_allow() -> None:
    taint = {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": times.format_time(100)}

    def leaves(*tolerations: dict[str, Any]) -> float | None:
        return taint_eviction.leaves_at({"spec": {"tolerations": list(tolerations)}}, [taint], now=150)

    assert leaves() == 150
    assert leaves({"key": "k", "operator": "Exists"}) is None
    assert leaves({"key": "k", "value": "other"}) == 150
    assert leaves({"key": "k", "value": "v", "tolerationSeconds": 300}) == 400
    assert (
        leaves({"operator": "Exists", "tolerationSeconds": 60}, {"key": "k", "value": "v", "tolerationSeconds": 90})
        == 160
    )
    assert leaves({"operator": "Exists"}, {"key": "k", "value": "v", "tolerationSeconds": 90}) is None
    assert leaves({"key": "k", "operator": "Exists", "effect": "NoSchedule"}) == 150
    assert taint_eviction.leaves_at({}, [{**taint, "effect": "NoSchedule"}], now=150) is None
