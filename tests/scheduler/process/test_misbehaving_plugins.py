import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from rota.client import client_factory
from rota.client.pods import PODS
from rota.client.verbs import Client
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.kit import system
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status
from rota.scheduler.service import NODES, Scheduler
from rota.store.store_interface import Put, Transaction
from rota.testing import schedulers
from rota.testing.api import ApiServer
from rota.testing.clusters import make_node, make_pod
from rota.testing.schedulers import SchedulingCluster

CONFIG = """
profiles:
- plugins: {multiPoint: {enabled: [{name: %s}]}}
"""


class Raising:
    name: ClassVar[str] = "Raising"
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if pod.name == "cursed":
            raise RuntimeError("no idea")
        return None


class Hanging:
    """Never returns for some pods, be it busy or asleep."""

    name: ClassVar[str] = "Hanging"
    Args = NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        pass

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if pod.name == "at-the-gate":
            while True:
                pass
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if pod.name == "busy":
            while True:
                pass
        if pod.name == "asleep":
            system.SystemClock().block(3600)
        return None


async def test_a_plugin_that_raises_fails_the_attempt_by_name_and_others_go_on(
    cluster: SchedulingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling(CONFIG % "Raising", plugins=(Raising,)):
        await cluster.add_pod("cursed")
        await cluster.add_pod("blessed")
        await cluster.bound("blessed")
        condition = await cluster.refused("cursed")
        assert condition["reason"] == "SchedulerError"
        assert condition["message"] == "plugin Raising failed: RuntimeError: no idea"
        assert await cluster.said("cursed", "FailedScheduling") == condition["message"]
    told = [vars(record)["rota_fields"] for record in caplog.records if record.getMessage() == "attempt failed"]
    assert {(fields["pod"], fields["message"]) for fields in told} == {("default/cursed", condition["message"])}


@contextlib.asynccontextmanager
async def at_work(config: str, *plugins: type) -> AsyncIterator[tuple[Client, Scheduler]]:
    """A scheduler in real time with one node, which cuts plugins off after a moment."""
    clock, rng = system.SystemClock(), random.Random(0)
    async with ApiServer() as server, client_factory.to_application(server.app, clock=clock, rng=rng) as client:
        await client.create(NODES, {"apiVersion": "v1", **make_node("n1")})
        loaded = schedulers.configured(config, *plugins)
        scheduler = Scheduler(client, loaded, clock=clock, rng=rng, identity="x", elect=False, limit_s=0.3)
        running = asyncio.ensure_future(scheduler.run())
        await scheduler.wait_synced()
        yield client, scheduler
        running.cancel()
        await asyncio.wait([running])


async def add_pods(client: Client, *names: str) -> None:
    for name in names:
        pod = {"apiVersion": "v1", **make_pod(name)}
        del pod["metadata"]["uid"]
        await client.create(PODS, pod)


async def bound(client: Client, name: str) -> bool:
    return bool((await client.get(PODS, name, namespace="default"))["spec"].get("nodeName"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["busy", "asleep"])
async def test_a_plugin_that_hangs_is_cut_off_and_named_and_others_go_on(name: str) -> None:
    async with at_work(CONFIG % "Hanging", Hanging) as (client, _):
        await add_pods(client, name, "other")
        async with asyncio.timeout(60):
            while True:
                told = (await client.get(PODS, name, namespace="default"))["status"].get("conditions")
                if told and await bound(client, "other"):
                    break
                await asyncio.sleep(0.05)
        assert told[0]["message"] == "plugin Hanging failed: Overrun: cut off after 0.3 s"


@pytest.mark.slow
async def test_a_plugin_that_hangs_at_the_gate_of_the_queue_holds_up_that_pod_only() -> None:
    async with at_work(CONFIG % "Hanging", Hanging) as (client, scheduler):
        await add_pods(client, "at-the-gate", "other")
        async with asyncio.timeout(60):
            while not await bound(client, "other"):  # noqa: ASYNC110 - nothing else tells
                await asyncio.sleep(0.05)
        (held,) = scheduler.queue.entries()
        assert (held.pod.name, held.gate) == ("at-the-gate", "Hanging")
        assert held.held.reasons == ("Overrun: cut off after 0.3 s",)


async def test_an_unreadable_pod_is_reported_and_does_not_delay_others(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    made = await cluster.add_pod("odd", schedulerName="nobody")
    async with cluster.scheduling():
        made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "a lot"}}
        made["spec"]["schedulerName"] = "default-scheduler"
        del made["metadata"]["resourceVersion"]
        # Past the server, which would not take it.
        await cluster.server.store.commit(
            Transaction((Put("/core/pods/default/odd", json.dumps(made, separators=(",", ":")).encode()),))
        )
        await cluster.add_pod("sound")
        await cluster.bound("sound")
        assert (await cluster.said("odd", "FailedScheduling")).startswith("pod.spec: quantities must match")
        assert await cluster.node_of("odd") == ""
