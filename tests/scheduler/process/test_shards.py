"""Several schedulers on one API server, in virtual time: they share the pods, and take over from each other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from rota.client.elections.elector import LEASES
from rota.client.pods import PODS
from rota.client.transports.transport import Call, Unreachable
from rota.scheduler.service import Scheduler
from rota.scheduler.sharding import instance_objects
from rota.scheduler.sharding.instance_objects import INSTANCES, SHARD_MAPS, InstanceSettings
from rota.testing.allocation_observer import AllocationObserver
from rota.testing.schedulers import SchedulingCluster


def _shard(name: str, **more: Any) -> InstanceSettings:
    return InstanceSettings(name=name, **more)


async def _settled(cluster: SchedulingCluster, schedulers: Sequence[Scheduler]) -> None:
    """Wait until all these schedulers, and no others, share the pods."""

    async def condition() -> bool:
        return all(
            one.shard is not None and one.shard.active and len(one.shard.ownership.current.members) == len(schedulers)
            for one in schedulers
        )

    await cluster.until(condition)


@contextlib.asynccontextmanager
async def _sharing(cluster: SchedulingCluster, *names: str) -> AsyncIterator[list[Scheduler]]:
    async with contextlib.AsyncExitStack() as stack:
        made = [
            await stack.enter_async_context(cluster.scheduling(seed=number, shard=_shard(name)))
            for number, name in enumerate(names, 1)
        ]
        await _settled(cluster, made)
        yield made


def _bound(one: Scheduler) -> int:
    return one.attempts.using.figures.bound_total


async def _all_bound(cluster: SchedulingCluster, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def condition() -> bool:
        found[:] = [one for one in (await cluster.client.list(PODS)).items if one["spec"].get("nodeName")]
        return len(found) >= count

    await cluster.until(condition)
    # A pod has its node in the API before its scheduler has read the answer and counted it.
    await cluster.clock.advance(0.01)
    return found


async def test_every_pod_is_decided_once_by_the_scheduler_that_the_map_gives_it(cluster: SchedulingCluster) -> None:
    for number in range(4):
        await cluster.add_node(f"n{number}", pods="100", cpu="64")
    async with _sharing(cluster, "a", "b", "c") as schedulers:
        pods = [await cluster.add_pod(f"web-{number}") for number in range(45)]
        await _all_bound(cluster, 45)
        shard = schedulers[0].shard
        assert shard is not None
        expected = [shard.ownership.current.decider(f"pod/{one['metadata']['uid']}", {}) for one in pods]
        assert [_bound(one) for one in schedulers] == [expected.count(name) for name in "abc"]
        assert min(_bound(one) for one in schedulers) > 0
        assert sum(one.attempts.using.figures.conflicts_total for one in schedulers) == 0


async def test_instances_report_themselves(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", pods="100")
    async with _sharing(cluster, "a", "b"):
        for number in range(8):
            await cluster.add_pod(f"web-{number}")
        await _all_bound(cluster, 8)
        await cluster.clock.advance(5)
        reports = {one["metadata"]["name"]: one["status"] for one in (await cluster.client.list(INSTANCES)).items}
        assert {one["phase"] for one in reports.values()} == {"Active"}
        assert sum(one["boundPods"] for one in reports.values()) == 8
        shard_map = await cluster.client.get(SHARD_MAPS, "default")
        assert {one["observedEpoch"] for one in reports.values()} == {shard_map["status"]["epoch"]}


async def test_the_pods_of_a_scheduler_that_vanished_are_decided_within_three_seconds(
    cluster: SchedulingCluster,
) -> None:
    await cluster.add_node("n1", pods="100")
    client, transport = cluster.meddling()
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(cluster.scheduling(seed=1, client=client, shard=_shard("a")))
        second = await stack.enter_async_context(cluster.scheduling(seed=2, shard=_shard("b")))
        await _settled(cluster, [first, second])

        async def dead(call: Call) -> None:
            raise Unreachable(f"{call}: nobody is there any more")

        transport.before = dead
        transport.cut()
        for number in range(20):
            await cluster.add_pod(f"web-{number}")
        await cluster.clock.advance(3)
        pods = (await cluster.client.list(PODS)).items
        assert all(one["spec"].get("nodeName") for one in pods)
        assert _bound(first) == 0
        assert _bound(second) == 20
        # It comes back and takes its share again.
        transport.before = None
        await _settled(cluster, [first, second])
        for number in range(20):
            await cluster.add_pod(f"late-{number}")
        await _all_bound(cluster, 40)
        assert _bound(first) > 0


async def test_a_binding_of_a_paused_scheduler_that_arrives_after_the_takeover_is_refused(
    cluster: SchedulingCluster,
) -> None:
    await cluster.add_node("n1", pods="100")
    client, transport = cluster.meddling()
    other_client, other_transport = cluster.meddling()
    go_on = asyncio.Event()

    async def paused(_: Call) -> None:
        await go_on.wait()

    async def hold_bindings(call: Call) -> None:
        if call.path.endswith("/bindingbatches"):
            transport.before = paused
            await go_on.wait()

    async def refuse_bindings(call: Call) -> None:
        if call.path.endswith("/bindingbatches"):
            raise Unreachable(f"{call}: not now")

    async with contextlib.AsyncExitStack() as stack:
        second = await stack.enter_async_context(cluster.scheduling(seed=2, client=other_client, shard=_shard("b")))
        first = await stack.enter_async_context(cluster.scheduling(seed=1, client=client, shard=_shard("a")))
        await _settled(cluster, [first, second])
        # The other scheduler cannot bind, so that nothing but the fence stands between a late binding and its pod.
        transport.before, other_transport.before = hold_bindings, refuse_bindings
        names = [f"web-{number}" for number in range(12)]
        for name in names:
            await cluster.add_pod(name)
        await cluster.clock.advance(3)
        lease = await cluster.client.get(LEASES, instance_objects.lease_name("a"), namespace="kube-system")
        assert not lease["spec"].get("holderIdentity")
        assert second.shard is not None
        assert [one.name for one in second.shard.ownership.current.members] == ["b"]
        sent = [call for call in transport.calls if call.path.endswith("/bindingbatches")]
        assert sent  # decided before the pause
        # What was held arrives now; it cannot bind anything in its next term either.
        transport.before = refuse_bindings
        go_on.set()
        await cluster.clock.advance(2)
        assert [await cluster.node_of(name) for name in names] == [""] * 12
        transport.before = other_transport.before = None
        await _settled(cluster, [first, second])
        await _all_bound(cluster, 12)
        assert _bound(first) + _bound(second) == 12


async def test_a_scheduler_that_stops_gives_its_pods_away_at_once(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", pods="100")
    async with cluster.scheduling(seed=1, shard=_shard("a")) as first:
        async with cluster.scheduling(seed=2, shard=_shard("b")) as second:
            await _settled(cluster, [first, second])
        for number in range(10):
            await cluster.add_pod(f"web-{number}")
        await cluster.clock.advance(1)
        assert _bound(first) == 10


async def test_waiting_pods_move_with_the_map(cluster: SchedulingCluster) -> None:
    async with cluster.scheduling(seed=1, shard=_shard("a")) as first:
        await _settled(cluster, [first])
        for number in range(20):
            await cluster.add_pod(f"web-{number}")
        await cluster.refused("web-0")
        await cluster.until(_holds(lambda: len(first.queue) == 20))
        async with cluster.scheduling(seed=2, shard=_shard("b")) as second:
            await _settled(cluster, [first, second])
            await cluster.until(_holds(lambda: len(first.queue) + len(second.queue) == 20))
            assert 0 < len(second.queue) < 20
            await cluster.add_node("n1", pods="100")
            await _all_bound(cluster, 20)
            assert _bound(first) + _bound(second) == 20
            assert _bound(second) > 0


async def test_pods_with_policy_labels_have_their_own_scheduler(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", pods="100")
    blue = _shard("blue", selector={"matchLabels": {"team": "blue"}})
    async with cluster.scheduling(seed=1, shard=_shard("a")) as first, cluster.scheduling(seed=2, shard=blue) as second:
        await _settled(cluster, [first, second])
        for number in range(6):
            await cluster.add_pod(f"blue-{number}", labels={"team": "blue"})
            await cluster.add_pod(f"red-{number}", labels={"team": "red"})
        await _all_bound(cluster, 12)
        assert (_bound(first), _bound(second)) == (6, 6)


@pytest.mark.parametrize("schedulers", [2, 4])
async def test_full_nodes_are_never_oversold(cluster: SchedulingCluster, schedulers: int) -> None:
    for number in range(5):
        await cluster.add_node(f"n{number}", cpu="1", pods="6")
    observer = AllocationObserver()
    async with contextlib.AsyncExitStack() as stack:
        observing = observer.following(cluster.client, clock=cluster.clock, rng=_Chance())
        entering = asyncio.ensure_future(stack.enter_async_context(observing))
        await cluster.until(_holds(entering.done))
        # Each scheduler decides all pods: no shards, only the transaction.
        for seed in range(schedulers):
            await stack.enter_async_context(cluster.scheduling(seed=seed))
        for number in range(40):
            await cluster.add_pod(f"web-{number}", cpu="200m")
        await _all_bound(cluster, 25)
        await cluster.clock.advance(2)
        assert len([one for one in (await cluster.client.list(PODS)).items if one["spec"].get("nodeName")]) == 25
        await cluster.until(_holds(lambda: observer.bindings >= 25))
    assert observer.violations == []


class _Chance:
    def random(self) -> float:
        return 0.5


def _holds(condition: Callable[[], bool]) -> Callable[[], Any]:
    async def held() -> bool:
        return condition()

    return held
