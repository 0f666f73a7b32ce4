"""Many objects are created by whichever way the server knows, and each gets its own answer."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from rota.api import errors
from rota.client import bulk_create, client_factory
from rota.client.bulk_create import Created
from rota.client.verbs import Client
from rota.kit import system
from rota.testing.api import ApiServer

PODS = ("", "v1", "pods")


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest_asyncio.fixture
async def client() -> AsyncIterator[Client]:
    async with (
        ApiServer() as api,
        client_factory.to_application(api.app, clock=system.SystemClock(), rng=system.rng()) as made,
    ):
        yield made


async def test_each_gets_its_own_answer(client: Client) -> None:
    await client.create(PODS, pod("p1"), namespace="default")
    answers = await bulk_create.create(client, PODS, [pod(f"p{number}") for number in range(300)], namespace="default")
    assert isinstance(answers[1], errors.AlreadyExists)
    made = [one for one in answers if isinstance(one, Created)]
    assert [one.name for one in made] == [f"p{number}" for number in range(300) if number != 1]
    found = await client.get(PODS, "p299", namespace="default")
    assert (found["metadata"]["uid"], found["metadata"]["namespace"]) == (made[-1].uid, made[-1].namespace)


async def test_servers_that_take_one_at_a_time_get_one_at_a_time(client: Client) -> None:
    request, sent = client.request, []

    async def stock(method: str, path: str, **more: Any) -> bytes:
        sent.append(path)
        if ("batch", "true") in more.get("query", ()):
            raise errors.bad_request("PodList in version v1 cannot be handled as a Pod")
        return await request(method, path, **more)

    client.request = stock  # type: ignore[method-assign]
    answers = await bulk_create.create(client, PODS, [pod(f"p{number}") for number in range(20)], namespace="default")
    assert all(isinstance(one, Created) for one in answers)
    assert len(sent) == 21


async def test_missing_permissions_are_an_error_of_each_object(client: Client) -> None:
    answers = await bulk_create.create(client, PODS, [pod("a"), pod("b")], namespace="nowhere")
    assert [type(one) for one in answers] == [errors.NotFound, errors.NotFound]
