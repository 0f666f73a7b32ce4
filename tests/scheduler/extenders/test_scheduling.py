"""The whole scheduler with extenders that are asked over HTTP: every step taken over, failures, time."""

import asyncio
import contextlib
import json
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.scheduler.extenders.conftest import HttpExtender

from rota.client import client_factory
from rota.client.pods import PODS, Binding, bind
from rota.client.verbs import Client
from rota.kit.system import SystemClock
from rota.scheduler.extenders.extender import ExchangeError, WireExtender
from rota.scheduler.extenders.process import ProcessExchange
from rota.scheduler.service import NODES, Scheduler
from rota.testing import schedulers
from rota.testing.api import ApiServer
from rota.testing.clusters import make_node, make_pod

PATIENCE_S = 60.0

#: A profile that leaves filtering, scoring and preemption to others; bound pods are bound by the extender.
BARE = """
profiles:
- plugins:
    filter: {disabled: [{name: "*"}]}
    preScore: {disabled: [{name: "*"}]}
    score: {disabled: [{name: "*"}]}
    postFilter: {disabled: [{name: "*"}]}
extenders:
- urlPrefix: %s
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: preempt
  bindVerb: bind
  weight: 1
  nodeCacheCapable: true
"""


class Cluster:
    """A server and a client, in real time."""

    def __init__(self, client: Client) -> None:
        self.client = client

    @contextlib.asynccontextmanager
    async def scheduling(self, config: str) -> AsyncIterator[Scheduler]:
        scheduler = Scheduler(
            self.client,
            schedulers.configured(config),
            clock=SystemClock(),
            rng=random.Random(1),
            identity="test",
            elect=False,
        )
        running = asyncio.create_task(scheduler.run())
        try:
            await scheduler.wait_synced()
            yield scheduler
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    async def add_node(self, name: str, **allocatable: str) -> None:
        await self.client.create(NODES, {"apiVersion": "v1", **make_node(name, **allocatable)})  # type: ignore[arg-type]

    async def add_pod(self, name: str, **about: Any) -> None:
        pod = {"apiVersion": "v1", **make_pod(name, **about)}
        del pod["metadata"]["uid"]
        await self.client.create(PODS, pod)

    async def pod(self, name: str) -> dict[str, Any]:
        return await self.client.get(PODS, name, namespace="default")

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not await holds():  # noqa: ASYNC110 - what is waited for happens in a server
                await asyncio.sleep(0.01)

    async def bound(self, name: str, node: str) -> None:
        async def there() -> bool:
            return bool((await self.pod(name))["spec"].get("nodeName") == node)

        await self.until(there)

    async def said(self, name: str, text: str) -> None:
        """Wait for an event about a pod; they outlast its condition."""

        async def there() -> bool:
            events = (await self.client.list(schedulers.EVENTS, namespace="default")).items
            return any(one["involvedObject"]["name"] == name and text in one["message"] for one in events)

        await self.until(there)

    async def told(self, name: str, text: str) -> None:
        async def said() -> bool:
            conditions = (await self.pod(name))["status"].get("conditions") or ()
            return any(text in (condition.get("message") or "") for condition in conditions)

        await self.until(said)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with ApiServer() as server:
        clock, rng = SystemClock(), random.Random(1)
        async with client_factory.to_application(server.app, clock=clock, rng=rng) as client:
            yield Cluster(client)


@pytest.mark.slow
async def test_an_extender_can_take_over_every_step(cluster: Cluster, server: HttpExtender) -> None:
    """Filter, score, preemption and binding: no plugin has a say, the extender has it all."""
    bound: list[str] = []

    async def do_bind(asked: Any) -> dict[str, str]:
        bound.append(asked["PodName"])
        binding = Binding(
            namespace=asked["PodNamespace"], pod=asked["PodName"], node=asked["Node"], uid=asked["PodUID"]
        )
        await bind(cluster.client, binding)
        return {"Error": ""}

    free = {"n1", "n2", "n3"}
    server.answers["filter"] = lambda asked: {
        "NodeNames": [name for name in asked["NodeNames"] if name in free],
        "FailedNodes": {name: "sold out" for name in asked["NodeNames"] if name not in free},
    }
    server.answers["prioritize"] = lambda asked: [
        {"Host": name, "Score": 10 if name == "n2" else 1} for name in asked["NodeNames"]
    ]
    server.answers["bind"] = do_bind
    for name in ("n1", "n2", "n3"):
        await cluster.add_node(name, cpu="1")
    async with cluster.scheduling(BARE % server.url):
        await cluster.add_pod("first", cpu="1", terminationGracePeriodSeconds=0)
        await cluster.bound("first", "n2")
        free.clear()
        victims: list[Any] = []

        def choose(asked: Any) -> Any:
            victims.append(asked["NodeNameToMetaVictims"])
            free.add("n2")
            return {"NodeNameToMetaVictims": {"n2": asked["NodeNameToMetaVictims"]["n2"]}}

        server.answers["preempt"] = choose
        await cluster.client.create(
            ("scheduling.k8s.io", "v1", "priorityclasses"),
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "urgent"},
                "value": 1000,
            },
        )
        uid = (await cluster.pod("first"))["metadata"]["uid"]
        await cluster.add_pod("urgent", cpu="1", priorityClassName="urgent")
        await cluster.bound("urgent", "n2")
        await cluster.said("urgent", "0/3 nodes are available: 3 sold out.")
    assert victims[0] == {"n2": {"Pods": [{"UID": uid}], "NumPDBViolations": 0}}
    assert bound == ["first", "urgent"]


@pytest.mark.slow
async def test_a_failing_extender_is_named_on_the_pod_and_an_ignorable_one_is_left_out(
    cluster: Cluster, server: HttpExtender
) -> None:
    server.answers["filter"] = lambda asked: {"Error": "the rack is on fire"}
    config = f"extenders: [{{urlPrefix: '{server.url}', filterVerb: filter}}]"
    await cluster.add_node("n1")
    async with cluster.scheduling(config):
        await cluster.add_pod("web")
        await cluster.told("web", f"extender {server.url}: the rack is on fire")
        assert not (await cluster.pod("web"))["spec"].get("nodeName")
    ignorable = config.replace("filterVerb: filter", "filterVerb: filter, ignorable: true")
    async with cluster.scheduling(ignorable):
        await cluster.bound("web", "n1")


@pytest.mark.slow
async def test_nodes_that_only_extenders_refuse_are_no_place_for_evictions(
    cluster: Cluster, server: HttpExtender
) -> None:
    server.answers["filter"] = lambda asked: {"Nodes": {"items": []}, "FailedNodes": {"n1": "sold out"}}
    config = f"extenders: [{{urlPrefix: '{server.url}', filterVerb: filter, managedResources: [{{name: a.b/c}}]}}]"
    await cluster.add_node("n1", **{"a.b/c": "5"})
    async with cluster.scheduling(config):
        await cluster.add_pod("small")
        await cluster.bound("small", "n1")
        wants = [{"name": "c", "image": "app", "resources": {"limits": {"a.b/c": "1"}}}]
        urgent = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        }
        await cluster.client.create(("scheduling.k8s.io", "v1", "priorityclasses"), urgent)
        await cluster.add_pod("urgent", containers=wants, priorityClassName="urgent")
        await cluster.told("urgent", "0/1 nodes are available: 1 sold out. preemption: 0/1 nodes are available: ")
        (condition,) = (await cluster.pod("urgent"))["status"]["conditions"]
        assert condition["reason"] == "Unschedulable"


@pytest.mark.slow
async def test_a_slow_extender_holds_up_its_own_pods_only_until_its_deadline(
    cluster: Cluster, server: HttpExtender
) -> None:
    async def never(asked: Any) -> None:
        await asyncio.Event().wait()

    server.answers["filter"] = never
    config = f"""
extenders:
- urlPrefix: {server.url}
  filterVerb: filter
  httpTimeout: 50ms
  managedResources: [{{name: example.com/gpu}}]
"""
    await cluster.add_node("n1", **{"example.com/gpu": "1"})
    async with cluster.scheduling(config):
        gpu = [{"name": "c", "image": "app", "resources": {"limits": {"example.com/gpu": "1"}}}]
        await cluster.add_pod("gpu", containers=gpu)
        await cluster.add_pod("web")
        await cluster.bound("web", "n1")
        await cluster.told("gpu", "filter: no answer within 0.05 s")


@pytest.mark.slow
async def test_scores_of_extenders_decide_between_nodes_that_plugins_like_alike(
    cluster: Cluster, server: HttpExtender
) -> None:
    server.answers["rate"] = lambda asked: [{"Host": "n3", "Score": 10}]
    for name in ("n1", "n2", "n3"):
        await cluster.add_node(name)
    async with cluster.scheduling(f"extenders: [{{urlPrefix: '{server.url}', prioritizeVerb: rate, weight: 5}}]"):
        for number in range(5):
            await cluster.add_pod(f"web-{number}")
        for number in range(5):
            await cluster.bound(f"web-{number}", "n3")
    names = {node["metadata"]["name"] for node in server.requests[0][1]["Nodes"]["items"]}
    assert names == {"n1", "n2", "n3"}
    assert server.requests[0][1]["Pod"]["metadata"]["name"] == "web-0"


@pytest.mark.slow
async def test_a_new_configuration_lets_go_of_the_extenders_before(cluster: Cluster) -> None:
    script = "import sys\nfor line in sys.stdin: print(line.replace('body', 'was').replace('verb', 'body'), flush=True)"
    config = f"extenders: [{{command: [{sys.executable}, -S, -c, {json.dumps(script)}], bindVerb: '{{}}'}}]"
    await cluster.add_node("n1")
    async with cluster.scheduling(config) as scheduler:
        (extender,) = scheduler.extender_chain.extenders
        assert isinstance(extender, WireExtender)
        exchange = extender._exchange
        assert isinstance(exchange, ProcessExchange)
        with contextlib.suppress(ExchangeError):
            await exchange.ask("hello", b"{}")
        assert exchange.pid is not None
        scheduler.load(schedulers.configured())

        async def ended() -> bool:
            return exchange.pid is None

        await cluster.until(ended)
        assert not scheduler.extender_chain


@pytest.mark.slow
async def test_a_configuration_that_is_loaded_while_an_extender_is_asked_decides_about_the_pod(
    cluster: Cluster, server: HttpExtender
) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def answer_late(question: Any) -> Any:
        asked.set()
        await go_on.wait()
        return {"NodeNames": ["n1"]}

    server.answers["filter"] = answer_late
    await cluster.add_node("n1")
    config = f"extenders: [{{urlPrefix: '{server.url}', filterVerb: filter, nodeCacheCapable: true}}]"
    async with cluster.scheduling(config) as scheduler:
        await cluster.add_pod("web")
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        # Whatever the extender of before says, or that it cannot be reached any more, is no concern of this pod.
        scheduler.load(schedulers.configured())
        go_on.set()
        await cluster.bound("web", "n1")
        await cluster.said("web", "Successfully assigned")
        events = (await cluster.client.list(schedulers.EVENTS, namespace="default")).items
        assert [one["reason"] for one in events if one["involvedObject"]["name"] == "web"] == ["Scheduled"]
