"""Secrets with a service account's token, and join tokens that have ended."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.client import join_tokens
from rota.controllers.account_secrets import ACCOUNTS, NAME, SECRETS, TYPE, UID, AccountSecretController
from rota.controllers.join_tokens import JoinTokenController
from rota.testing.virtual_api import VirtualCluster

REVIEWS = ("authentication.k8s.io", "v1", "tokenreviews")


@pytest.fixture(autouse=True)
async def controlling(cluster: VirtualCluster) -> AsyncIterator[None]:
    secrets = AccountSecretController(
        cluster.acting_as("rota:controller:account-secrets"),
        clock=cluster.clock,
        rng=cluster.rng,
        bundle="the authority",
    )
    tokens = JoinTokenController(cluster.acting_as("rota:controller:join-tokens"), clock=cluster.clock, rng=cluster.rng)
    async with cluster.running(secrets.run), cluster.running(tokens.run):
        yield


async def make_account(cluster: VirtualCluster, name: str = "robot") -> Any:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
    return await cluster.client.create(ACCOUNTS, account)


async def make_secret(cluster: VirtualCluster, account: str = "robot", **annotations: str) -> Any:
    metadata = {"name": "s", "namespace": "default", "annotations": {NAME: account, **annotations}}
    return await cluster.client.create(
        SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": TYPE}
    )


async def filled(cluster: VirtualCluster) -> dict[str, str]:
    async def condition() -> bool:
        return "token" in ((await cluster.client.get(SECRETS, "s", namespace="default")).get("data") or {})

    await cluster.until(condition)
    data = (await cluster.client.get(SECRETS, "s", namespace="default"))["data"]
    return {name: base64.b64decode(value).decode() for name, value in data.items()}


async def user_of(cluster: VirtualCluster, token: str) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = (await cluster.client.create(REVIEWS, review))["status"]
    return str(status["user"].get("username", ""))


async def test_a_secret_gets_its_accounts_token(cluster: VirtualCluster) -> None:
    account = await make_account(cluster)
    await make_secret(cluster)
    data = await filled(cluster)
    assert data["ca.crt"] == "the authority"
    assert data["namespace"] == "default"
    assert await user_of(cluster, data["token"]) == "system:serviceaccount:default:robot"
    annotations = (await cluster.client.get(SECRETS, "s", namespace="default"))["metadata"]["annotations"]
    assert annotations[UID] == account["metadata"]["uid"]


async def test_a_token_stays_the_same_as_long_as_its_secret(cluster: VirtualCluster) -> None:
    await make_account(cluster)
    await make_secret(cluster)
    before = (await filled(cluster))["token"]
    await cluster.client.patch(SECRETS, "s", {"data": {"ca.crt": "b2xk"}}, namespace="default")
    await cluster.clock.advance(5)
    after = await filled(cluster)
    assert (after["token"], after["ca.crt"]) == (before, "the authority")


async def test_a_token_ends_with_its_secret(cluster: VirtualCluster) -> None:
    await make_account(cluster)
    await make_secret(cluster)
    token = (await filled(cluster))["token"]
    cluster.clock.step_wall(10 * 365 * 86_400)
    assert await user_of(cluster, token)
    await cluster.client.delete(SECRETS, "s", namespace="default")
    await cluster.clock.advance(11)
    assert not await user_of(cluster, token)


async def test_a_secret_goes_with_its_account(cluster: VirtualCluster) -> None:
    await make_account(cluster)
    await make_secret(cluster)
    await filled(cluster)
    await cluster.client.delete(ACCOUNTS, "robot", namespace="default")
    await cluster.gone(SECRETS, "s", "default")


async def test_a_secret_without_an_account_is_deleted(cluster: VirtualCluster) -> None:
    await make_secret(cluster, "nobody")
    await cluster.gone(SECRETS, "s", "default")


async def test_a_secret_for_a_former_account_of_that_name_is_deleted(cluster: VirtualCluster) -> None:
    await make_account(cluster)
    await make_secret(cluster, **{UID: "another"})
    await cluster.gone(SECRETS, "s", "default")


async def test_a_foreign_token_is_replaced(cluster: VirtualCluster) -> None:
    await make_account(cluster)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default", "annotations": {NAME: "robot"}},
        "type": TYPE,
        "stringData": {"token": "mine"},
    }
    await cluster.client.create(SECRETS, secret)

    async def replaced() -> bool:
        return (await filled(cluster))["token"] != "mine"

    await cluster.until(replaced)


async def test_join_tokens_go_when_they_have_ended(cluster: VirtualCluster) -> None:
    now = cluster.clock.now()
    short, endless = join_tokens.make(now=now, ttl_s=60), join_tokens.make(now=now, ttl_s=None)
    await join_tokens.create(cluster.client, short)
    await join_tokens.create(cluster.client, endless)
    await cluster.clock.advance(30)
    assert len(await join_tokens.list_tokens(cluster.client)) == 2
    await cluster.clock.advance(31)
    (left,) = await join_tokens.list_tokens(cluster.client)
    assert left.identifier == endless.identifier
    assert not await join_tokens.delete(cluster.client, short.identifier)
    assert await join_tokens.delete(cluster.client, endless.identifier)
