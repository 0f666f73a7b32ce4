"""A scheduler that starts where much has happened already knows all of it, and does what is left to do."""

import random
from typing import Any

import pytest

from rota.client import pods as pod_calls
from rota.client.pods import PODS, Binding
from rota.scheduler.debug_pages import DebugPages
from rota.testing.schedulers import SchedulingCluster


async def fill(cluster: SchedulingCluster) -> None:
    """Nodes with pods of several kinds, some of which have ended, and one pod on a node that is not there."""
    rng = random.Random(0)
    for number in range(6):
        await cluster.add_node(f"n{number}", labels={"zone": f"z{number % 2}"}, cpu="8", pods="40")
    for number in range(60):
        about: dict[str, Any] = {"cpu": rng.choice(["50m", "100m"]), "labels": {"app": rng.choice("abc")}}
        if number % 7 == 0:
            ports = [{"containerPort": 80, "hostPort": 8000 + number}]
            about["containers"] = [{"name": "c", "image": "i", "ports": ports}]
        await cluster.add_pod(f"p{number}", **about)
        binding = Binding(namespace="default", pod=f"p{number}", node=f"n{number % 6}")
        await pod_calls.bind(cluster.client, binding)
    for number in range(0, 60, 10):
        patch = {"status": {"phase": "Succeeded"}}
        await cluster.client.patch(PODS, f"p{number}", patch, namespace="default", subresource="status")
    await cluster.client.delete(("", "v1", "nodes"), "n5")


@pytest.mark.slow
async def test_a_start_with_many_pods_ends_with_a_cache_that_equals_the_api(cluster: SchedulingCluster) -> None:
    await fill(cluster)
    await cluster.add_pod("waits")
    await cluster.add_pod("too-large", cpu="100")
    await cluster.add_pod("gated", schedulingGates=[{"name": "example.com/later"}])
    async with cluster.scheduling() as scheduler:
        assert len(scheduler.cache.cluster.pods) >= 54
        assert await DebugPages(scheduler, cluster.client, clock=cluster.clock).differences() == []
        await cluster.bound("waits")
        await cluster.refused("too-large")
        assert await cluster.node_of("gated") == ""
        # What was taken in as a whole goes one by one.
        for number in range(1, 60, 2):
            await cluster.client.delete(PODS, f"p{number}", namespace="default", grace_period_s=0)
        await cluster.clock.advance(1)
        assert await DebugPages(scheduler, cluster.client, clock=cluster.clock).differences() == []
