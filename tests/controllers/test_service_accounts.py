"""What every namespace is given."""

from collections.abc import AsyncIterator

import pytest

from rota.controllers.service_accounts import (
    ACCOUNT,
    ACCOUNTS,
    BUNDLE,
    CONFIG_MAPS,
    NAMESPACES,
    ServiceAccountController,
)
from rota.testing.virtual_api import VirtualCluster

_PEM = "-----BEGIN CERTIFICATE-----\n"


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    controller = ServiceAccountController(
        cluster.acting_as("rota:controller:service-accounts"),
        clock=cluster.clock,
        rng=cluster.rng,
        bundle=lambda: _PEM,
    )
    async with cluster.running(controller.run):
        yield


async def _here(cluster: VirtualCluster, namespace: str) -> None:
    async def both() -> bool:
        return await cluster.exists(ACCOUNTS, ACCOUNT, namespace) and await cluster.exists(
            CONFIG_MAPS, BUNDLE, namespace
        )

    await cluster.until(both)


async def test_namespaces_old_and_new_have_an_account_and_the_bundle(cluster: VirtualCluster) -> None:
    await _here(cluster, "default")
    await cluster.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}})
    await _here(cluster, "new")
    found = await cluster.client.get(CONFIG_MAPS, BUNDLE, namespace="new")
    assert found["data"] == {"ca.crt": _PEM}


async def test_both_come_back_and_stay_as_they_should_be(cluster: VirtualCluster) -> None:
    await _here(cluster, "default")
    await cluster.client.delete(ACCOUNTS, ACCOUNT, namespace="default")
    await cluster.client.delete(CONFIG_MAPS, BUNDLE, namespace="default")
    await _here(cluster, "default")
    await cluster.client.patch(CONFIG_MAPS, BUNDLE, {"data": {"ca.crt": "forged"}}, namespace="default")

    async def mended() -> bool:
        found = await cluster.client.get(CONFIG_MAPS, BUNDLE, namespace="default")
        return bool(found["data"] == {"ca.crt": _PEM})

    await cluster.until(mended)


async def test_a_namespace_that_is_about_to_go_is_left_alone(cluster: VirtualCluster) -> None:
    await cluster.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}})
    await _here(cluster, "going")
    await cluster.client.delete(NAMESPACES, "going")
    await cluster.client.delete(ACCOUNTS, ACCOUNT, namespace="going")
    await cluster.clock.advance(30)
    assert not await cluster.exists(ACCOUNTS, ACCOUNT, "going")
