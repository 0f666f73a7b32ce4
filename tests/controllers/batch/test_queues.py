"""Queues are opened and closed by commands, together with the queues below them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers.batch.batch_objects import command

from rota.api import meta
from rota.api.batch import kinds
from rota.client.verbs import Object
from rota.controllers.batch.queues import QueueController
from rota.testing.virtual_api import VirtualCluster


@pytest.fixture(autouse=True)
async def _controller(cluster: VirtualCluster) -> AsyncIterator[None]:
    client = cluster.acting_as("rota:controller:batch-queues")
    async with cluster.running(QueueController(client, clock=cluster.clock, rng=cluster.rng).run):
        yield


async def create(cluster: VirtualCluster, name: str, **spec: Any) -> Object:
    made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    return await cluster.client.create(kinds.QUEUES, made)


async def group(cluster: VirtualCluster, name: str, queue: str) -> None:
    made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": {"queue": queue, "minMember": 1}}
    await cluster.client.create(kinds.POD_GROUPS, {**made, "metadata": {"name": name, "namespace": "default"}})


async def order(cluster: VirtualCluster, action: str, queue: str) -> None:
    target = await cluster.client.get(kinds.QUEUES, queue)
    await cluster.client.create(kinds.COMMANDS, command(action, target))
    await cluster.clock.advance(2)
    assert (await cluster.client.list(kinds.COMMANDS)).items == []


async def states(cluster: VirtualCluster) -> dict[str, str]:
    found = (await cluster.client.list(kinds.QUEUES)).items
    return {meta.name(one): (one.get("status") or {}).get("state", "") for one in found}


async def test_a_new_queue_is_open(cluster: VirtualCluster) -> None:
    await create(cluster, "q")
    await cluster.clock.advance(1)
    assert await states(cluster) == {"default": "Open", "q": "Open", "root": "Open"}


async def test_an_empty_queue_closes_at_once_and_opens_again(cluster: VirtualCluster) -> None:
    await create(cluster, "q")
    await order(cluster, "CloseQueue", "q")
    assert (await states(cluster))["q"] == "Closed"
    await order(cluster, "OpenQueue", "q")
    assert (await states(cluster))["q"] == "Open"


async def test_a_queue_is_closing_until_its_groups_are_gone(cluster: VirtualCluster) -> None:
    await create(cluster, "q")
    await group(cluster, "g", "q")
    await order(cluster, "CloseQueue", "q")
    assert (await states(cluster))["q"] == "Closing"
    await cluster.client.delete(kinds.POD_GROUPS, "g", namespace="default")
    await cluster.clock.advance(1)
    assert (await states(cluster))["q"] == "Closed"


async def test_queues_below_close_and_open_together_except_those_that_were_closed_before(
    cluster: VirtualCluster,
) -> None:
    await create(cluster, "team")
    await create(cluster, "a", parent="team")
    await create(cluster, "b", parent="team")
    await create(cluster, "other")
    await order(cluster, "CloseQueue", "b")
    await order(cluster, "CloseQueue", "team")
    assert {name for name, state in (await states(cluster)).items() if state == "Closed"} == {"team", "a", "b"}
    closed = await cluster.client.get(kinds.QUEUES, "a")
    assert meta.annotations(closed)["volcano.sh/closed-by-parent"] == "true"
    await order(cluster, "OpenQueue", "team")
    assert {name for name, state in (await states(cluster)).items() if state == "Closed"} == {"b"}
    assert "volcano.sh/closed-by-parent" not in meta.annotations(await cluster.client.get(kinds.QUEUES, "a"))


async def test_a_queue_does_not_open_below_a_closed_one(cluster: VirtualCluster) -> None:
    await create(cluster, "team")
    await create(cluster, "a", parent="team")
    await order(cluster, "CloseQueue", "team")
    await order(cluster, "OpenQueue", "a")
    assert (await states(cluster))["a"] == "Closed"
    await order(cluster, "CloseQueue", "root")
    assert (await states(cluster))["root"] == "Open"
