"""The batch profile with plugins that need more than nodes and pods, and its explanations, on a live scheduler."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from rota.scheduler.batch.conf import MetricsSource
from rota.scheduler.batch.node_usage import NodeUsage
from rota.scheduler.batch_profile import usage_reader
from rota.scheduler.batch_profile.usage_reader import UsageReader
from rota.scheduler.explanation.live_explainer import LiveExplainer
from rota.testing import batches
from rota.testing.batches import BatchCluster, condition

SHARES = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - {name: predicates}
  - name: deviceshare
    arguments: {deviceshare.GPUSharingEnable: true, deviceshare.SchedulePolicy: spread}
"""
CAPACITY = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}]
"""
MILLI = "rota.dev/gpu-milli"


async def add_shares(cluster: BatchCluster, name: str, pods: int, milli: int) -> None:
    resources = {"requests": {"cpu": "100m", MILLI: str(milli)}, "limits": {MILLI: str(milli)}}
    await cluster.add_gang(
        name, pods, cpu="100m", containers=[{"name": "main", "image": "app", "resources": resources}]
    )


async def test_the_devices_that_the_policy_chooses_are_on_the_pods() -> None:
    async with batches.cluster() as cluster, cluster.batching(SHARES):
        await cluster.add_node("n1", labels=None, **{"nvidia.com/gpu": "2", MILLI: "2000"})
        await add_shares(cluster, "train", 2, 400)
        await cluster.started("train")
        devices = [each["metadata"]["annotations"]["rota.dev/gpu-devices"] for each in await cluster.members("train")]
        assert sorted(devices) == ["0", "1"]
        await add_shares(cluster, "large", 1, 700)
        await cluster.clock.advance(60)
        assert await cluster.placed("large") == {}
        said = condition(await cluster.group("large"), "Unschedulable")
        assert "Insufficient free GPU devices" in said["message"]


async def test_a_pod_that_waits_with_its_group_is_explained_by_the_queue() -> None:
    async with batches.cluster() as cluster, cluster.batching(CAPACITY) as scheduler:
        await cluster.add_node("n1", cpu="8")
        await cluster.add_queue("small", capability={"cpu": "4"})
        await cluster.add_gang("first", 3, queue="small")
        await cluster.started("first")
        await cluster.add_gang("second", 2, queue="small")
        await cluster.phase("second", "Pending")

        async def explained(group: str) -> dict[str, Any]:
            pod = (await cluster.members(group))[0]
            return await LiveExplainer(scheduler).explain(pod, node="", limit=None)

        said = await explained("second")
        assert said["outcome"] == "Held"
        assert said["summary"] == (
            "its group default/second waits in queue small for 1 more cpu: 3 of 4 in use; "
            "could start if default/first ended"
        )
        assert (await explained("first"))["summary"] == "was placed with its group, default/first"


async def test_measured_usage_is_read_only_for_plugins_that_need_it() -> None:
    async with batches.cluster() as cluster, cluster.batching(CAPACITY) as scheduler:
        assert scheduler.batch is not None
        reader = UsageReader(cluster.client, clock=cluster.clock)
        assert not reader.due(scheduler.batch.settings.configuration)
        assert not scheduler.batch.settings.configuration.uses(*usage_reader.PLUGINS)
        await reader.read(MetricsSource())  # this server has no metrics: nothing is known, and nothing fails
        assert reader.usage == {}


async def test_measured_usage_may_come_from_a_prometheus() -> None:
    answers = {
        "cpu": [({"machine": "n1"}, "1.5"), ({"machine": "n2"}, "0.25")],
        "memory": [({"machine": "n1"}, "1024")],
    }
    asked: list[str] = []

    async def reply(request: web.Request) -> web.Response:
        query = str((await request.post())["query"])
        asked.append(query)
        samples = answers["cpu" if "cpu_usage" in query else "memory"]
        result = [{"metric": labels, "value": [1.0, value]} for labels, value in samples]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    app = web.Application()
    app.router.add_post("/api/v1/query", reply)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with batches.cluster() as cluster:
            reader = UsageReader(cluster.client, clock=cluster.clock)
            await reader.read(MetricsSource(address=address, node_label="machine"))
            # n2 has no figure of memory
            assert reader.usage == {"n1": NodeUsage(1500.0, 1024.0, reader.usage["n1"].at)}
            assert reader.usage["n1"].fresh(cluster.clock.now())
            assert all("by (machine)" in query for query in asked)
            await reader.read(MetricsSource(address=address))  # no sample names its node by this label
            await reader.read(MetricsSource(address="http://127.0.0.1:1"))  # no answer
            assert reader.usage.keys() == {"n1"}
    finally:
        await runner.cleanup()


USAGE = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: usage}]
metrics: {type: prometheus, address: "http://prometheus:9090"}
"""


async def test_a_source_of_usage_that_hangs_does_not_stop_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[asyncio.Future[None]] = []

    async def hang(_: UsageReader, source: MetricsSource) -> None:
        assert source.address == "http://prometheus:9090"
        readings.append(asyncio.get_running_loop().create_future())
        await readings[-1]

    monkeypatch.setattr(UsageReader, "read", hang)
    async with batches.cluster() as cluster:
        async with cluster.batching(USAGE):
            await cluster.add_node("n1", cpu="8")
            for name in ("first", "second"):
                await cluster.add_gang(name, 2)
                await cluster.started(name)
            await cluster.clock.advance(120)
            assert len(readings) == 1  # no second one beside it
        assert readings[0].cancelled()


TDM = """
actions: "enqueue, allocate, shuffle"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: tdm, arguments: {tdm.revocable-zone.rz: HOURS, tdm.evict.period: 10s}}]
"""


async def test_pods_leave_a_lent_node_when_its_hours_are_over_though_nothing_waits() -> None:
    async with batches.cluster() as cluster:
        now = datetime.fromtimestamp(cluster.clock.now(), UTC)
        ends = now + timedelta(minutes=2)
        hours = f'"{now - timedelta(minutes=2):%H:%M}-{ends:%H:%M}"'
        async with cluster.batching(TDM.replace("HOURS", hours)):
            await cluster.add_node("n1", labels={"volcano.sh/revocable-zone": "rz"})
            await cluster.add_gang("lent", 1, annotations={"volcano.sh/preemptable": "true"})
            await cluster.started("lent")
            await cluster.run_pods("lent")
            await cluster.phase("lent", "Running")
            for _ in range(60):
                await cluster.clock.advance(5)
                await cluster.sweep()
                pods = await cluster.members("lent")
                if not pods or pods[0]["metadata"].get("deletionTimestamp"):
                    break
            else:
                raise AssertionError("the pod stays though the hours are over")
            assert cluster.clock.now() >= ends.replace(second=0, microsecond=0).timestamp()
