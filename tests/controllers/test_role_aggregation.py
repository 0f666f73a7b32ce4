"""Roles that are made of others follow them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.controllers.role_aggregation import ROLES, RoleAggregation
from rota.testing.virtual_api import VirtualCluster

_LABEL = "rbac.authorization.k8s.io/aggregate-to-view"


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    controller = RoleAggregation(
        cluster.acting_as("rota:controller:role-aggregation"), clock=cluster.clock, rng=cluster.rng
    )
    async with cluster.running(controller.run):
        yield


def _role(name: str, resource: str, *labels: str, **more: Any) -> dict[str, Any]:
    rules = [{"apiGroups": ["example.com"], "resources": [resource], "verbs": ["get"]}] if resource else []
    metadata = {"name": name, "labels": dict.fromkeys(labels, "true")}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": rules,
        **more,
    }


async def _resources(cluster: VirtualCluster, name: str) -> list[str]:
    role = await cluster.client.get(ROLES, name)
    return [resource for rule in role.get("rules") or () for resource in rule["resources"]]


async def _until(cluster: VirtualCluster, name: str, wanted: list[str]) -> None:
    async def condition() -> bool:
        return await _resources(cluster, name) == wanted

    await cluster.until(condition)


async def test_a_role_follows_those_that_it_is_made_of(cluster: VirtualCluster) -> None:
    selector = {"clusterRoleSelectors": [{"matchLabels": {"a": "true"}}, {"matchLabels": {"b": "true"}}]}
    await cluster.client.create(ROLES, _role("z", "zs", "a"))
    await cluster.client.create(ROLES, _role("sum", "", aggregationRule=selector))
    await cluster.client.create(ROLES, _role("c", "cs", "a", "b"))
    await cluster.client.create(ROLES, _role("other", "others"))
    await _until(cluster, "sum", ["cs", "zs"])
    await cluster.client.patch(ROLES, "z", {"metadata": {"labels": {"a": None}}})
    await _until(cluster, "sum", ["cs"])
    await cluster.client.patch(ROLES, "sum", {"rules": []})
    await _until(cluster, "sum", ["cs"])
    await cluster.client.delete(ROLES, "c")
    await _until(cluster, "sum", [])


async def test_what_is_added_to_viewers_goes_on_to_editors_and_administrators(cluster: VirtualCluster) -> None:
    before = {name: await _resources(cluster, name) for name in ("view", "edit", "admin")}
    assert "pods" in before["view"], "default roles are complete before any controller runs"
    await cluster.client.create(ROLES, _role("widgets", "widgets", _LABEL))

    async def everywhere() -> bool:
        found = [await _resources(cluster, name) for name in ("view", "edit", "admin")]
        return all("widgets" in resources for resources in found)

    await cluster.until(everywhere)
    await cluster.client.delete(ROLES, "widgets")

    async def as_before() -> bool:
        return {name: await _resources(cluster, name) for name in before} == before

    await cluster.until(as_before)


async def test_an_invalid_selector_changes_nothing_and_blocks_no_other_role(cluster: VirtualCluster) -> None:
    wrong = {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}]}
    right = {"clusterRoleSelectors": [{"matchLabels": {"a": "true"}}]}
    await cluster.client.create(ROLES, _role("wrong", "mine", aggregationRule=wrong))
    await cluster.client.create(ROLES, _role("sum", "", aggregationRule=right))
    await cluster.client.create(ROLES, _role("c", "cs", "a"))
    await _until(cluster, "sum", ["cs"])
    assert await _resources(cluster, "wrong") == ["mine"]
