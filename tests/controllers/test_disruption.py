"""How many pods of a budget may go."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import errors
from rota.client import pods as pod_verbs
from rota.controllers import disruption
from rota.controllers.disruption import BUDGETS, PODS, DisruptionController
from rota.testing.virtual_api import VirtualCluster

SETS = ("apps", "v1", "replicasets")


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    controller = DisruptionController(
        cluster.acting_as("rota:controller:disruption"), clock=cluster.clock, rng=cluster.rng
    )
    async with cluster.running(controller.run):
        yield


async def _budget(cluster: VirtualCluster, **spec: Any) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }
    await cluster.client.create(BUDGETS, budget)


async def _pod(cluster: VirtualCluster, name: str, *, ready: bool = True, owner: Any = None) -> None:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": {"app": "web"}}
    if owner is not None:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["metadata"]["name"],
             "uid": owner["metadata"]["uid"], "controller": True}
        ]  # fmt: skip
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await cluster.client.create(PODS, pod)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    await cluster.client.patch(PODS, name, {"status": status}, namespace="default", subresource="status")


async def _set(cluster: VirtualCluster, replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "s", "namespace": "default"}
    return await cluster.client.create(
        SETS, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
    )


async def _shows(cluster: VirtualCluster, *, healthy: int, desired: int, expected: int, allowed: int) -> None:
    wanted = (healthy, desired, expected, allowed)
    seen: list[Any] = []

    async def so() -> bool:
        status = (await cluster.client.get(BUDGETS, "b", namespace="default")).get("status") or {}
        names = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
        seen[:] = [tuple(status.get(name) for name in names)]
        return bool(seen[0] == wanted)

    try:
        await cluster.until(so)
    except AssertionError:
        raise AssertionError(f"{seen[0]} instead of {wanted}") from None


async def test_a_least_number_leaves_the_rest_free(cluster: VirtualCluster) -> None:
    await _budget(cluster, minAvailable=2)
    for number in range(3):
        await _pod(cluster, f"p{number}")
    await _pod(cluster, "sick", ready=False)
    await _shows(cluster, healthy=3, desired=2, expected=4, allowed=1)


@pytest.mark.parametrize(
    ("spec", "desired"), [({"minAvailable": "50%"}, 3), ({"maxUnavailable": 1}, 4), ({"maxUnavailable": "30%"}, 3)]
)
async def test_shares_are_of_what_the_controllers_want(
    cluster: VirtualCluster, spec: dict[str, Any], desired: int
) -> None:
    owner = await _set(cluster, 5)
    await _budget(cluster, **spec)
    for number in range(4):
        await _pod(cluster, f"p{number}", owner=owner)
    await _shows(cluster, healthy=4, desired=desired, expected=5, allowed=4 - desired)


async def test_a_share_of_pods_without_a_controller_allows_nothing_and_says_why(cluster: VirtualCluster) -> None:
    await _budget(cluster, maxUnavailable=1)
    await _pod(cluster, "p")

    async def told() -> bool:
        budget = await cluster.client.get(BUDGETS, "b", namespace="default")
        conditions = (budget.get("status") or {}).get("conditions") or [{}]
        return bool(conditions[0].get("message") == 'found no controllers for pod "p"')

    await cluster.until(told)


async def test_an_eviction_is_paid_for_once_and_the_budget_recovers(cluster: VirtualCluster) -> None:
    await _budget(cluster, minAvailable=1)
    for name in ("a", "b"):
        await _pod(cluster, name)
    await _shows(cluster, healthy=2, desired=1, expected=2, allowed=1)
    await pod_verbs.evict(cluster.client, "a", namespace="default")
    with pytest.raises(errors.TooManyRequests):
        await pod_verbs.evict(cluster.client, "b", namespace="default")
    await _shows(cluster, healthy=1, desired=1, expected=1, allowed=0)
    await _pod(cluster, "c")
    await _shows(cluster, healthy=2, desired=1, expected=2, allowed=1)
    await pod_verbs.evict(cluster.client, "b", namespace="default")


async def test_finished_and_deleted_pods_do_not_count(cluster: VirtualCluster) -> None:
    await _budget(cluster, minAvailable=1)
    for name in ("a", "b"):
        await _pod(cluster, name)
    status = {"phase": "Succeeded"}
    await cluster.client.patch(PODS, "a", {"status": status}, namespace="default", subresource="status")
    await _shows(cluster, healthy=1, desired=1, expected=1, allowed=0)


def test_shares_are_rounded_up() -> None:
    assert [disruption.scaled(*one) for one in ((3, 10), ("50%", 5), ("0%", 7), ("100%", 7), ("1%", 3))] == [
        3, 3, 0, 7, 1,
    ]  # fmt: skip


def test_an_eviction_of_which_nothing_was_seen_is_forgotten_after_two_minutes() -> None:
    budget = {"metadata": {}, "status": {"disruptedPods": {"p": "2026-01-01T00:00:00Z"}}}
    pod = {"metadata": {"name": "p"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    then = 1767225600.0
    early = disruption.count(budget, [pod], expected=1, desired=0, now=then + 119)
    assert (early["currentHealthy"], "disruptedPods" in early) == (0, True)
    late = disruption.count(budget, [pod], expected=1, desired=0, now=then + 121)
    assert (late["currentHealthy"], "disruptedPods" in late) == (1, False)
