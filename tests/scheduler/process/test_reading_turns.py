"""Schedulers of a map that start at once, in virtual time: one reads the cluster first, and binds before the others."""

import contextlib
import random
from collections.abc import AsyncIterator

import pytest

from rota.client.elections.elector import LEASES
from rota.client.transports.transport import Call, Unreachable
from rota.client.verbs import Client
from rota.scheduler.service import Scheduler
from rota.scheduler.sharding import instance_objects, reading_turn
from rota.scheduler.sharding.instance_objects import InstanceSettings
from rota.testing.schedulers import FaultyTransport, SchedulingCluster, configured

#: How long a server with one processor takes to list the pods for one scheduler, in virtual seconds.
_LIST_S = 3.0


class _BusyServer:
    """Lists of pods take longer the more of them are under way."""

    def __init__(self, cluster: SchedulingCluster) -> None:
        self._cluster = cluster
        self.reading: set[str] = set()
        self.began: list[str] = []
        self.dead: set[str] = set()

    def transport(self, name: str) -> FaultyTransport:
        async def before(call: Call) -> None:
            if name in self.dead:
                raise Unreachable(f"{call}: the process has ended")
            if call.method == "GET" and call.path == "/api/v1/pods" and "watch" not in dict(call.query):
                await self._list(name)

        _, transport = self._cluster.meddling()
        transport.before = before
        return transport

    async def _list(self, name: str) -> None:
        self.began.append(name)
        self.reading.add(name)
        try:
            left = _LIST_S
            while left > 0:
                await self._cluster.clock.sleep(0.1)
                left -= 0.1 / len(self.reading)
                if name in self.dead:
                    raise Unreachable(f"{name} has ended")
        finally:
            self.reading.discard(name)


@contextlib.asynccontextmanager
async def _starting(
    cluster: SchedulingCluster, server: _BusyServer, *names: str, life: int = 1
) -> AsyncIterator[dict[str, Scheduler]]:
    """Schedulers that start at the same moment; `life` numbers the processes of a name."""
    made = {}
    async with contextlib.AsyncExitStack() as stack:
        for number, name in enumerate(names):
            made[name] = Scheduler(
                Client(server.transport(f"{name}/{life}")),
                configured(),
                clock=cluster.clock,
                rng=random.Random(number),
                identity=f"{name}-{life}",
                shard=InstanceSettings(name=name),
            )
            await stack.enter_async_context(cluster.running(made[name].run))
        yield made


async def _settled(cluster: SchedulingCluster, schedulers: dict[str, Scheduler]) -> None:
    async def condition() -> bool:
        shards = [one.shard for one in schedulers.values() if one.shard is not None]
        return all(one.active and len(one.ownership.current.members) == len(shards) for one in shards)

    await cluster.until(condition)


async def test_of_schedulers_that_start_at_once_one_reads_first_and_binds_before_the_others_have_read(
    cluster: SchedulingCluster,
) -> None:
    await cluster.add_node("n1", pods="100")
    server = _BusyServer(cluster)
    async with _starting(cluster, server, *"abcdefgh") as schedulers:
        await cluster.add_pod("web")
        await cluster.bound("web")
        # Eight lists at once would have taken eight times as long, for each of them.
        assert cluster.clock.monotonic() < 2 * _LIST_S
        assert [one.synced for one in schedulers.values()].count(True) == 1
        await _settled(cluster, schedulers)
        assert sorted(server.began) == [f"{name}/1" for name in "abcdefgh"]
        lease = await cluster.client.get(LEASES, instance_objects.reading_lease("default"), namespace="kube-system")
        assert not lease["spec"].get("holderIdentity")


async def test_after_all_have_died_the_first_of_the_next_ones_binds_within_the_time_of_one_list(
    cluster: SchedulingCluster,
) -> None:
    await cluster.add_node("n1", pods="100")
    server = _BusyServer(cluster)
    async with contextlib.AsyncExitStack() as stack:
        await _settled(cluster, await stack.enter_async_context(_starting(cluster, server, *"abcd")))
        server.dead |= {f"{name}/1" for name in "abcd"}
        began = cluster.clock.monotonic()
        schedulers = await stack.enter_async_context(_starting(cluster, server, *"abcd", life=2))
        await cluster.add_pod("web")
        await cluster.bound("web")
        # The Leases of the dead ones expire while the first one reads.
        assert cluster.clock.monotonic() - began < _LIST_S + 1.0
        await _settled(cluster, schedulers)


async def test_another_one_reads_if_the_first_one_dies_while_it_reads(cluster: SchedulingCluster) -> None:
    await cluster.add_node("n1", pods="100")
    server = _BusyServer(cluster)
    async with _starting(cluster, server, "a", "b", "c") as schedulers:

        async def reads() -> bool:
            return bool(server.reading)

        await cluster.until(reads)
        (first,) = server.reading
        server.dead.add(first)
        await cluster.add_pod("web")
        await cluster.bound("web")
        assert cluster.clock.monotonic() < reading_turn.PATIENCE_S
        del schedulers[first[0]]
        await _settled(cluster, schedulers)


async def test_a_scheduler_that_joins_others_at_work_reads_without_the_turn(cluster: SchedulingCluster) -> None:
    server = _BusyServer(cluster)
    async with contextlib.AsyncExitStack() as stack:
        schedulers = await stack.enter_async_context(_starting(cluster, server, "a"))
        await _settled(cluster, schedulers)
        lease = await cluster.client.get(LEASES, instance_objects.reading_lease("default"), namespace="kube-system")
        spec = {**lease["spec"], "holderIdentity": "someone-else", "leaseDurationSeconds": 3600}
        await cluster.client.update(LEASES, {**lease, "spec": spec})
        schedulers |= await stack.enter_async_context(_starting(cluster, server, "b"))
        began = cluster.clock.monotonic()
        await _settled(cluster, schedulers)
        assert cluster.clock.monotonic() - began < _LIST_S + 2.0


@pytest.mark.parametrize("holder", ["", "someone-else"])
async def test_a_scheduler_waits_for_a_limited_time(cluster: SchedulingCluster, holder: str) -> None:
    """A holder that renews for ever and never decides does not keep others from their work."""
    await cluster.add_node("n1")
    name = instance_objects.reading_lease("default")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 3600, "leaseTransitions": 1}
    metadata = {"name": name, "namespace": "kube-system"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    await cluster.client.create(LEASES, lease)
    async with _starting(cluster, _BusyServer(cluster), "a"):
        await cluster.add_pod("web")
        await cluster.bound("web")
        waited = cluster.clock.monotonic() > reading_turn.PATIENCE_S
        assert waited is bool(holder)
