"""Thousands of pods, nodes that come and go, schedulers that die and lose their connections, two of them at once.

Whatever happens, no pod is bound twice, no node is sold beyond what it has at any revision, and nobody is forgotten.
ROTA_CHAOS_STEPS is the number of steps in virtual time, each a change and every other time many pods: 50 unless it says
otherwise. A long run for tens of thousands of pods, in some minutes:
`ROTA_CHAOS_STEPS=1000 pytest -n0 tests/scheduler/process/test_chaos.py`.

Pods that do not fit are what costs time, since every change has them tried again by both schedulers; so there is room
for most of them, most of the time.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from rota.api import resources
from rota.api.errors import ApiError
from rota.client import client_factory
from rota.client.endpoints import Endpoint
from rota.client.pods import PODS
from rota.client.transports.http import HttpTransport
from rota.client.transports.transport import Call, Interrupted, TimedOut
from rota.client.verbs import Client
from rota.client.wire import EventType
from rota.kit import system
from rota.scheduler.service import NODES, Scheduler
from rota.testing import schedulers
from rota.testing.clusters import make_node, make_pod
from rota.testing.live import LiveServer
from rota.testing.schedulers import FaultyTransport, SchedulingCluster

#: How many clients create and delete at once.
CLIENTS = 8
STEPS = int(os.environ.get("ROTA_CHAOS_STEPS", "50"))

Change = tuple[int, str, EventType, dict[str, Any]]


class Auditor:
    """Follows every change of pods and nodes, and afterwards goes through them one revision at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.changes: list[Change] = []

    async def follow(self, kind: str, version: str) -> None:
        target = ("", "v1", kind)
        async with self._client.watch(target, resource_version=version, bookmarks=False) as events:
            async for event in events:
                found = event.object
                self.changes.append((int(found["metadata"]["resourceVersion"]), kind, event.type, found))

    def audit(self) -> int:
        """Check every revision; gives how many pods were bound."""
        nodes: dict[str, dict[str, int]] = {}
        taken: dict[str, dict[str, int]] = {}
        placed: dict[str, tuple[str, dict[str, int]]] = {}
        bound: set[str] = set()
        for revision, kind, event, found in sorted(self.changes, key=lambda change: change[0]):
            if kind == "nodes":
                name = found["metadata"]["name"]
                nodes.pop(name, None)
                if event is not EventType.DELETED:
                    nodes[name] = resources.node_allocatable(found)
                continue
            uid, where = found["metadata"]["uid"], found["spec"].get("nodeName", "")
            if uid in placed:
                assert where == placed[uid][0], f"revision {revision}: pod {uid} moved from {placed[uid][0]} to {where}"
            elif where and event is not EventType.DELETED:
                bound.add(uid)
                placed[uid] = where, {**resources.pod_requests(found), "pods": 1}
                _add(taken.setdefault(where, {}), placed[uid][1], 1)
                _assert_no_more(taken[where], nodes.get(where), f"revision {revision}: node {where}")
            if event is EventType.DELETED and uid in placed:
                node, share = placed.pop(uid)
                _add(taken[node], share, -1)
        return len(bound)


def _add(total: dict[str, int], share: dict[str, int], sign: int) -> None:
    for resource, amount in share.items():
        total[resource] = total.get(resource, 0) + sign * amount


def _assert_no_more(taken: dict[str, int], offered: dict[str, int] | None, what: str) -> None:
    for resource, amount in taken.items() if offered is not None else ():
        assert amount <= (offered or {}).get(resource, 0), f"{what} is oversold: {resource} {amount} of {offered}"


class Chaos:
    """A cluster in trouble."""

    def __init__(self, client: Client, rng: random.Random, *, most_pods: int = 200) -> None:
        self.client = client
        self.most_pods = most_pods
        self.rng = rng
        self.nodes: set[str] = set()
        self.names = iter(range(10**6))
        self.transports: list[FaultyTransport] = []
        self.quiet = False

    def disturb(self, transport: FaultyTransport) -> None:
        """Have some calls fail before the server gets them, and the answers to others lost."""
        self.transports.append(transport)

        async def before(call: Call) -> None:
            if not self.quiet and self.rng.random() < 0.03:
                raise Interrupted(f"{call}: lost on the way")

        async def after(call: Call) -> None:
            if not self.quiet and call.method != "GET" and self.rng.random() < 0.05:
                raise TimedOut(f"{call}: answer lost")

        transport.before, transport.after = before, after

    async def add_node(self) -> None:
        name = f"n{next(self.names)}"
        cpu, pods = self.rng.choice(["2", "4", "8"]), str(self.rng.randint(10, 60))
        await self.client.create(NODES, {"apiVersion": "v1", **make_node(name, cpu=cpu, pods=pods)})
        self.nodes.add(name)

    async def remove_node(self) -> None:
        name = self.rng.choice(sorted(self.nodes))
        self.nodes.discard(name)
        await self.client.delete(NODES, name)

    async def add_pods(self, count: int) -> None:
        """Several clients create pods at once."""
        made = [self._pod() for _ in range(count)]
        await asyncio.gather(*(self._each(made[start::CLIENTS], self._create) for start in range(CLIENTS)))

    def _pod(self) -> dict[str, Any]:
        made = make_pod(f"p{next(self.names)}", cpu=self.rng.choice(["50m", "100m", "300m"]))
        del made["metadata"]["uid"]
        if self.rng.random() < 0.1:
            port = 8000 + self.rng.randint(0, 3)
            made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": port}]
        return made

    async def _create(self, pod: dict[str, Any]) -> None:
        await self.client.create(PODS, {"apiVersion": "v1", **pod})

    async def remove_pods(self, share: float) -> None:
        """Delete some pods, and all whose node is gone."""
        chosen = []
        for pod in (await self.client.list(PODS)).items:
            stranded = pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in self.nodes
            if stranded or self.rng.random() < share:
                chosen.append(pod)
        await asyncio.gather(*(self._each(chosen[start::CLIENTS], self._delete) for start in range(CLIENTS)))

    async def _delete(self, pod: dict[str, Any]) -> None:
        with contextlib.suppress(ApiError):
            await self.client.delete(PODS, pod["metadata"]["name"], namespace="default", grace_period_s=0)

    async def _each(self, pods: list[dict[str, Any]], act: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        for pod in pods:
            await act(pod)

    async def step(self) -> None:
        match self.rng.randrange(8):
            case 0 if len(self.nodes) < 80:
                await self.add_node()
            case 1 if len(self.nodes) > 30:
                await self.remove_node()
            case 2 | 3:
                await self.remove_pods(0.3)
            case 4:
                self.rng.choice(self.transports).cut()
            case _:
                await self.add_pods(self.rng.randint(20, self.most_pods))

    async def calm_down(self) -> None:
        """End all trouble, and give everybody room."""
        self.quiet = True
        await self.remove_pods(0.0)
        # Even the smallest node holds three pods of the largest kind.
        for _ in range(max(60, len(await self.waiting()) // 2)):
            await self.add_node()

    async def waiting(self) -> list[str]:
        pods = (await self.client.list(PODS)).items
        return [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]


async def _virtual(cluster: SchedulingCluster, seed: int, steps: int) -> int:
    rng = random.Random(seed)
    chaos = Chaos(cluster.client, rng)
    auditor = Auditor(cluster.client)
    version = (await cluster.client.list(NODES)).resource_version
    async with contextlib.AsyncExitStack() as all_parts:
        for kind in ("pods", "nodes"):
            await all_parts.enter_async_context(cluster.running(partial(auditor.follow, kind, version)))
        for _ in range(50):
            await chaos.add_node()

        async def start(number: int) -> contextlib.AsyncExitStack:
            client, transport = cluster.meddling()
            running = contextlib.AsyncExitStack()
            await running.enter_async_context(cluster.scheduling(seed=number, client=client))
            chaos.disturb(transport)
            return running

        running = [await start(1), await start(2)]
        for number in range(steps):
            await chaos.step()
            await cluster.clock.advance(rng.random() * 2)
            if number % 10 == 9:
                victim = rng.randrange(2)
                await running[victim].aclose()
                running[victim] = await start(number)
        await chaos.calm_down()

        async def settled() -> bool:
            return not await chaos.waiting()

        await cluster.until(settled)
        await cluster.clock.advance(2)
        for each in running:
            await each.aclose()
    return auditor.audit()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_is_oversold_bound_twice_or_forgotten_in_virtual_time(
    cluster: SchedulingCluster, seed: int
) -> None:
    assert await _virtual(cluster, seed, steps=STEPS) > 20 * STEPS


@contextlib.asynccontextmanager
async def _scheduling_over_http(url: str, seed: int, chaos: Chaos) -> AsyncIterator[Scheduler]:
    clock = system.SystemClock()
    transport = FaultyTransport(HttpTransport(Endpoint(server=url)))
    quick = "podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\n"
    scheduler = Scheduler(
        Client(transport),
        schedulers.configured(quick),
        clock=clock,
        rng=random.Random(seed),
        identity=f"scheduler-{seed}",
        elect=False,
    )
    running = asyncio.ensure_future(scheduler.run())
    await scheduler.wait_synced()
    chaos.disturb(transport)
    try:
        yield scheduler
    finally:
        running.cancel()
        await asyncio.wait([running])
        await transport.close()


@pytest.mark.slow
async def test_nothing_is_oversold_bound_twice_or_forgotten_over_http() -> None:
    rng, clock = random.Random(5), system.SystemClock()
    with LiveServer() as live:
        async with client_factory.to_server(Endpoint(server=live.url), clock=clock, rng=rng) as client:
            chaos, auditor = Chaos(client, rng, most_pods=60), Auditor(client)
            version = (await client.list(NODES)).resource_version
            following = [asyncio.ensure_future(auditor.follow(kind, version)) for kind in ("pods", "nodes")]
            for _ in range(40):
                await chaos.add_node()
            for start in range(2):
                async with (
                    _scheduling_over_http(live.url, 2 * start, chaos),
                    _scheduling_over_http(live.url, 2 * start + 1, chaos),
                ):
                    for _ in range(20):
                        await chaos.step()
                        await asyncio.sleep(0.05)
            await chaos.calm_down()
            async with _scheduling_over_http(live.url, 9, chaos), asyncio.timeout(60):
                while await chaos.waiting():  # noqa: ASYNC110 - nothing else tells of the last pod
                    await asyncio.sleep(0.2)
            await asyncio.sleep(0.2)
            for task in following:
                task.cancel()
            await asyncio.wait(following)
    assert auditor.audit() > 400


def _seen(revision: int, kind: str, name: str, **spec: Any) -> Change:
    metadata = {"name": name, "uid": name, "resourceVersion": str(revision)}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    status = {"allocatable": {"cpu": "1", "pods": "2"}}
    found = {"metadata": metadata, "spec": {"containers": [container], **spec}, "status": status}
    return revision, kind, EventType.ADDED, found


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ([_seen(2, "pods", "a", nodeName="n"), _seen(3, "pods", "b", nodeName="n")], "revision 3: node n is oversold"),
        ([_seen(2, "pods", "a", nodeName="n"), _seen(3, "pods", "a", nodeName="m")], "moved from n to m"),
    ],
)
def test_the_auditor_would_notice(changes: list[Change], what: str) -> None:
    auditor = Auditor(Client(FaultyTransport(HttpTransport(Endpoint(server="http://127.0.0.1:1")))))
    auditor.changes = [_seen(1, "nodes", "n"), *changes]
    with pytest.raises(AssertionError, match=what):
        auditor.audit()
