import asyncio
import random
from typing import ClassVar

import pytest

from rota.client import connecting
from rota.client.pods import PODS
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.kit import system
from rota.scheduler.framework.registry import Handle, NoArgs
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status
from rota.scheduler.service import NODES, Scheduler
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

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if pod.name == "busy":
            while True:
                pass
        if pod.name == "asleep":
            system.SystemClock().block(3600)
        return None


async def test_a_plugin_that_raises_fails_the_attempt_by_name_and_others_go_on(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling(CONFIG % "Raising", plugins=(Raising,)):
        await cluster.add_pod("cursed")
        await cluster.add_pod("blessed")
        await cluster.bound("blessed")
        condition = await cluster.refused("cursed")
        assert condition["reason"] == "SchedulerError"
        assert condition["message"] == "plugin Raising failed: RuntimeError: no idea"
        assert await cluster.said("cursed", "FailedScheduling") == condition["message"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["busy", "asleep"])
async def test_a_plugin_that_hangs_is_cut_off_and_named_and_others_go_on(name: str) -> None:
    clock, chance = system.SystemClock(), random.Random(0)
    async with ApiServer() as server, connecting.to_application(server.app, clock=clock, chance=chance) as client:
        node = {"apiVersion": "v1", **make_node("n1")}
        await client.create(NODES, node)
        loaded = schedulers.configured(CONFIG % "Hanging", Hanging)
        scheduler = Scheduler(client, loaded, clock=clock, chance=chance, identity="x", elect=False, limit_s=0.3)
        running = asyncio.ensure_future(scheduler.run())
        for each in (name, "other"):
            pod = {"apiVersion": "v1", **make_pod(each)}
            del pod["metadata"]["uid"]
            await client.create(PODS, pod)
        async with asyncio.timeout(20):
            while True:
                found = {pod["metadata"]["name"]: pod for pod in (await client.list(PODS)).items}
                conditions = found[name]["status"].get("conditions") or [{}]
                if found["other"]["spec"].get("nodeName") and conditions[0].get("message"):
                    break
                await asyncio.sleep(0.05)
        assert conditions[0]["message"] == "plugin Hanging failed: Overrun: cut off after 0.3 s"
        running.cancel()
        await asyncio.wait([running])
