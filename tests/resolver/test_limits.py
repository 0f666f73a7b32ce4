"""A resolver beside an API server in virtual time: the limits of claims and queues that it reads there."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from rota.api import conflict_reasons
from rota.api.batch import kinds as batch_kinds
from rota.client.pods import PODS
from rota.resolver.limiting_objects import CLAIMS
from rota.resolver.service import Resolver, Settings
from rota.testing import virtual_api
from rota.testing.clusters import make_node, make_pod
from rota.testing.virtual_api import VirtualCluster

NODES = ("", "v1", "nodes")


@contextlib.asynccontextmanager
async def _resolving(*, batch_kinds: bool) -> AsyncIterator[tuple[VirtualCluster, Resolver]]:
    async with virtual_api.cluster(batch_kinds=batch_kinds) as cluster:
        await cluster.client.create(NODES, {"apiVersion": "v1", **make_node("n1")})
        settings = Settings(address=("127.0.0.1", 0), tls=None)
        resolver = Resolver(cluster.client, settings, identity="r", clock=cluster.clock, rng=random.Random(1))
        running = asyncio.ensure_future(resolver.run())
        try:

            async def leads() -> bool:
                return resolver.leading

            await cluster.until(leads)
            yield cluster, resolver
        finally:
            running.cancel()
            # It waits some seconds for the bindings that it approved.
            while not running.done():
                await cluster.clock.advance(0.5)


async def _verdict(cluster: VirtualCluster, resolver: Resolver, name: str, **about: Any) -> str:
    """Create a pod and have its binding reviewed at once; the reason of a refusal."""
    pod = {"apiVersion": "v1", **make_pod(name, **about)}
    del pod["metadata"]["uid"]
    await cluster.client.create(PODS, pod)
    binding = {"metadata": {"name": name}, "target": {"name": "n1"}}
    answer = await resolver.review({"uid": "1", "name": name, "namespace": "default", "object": binding})
    return "" if answer["allowed"] else str(answer["status"]["details"]["causes"][0]["message"])


async def test_a_claim_for_one_pod_is_respected_from_its_creation_on() -> None:
    async with _resolving(batch_kinds=False) as (cluster, resolver):
        spec = {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "one"}, "spec": spec}
        # The informers have had no time to see it.
        await cluster.client.create(CLAIMS, claim, namespace="default")
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "one"}}]
        assert await _verdict(cluster, resolver, "a", volumes=volumes) == ""
        assert await _verdict(cluster, resolver, "b", volumes=volumes) == conflict_reasons.VOLUME
        await cluster.clock.advance(1)
        assert await _verdict(cluster, resolver, "c", volumes=volumes) == conflict_reasons.VOLUME
        assert await _verdict(cluster, resolver, "d") == ""


async def test_the_capability_of_a_queue_is_respected_from_the_creation_of_its_group_on() -> None:
    async with _resolving(batch_kinds=True) as (cluster, resolver):
        version = "scheduling.volcano.sh/v1beta1"
        queue = {"apiVersion": version, "kind": "Queue", "metadata": {"name": "q"}}
        await cluster.client.create(batch_kinds.QUEUES, {**queue, "spec": {"capability": {"cpu": "500m"}}})
        await cluster.clock.advance(1)
        group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"queue": "q"}}
        await cluster.client.create(batch_kinds.POD_GROUPS, group, namespace="default")
        member = {"scheduling.k8s.io/group-name": "g"}
        assert await _verdict(cluster, resolver, "a", cpu="300m", annotations=member) == ""
        assert await _verdict(cluster, resolver, "b", cpu="300m", annotations=member) == conflict_reasons.QUOTA
        assert await _verdict(cluster, resolver, "c", cpu="300m") == ""
