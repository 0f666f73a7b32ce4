"""What a namespace uses is told as it is."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import errors
from rota.controllers.resource_quotas import PODS, QUOTAS, QuotaController
from rota.testing.virtual_api import VirtualCluster

MAPS = ("", "v1", "configmaps")


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    controller = QuotaController(
        cluster.acting_as("rota:controller:resource-quotas"), clock=cluster.clock, rng=cluster.rng
    )
    async with cluster.running(controller.run):
        yield


async def _quota(cluster: VirtualCluster, **hard: str) -> None:
    limits = {name.replace("_", "."): amount for name, amount in hard.items()}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": limits},
    }
    await cluster.client.create(QUOTAS, quota)


async def _pod(cluster: VirtualCluster, name: str, cpu: str = "1") -> None:
    requests = {"requests": {"cpu": cpu}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": requests}]},
    }
    await cluster.client.create(PODS, pod)


async def _shows(cluster: VirtualCluster, **used: str) -> None:
    expected = {name.replace("_", "."): amount for name, amount in used.items()}

    async def so() -> bool:
        quota = await cluster.client.get(QUOTAS, "q", namespace="default")
        return bool((quota.get("status") or {}).get("used") == expected)

    await cluster.until(so)


async def test_a_new_quota_tells_at_once_what_is_there(cluster: VirtualCluster) -> None:
    await _pod(cluster, "a")
    await _quota(cluster, pods="3", requests_cpu="4")
    await _shows(cluster, pods="1", requests_cpu="1")


async def test_what_is_freed_is_free_in_the_figures(cluster: VirtualCluster) -> None:
    await _quota(cluster, pods="3", requests_cpu="4")
    await _pod(cluster, "a")
    await _pod(cluster, "b", "500m")
    await _shows(cluster, pods="2", requests_cpu="1500m")
    await cluster.client.delete(PODS, "a", namespace="default")
    await _shows(cluster, pods="1", requests_cpu="500m")
    status = {"phase": "Succeeded"}
    await cluster.client.patch(PODS, "b", {"status": status}, namespace="default", subresource="status")
    await _shows(cluster, pods="0", requests_cpu="0")


async def test_changed_limits_and_other_kinds_are_counted_too(cluster: VirtualCluster) -> None:
    await _quota(cluster, pods="3")
    await _shows(cluster, pods="0")
    await cluster.client.create(
        MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default"}}
    )
    hard = {"pods": None, "configmaps": "5", "count/widgets.example.com": "1"}
    await cluster.client.patch(QUOTAS, "q", {"spec": {"hard": hard}}, namespace="default")
    quota: dict[str, Any] = {}

    async def told() -> bool:
        quota.update(await cluster.client.get(QUOTAS, "q", namespace="default"))
        return bool(quota["status"]["hard"] == quota["spec"]["hard"])

    await cluster.until(told)
    assert quota["status"]["used"] == {"configmaps": "1", "count/widgets.example.com": "0"}


async def test_counting_never_lets_more_in_than_the_quota_allows(cluster: VirtualCluster) -> None:
    await _quota(cluster, pods="5")
    await _shows(cluster, pods="0")

    async def churn(number: int) -> None:
        for turn in range(6):
            name = f"p{number}-{turn}"
            try:
                await _pod(cluster, name)
            except errors.Forbidden:
                continue
            assert len((await cluster.client.list(PODS, namespace="default")).items) <= 5
            if turn % 2:
                await cluster.client.delete(PODS, name, namespace="default")

    racing = asyncio.gather(*(churn(number) for number in range(4)))
    while not racing.done():
        await cluster.clock.advance(0.25)
    await racing
    there = len((await cluster.client.list(PODS, namespace="default")).items)
    assert there >= 3
    await _shows(cluster, pods=str(there))
