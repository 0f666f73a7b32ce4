"""Machines that run on long after they were to end are used again."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from rota.api import times
from rota.notices.announcements import Announcement, Kind
from rota.notices.announcer import NODES, Announcer
from rota.notices.node_lookup import Machines
from rota.notices.stale_notices import StaleNoticeReaper
from rota.spot.node_signals import TERMINATING, NodeSignals
from rota.testing import manifests, virtual_api
from rota.testing.virtual_api import VirtualCluster

pytestmark = pytest.mark.slow


class World:
    def __init__(self, cluster: VirtualCluster) -> None:
        self.client = cluster.client
        self.clock = cluster.clock
        self.announcer = Announcer(self.client, NodeSignals(), clock=self.clock)

    async def told(self, name: str, source: str) -> None:
        await self.client.create(NODES, manifests.node(name))
        said = Announcement(kind=Kind.TERMINATION, source=source, deadline=self.clock.now() + 30, id="1")
        await self.announcer.announce(name, said)

    async def beats(self, name: str) -> None:
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": times.format_time(self.clock.now())}
        await self.client.patch(NODES, name, {"status": {"conditions": [ready]}}, subresource="status")

    async def goes(self, name: str) -> bool:
        node = await self.client.get(NODES, name)
        return any(one["key"] == TERMINATING for one in node["spec"].get("taints") or ())


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with virtual_api.cluster() as cluster:
        made = World(cluster)
        machines = Machines(made.client, clock=made.clock, rng=cluster.rng)
        survivors = StaleNoticeReaper(machines, made.announcer, clock=made.clock, rng=cluster.rng)
        async with contextlib.AsyncExitStack() as running:
            await running.enter_async_context(cluster.running(machines.run))
            await running.enter_async_context(cluster.running(survivors.run))
            yield made


async def test_a_machine_that_lives_on_is_used_again(world: World) -> None:
    await world.told("n1", "webhook")
    await world.told("n2", "event")
    await world.clock.advance(500)
    for name in ("n1", "n2"):
        await world.beats(name)
    await world.clock.advance(90)
    assert await world.goes("n1")
    await world.clock.advance(160)
    assert not await world.goes("n1")
    assert not await world.goes("n2")


async def test_what_is_silent_or_said_by_an_agent_or_a_person_is_left_alone(world: World) -> None:
    await world.told("silent", "webhook")
    await world.told("agents", "agent")
    await world.client.create(NODES, manifests.node("persons"))
    taint = {"key": TERMINATING, "effect": "NoSchedule"}
    past = {"rota.dev/terminates-at": times.format_time(world.clock.now())}
    await world.client.patch(NODES, "persons", {"metadata": {"annotations": past}, "spec": {"taints": [taint]}})
    await world.clock.advance(1000)
    for name in ("agents", "persons"):
        await world.beats(name)
    await world.clock.advance(300)
    for name in ("silent", "agents", "persons"):
        assert await world.goes(name)
