"""Two schedulers place pods that exclude each other from nodes at the same moments; the transaction refuses one."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rota.api import conflict_reasons
from rota.client.pods import PODS
from rota.client.transports.transport import Call
from rota.scheduler.core import attempts
from rota.scheduler.core.events import BindingEnded, Event
from rota.testing.schedulers import SchedulingCluster

APPS = ("web", "db", "cache")
_NODES = 4
_ROUNDS = 6


def _apart(*apps: str) -> dict[str, Any]:
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": one}}} for one in apps]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}} if terms else {}


def _random_pod(rng: random.Random) -> dict[str, Any]:
    excluded = rng.sample(APPS, rng.choice((0, 1, 1, 2)))
    return {"labels": {"app": rng.choice(APPS)}, "affinity": _apart(*excluded), "cpu": "10m"}


def _excluded_by(pod: dict[str, Any]) -> set[str]:
    apart = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    terms = apart.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return {term["labelSelector"]["matchLabels"]["app"] for term in terms}


@contextlib.asynccontextmanager
async def _blind(cluster: SchedulingCluster) -> AsyncIterator[tuple[asyncio.Event, list[str]]]:
    """Two schedulers whose bindings wait for an event, so that they decide without knowing each other's; refusals."""
    reasons: list[str] = []
    go_on = asyncio.Event()

    def listen(event: Event, _: float) -> None:
        if isinstance(event, BindingEnded) and not event.status.ok:
            reasons.append(attempts.conflict_reason(event.status))

    async def hold(call: Call) -> None:
        if call.path.endswith("/bindingbatches"):
            await go_on.wait()

    async with contextlib.AsyncExitStack() as stack:
        for seed, name in enumerate(("one", "two")):
            client, transport = cluster.meddling()
            transport.before = hold
            scheduler = await stack.enter_async_context(
                cluster.scheduling(f"profiles: [{{schedulerName: {name}}}]", seed=seed, client=client)
            )
            scheduler.core.listeners.append(listen)
        yield go_on, reasons
        go_on.set()


@pytest.mark.parametrize("seed", range(4))
async def test_pods_that_exclude_each_other_never_share_a_node(cluster: SchedulingCluster, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(_NODES):
        await cluster.add_node(f"n{number}", pods="100")
    async with _blind(cluster) as (go_on, reasons):
        for turn in range(_ROUNDS):
            go_on.clear()
            for number in range(4):
                about = _random_pod(rng)
                await cluster.add_pod(f"p{turn}-{number}", schedulerName=("one", "two")[number % 2], **about)
            await cluster.clock.advance(0.5)
            go_on.set()
            await cluster.clock.advance(2)
    pods = [one for one in (await cluster.client.list(PODS)).items if one["spec"].get("nodeName")]
    together = [(a, b) for a in pods for b in pods if a is not b and a["spec"]["nodeName"] == b["spec"]["nodeName"]]
    assert not [
        (a["metadata"]["name"], b["metadata"]["name"])
        for a, b in together
        if b["metadata"]["labels"]["app"] in _excluded_by(a)
    ]
    assert len(pods) >= _NODES
    # Without races the test would show nothing.
    assert conflict_reasons.ANTI_AFFINITY in reasons
