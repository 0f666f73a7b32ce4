import asyncio
import contextlib
from collections.abc import Sequence

import pytest

from rota.client.elections.elector import LEASES, PROMPT
from rota.client.transports.transport import Call, Unreachable
from rota.scheduler.config.faults import ConfigurationError
from rota.testing import schedulers
from rota.testing.schedulers import SchedulingCluster


async def holder(cluster: SchedulingCluster) -> str:
    lease = await cluster.client.get(LEASES, "kube-scheduler", namespace="kube-system")
    return str(lease["spec"].get("holderIdentity") or "")


def lists(calls: Sequence[Call]) -> list[str]:
    return [
        call.path
        for call in calls
        if call.method == "GET" and "watch" not in dict(call.query) and "/leases/" not in call.path
    ]


async def test_a_standby_knows_the_cluster_and_takes_over_without_a_list(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()
    async with contextlib.AsyncExitStack() as leading:
        leader = await leading.enter_async_context(cluster.scheduling(elect=True, seed=1))
        await cluster.add_pod("first")
        await cluster.bound("first")
        assert leader.leading
        async with cluster.scheduling(elect=True, seed=2, client=client) as standby:
            await cluster.add_pod("second")
            await cluster.bound("second")
            await cluster.clock.advance(5)
            assert not standby.leading
            assert {pod.name for pod in standby.cache.pods()} == {"first", "second"}
            before = lists(transport.calls)
            await leading.aclose()
            await cluster.add_pod("third")
            await cluster.bound("third")
            assert standby.leading
            assert await holder(cluster) == "scheduler-2"
            assert lists(transport.calls) == before


async def test_the_next_scheduler_decides_within_three_seconds_after_the_leader_vanished(
    cluster: SchedulingCluster,
) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()
    async with cluster.scheduling(elect=True, seed=1, client=client, pace=PROMPT) as leader:
        await cluster.add_pod("first")
        await cluster.bound("first")
        assert leader.leading
        async with cluster.scheduling(elect=True, seed=2, pace=PROMPT) as standby:

            async def dead(call: Call) -> None:
                raise Unreachable(f"{call}: nobody is there any more")

            transport.before = dead
            transport.cut()
            await cluster.add_pod("second")
            await cluster.clock.advance(3)
            assert await cluster.node_of("second") == "n1"
            assert standby.leading
            assert not leader.leading


async def test_a_scheduler_that_stops_gives_its_lease_back(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling(elect=True, seed=1):
        await cluster.add_pod("web")
        await cluster.bound("web")
        assert await holder(cluster) == "scheduler-1"
    assert await holder(cluster) == ""


@pytest.mark.slow
async def test_two_schedulers_at_once_do_not_get_into_each_others_way(cluster: SchedulingCluster) -> None:
    for number in range(4):
        await cluster.add_node(f"n{number}", cpu="1")
    async with cluster.scheduling(seed=1), cluster.scheduling(seed=2):
        for number in range(40):
            await cluster.add_pod(f"web-{number}")
        for number in range(40):
            await cluster.bound(f"web-{number}")


async def test_another_configuration_is_taken_over_while_running(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling() as scheduler:
        await cluster.add_pod("early", schedulerName="late-comer")
        await cluster.add_pod("web")
        await cluster.bound("web")
        scheduler.load(schedulers.configured("profiles: [{schedulerName: late-comer}]"))
        await cluster.add_pod("other", schedulerName="late-comer")
        await cluster.bound("other")
        await cluster.bound("early")


async def test_a_binding_goes_on_while_its_profile_is_removed_and_brought_back(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    client, transport = cluster.meddling()
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def hold(call: Call) -> None:
        if call.path.endswith("/bindingbatches"):
            arrived.set()
            await go_on.wait()

    transport.before = hold
    async with cluster.scheduling(client=client) as scheduler:
        await cluster.add_pod("web")
        await cluster.clock.advance(1)
        await arrived.wait()
        scheduler.load(schedulers.configured("profiles: [{schedulerName: another}]"))
        scheduler.load(schedulers.configured("profiles: [{schedulerName: default-scheduler}]"))
        await cluster.clock.advance(1)
        go_on.set()
        await cluster.bound("web", "n1")
        assert await cluster.said("web", "Scheduled")
        assert scheduler.metrics.value("schedule_attempts_total", result="scheduled", profile="default-scheduler") == 1


async def test_a_broken_configuration_leaves_the_old_one_at_work(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1")
    async with cluster.scheduling() as scheduler:
        with pytest.raises(ConfigurationError, match="profiles"):
            scheduler.load(
                schedulers.configured("profiles: [{schedulerName: x, plugins: {score: {enabled: [{name: Y}]}}}]")
            )
        await cluster.add_pod("web")
        await cluster.bound("web")
