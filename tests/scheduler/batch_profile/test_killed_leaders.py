"""A leader that dies between any two requests leaves no gang in part: the next leader finishes it or releases it."""

import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from rota.api import errors
from rota.client.pods import PODS
from rota.client.transports.transport import Call, Interrupted
from rota.scheduler.batch_profile.kinds import POD_GROUPS
from rota.scheduler.batch_profile.settings import LiveBatchSettings
from rota.testing import batches
from rota.testing.batches import BatchCluster

EAGER = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
PODS_OF_A_GANG = 5


class Killed(Interrupted):
    """The process is gone: it sends nothing and hears nothing."""


def deadly(dice: random.Random, *, stock: bool) -> tuple[Callable[[Call], Awaitable[None]], ...]:
    """Hooks of a transport: after some writes of bindings and plans nothing gets through any more."""
    left = dice.randint(1, PODS_OF_A_GANG + 3)
    answers_last = dice.random() < 0.5

    def counts(call: Call) -> bool:
        return call.method != "GET" and ("binding" in call.path or "podgroups" in call.path)

    async def before(call: Call) -> None:
        nonlocal left
        if left <= 0:
            raise Killed(f"{call}: killed")
        if stock and call.path.startswith("/apis/rota.dev"):
            raise errors.NotFound("a stock server has no such group")
        if counts(call):
            left -= 1
            if left == 0 and not answers_last:
                raise Killed(f"{call}: killed before it was sent")

    async def after(call: Call) -> None:
        if left <= 0:
            raise Killed(f"{call}: killed before the answer came")

    return before, after


async def fill(cluster: BatchCluster, name: str) -> None:
    """Use up what is free on every node, as pods of others do."""
    nodes = [f"n{number}" for number in range(6)]
    taken = dict.fromkeys(nodes, 0)
    for pod in (await cluster.client.list(PODS, namespace="default")).items:
        if node := pod["spec"].get("nodeName"):
            taken[node] += int(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    for node in nodes:
        if free := 2 - taken[node]:
            await cluster.add_pod(f"{name}-{node}", cpu=str(free), nodeName=node)


async def clear(cluster: BatchCluster) -> None:
    for pod in (await cluster.client.list(PODS, namespace="default")).items:
        await cluster.client.delete(PODS, pod["metadata"]["name"], namespace="default", grace_period_s=0)
    for group in (await cluster.client.list(POD_GROUPS, namespace="default")).items:
        await cluster.client.delete(POD_GROUPS, group["metadata"]["name"], namespace="default")


async def settled(cluster: BatchCluster, gang: str) -> int:
    """Wait until a gang has no plan, and is whole or not bound at all; how many pods are bound."""

    async def condition() -> bool:
        group = await cluster.group(gang)
        planned = "rota.dev/binding-plan" in (group["metadata"].get("annotations") or {})
        return not planned and len(await cluster.placed(gang)) in (0, PODS_OF_A_GANG)

    await cluster.until(condition)
    await cluster.clock.advance(5)
    await cluster.sweep()
    return len(await cluster.placed(gang))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("stock", [False, True], ids=["transactions", "stock"])
async def test_a_gang_is_whole_or_not_at_all_whenever_the_leader_dies(tmp_path: Path, *, stock: bool) -> None:
    dice = random.Random(51)
    file = tmp_path / "volcano-scheduler.conf"
    file.write_text(EAGER)
    ends = []
    async with batches.cluster() as cluster:
        for number in range(6):
            await cluster.add_node(f"n{number}", cpu="2")
        for attempt in range(int(os.environ.get("ROTA_KILLS", "12"))):
            gang = f"g{attempt}"
            client, transport = cluster.meddling()
            transport.before, transport.after = deadly(dice, stock=stock)
            async with cluster.scheduling(client=client, batch=LiveBatchSettings(file, clock=cluster.clock)):
                await cluster.add_gang(gang, PODS_OF_A_GANG)
                await cluster.clock.advance(2)
            crowded = dice.random() < 0.5
            if crowded:
                await fill(cluster, f"other-{attempt}")
            client, transport = cluster.meddling()
            transport.before = _only_stock(stock)
            async with cluster.scheduling(client=client, batch=LiveBatchSettings(file, clock=cluster.clock)):
                bound = await settled(cluster, gang)
                assert bound in (0, PODS_OF_A_GANG)
                if not crowded:
                    assert bound == PODS_OF_A_GANG
            ends.append(bound)
            await clear(cluster)
    assert 0 in ends
    assert PODS_OF_A_GANG in ends


def _only_stock(stock: bool) -> Callable[[Call], Awaitable[None]]:
    async def before(call: Call) -> None:
        if stock and call.path.startswith("/apis/rota.dev"):
            raise errors.NotFound("a stock server has no such group")

    return before
