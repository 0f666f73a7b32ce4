"""The agent of a machine, between a fake of its cloud's endpoint and a real API server."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from tests.notices.fake_clouds import LATER, FakeAws, FakeAzure, FakeCloud, FakeGcp

from rota.api import errors
from rota.client import client_factory
from rota.client.transports.transport import Interrupted
from rota.client.verbs import Client
from rota.kit import system
from rota.kit.metrics import Metrics
from rota.notices.agent import Agent
from rota.notices.announcements import HEARD, SAID_BY, Announcement, Decision
from rota.notices.announcer import NODES, Announcer
from rota.notices.clouds import cloud_detection
from rota.notices.clouds.cloud_provider import MetadataEndpoint
from rota.spot import node_readings
from rota.spot.node_signals import AT_RISK, TERMINATING, NodeSignals
from rota.testing import manifests
from rota.testing.api import PATIENCE_S, ApiServer

EVERY_S = 0.01
CLOUDS: dict[str, Callable[[], FakeCloud]] = {"aws": FakeAws, "gcp": FakeGcp, "azure": FakeAzure}
pytestmark = pytest.mark.slow


def take_away(fake: FakeCloud) -> None:
    match fake:
        case FakeAws():
            fake.action = {"action": "terminate", "time": LATER}
        case FakeGcp():
            fake.preempt()
        case FakeAzure():
            fake.schedule("Preempt")


def give_back(fake: FakeCloud) -> None:
    match fake:
        case FakeAws():
            fake.action = None
        case FakeGcp():
            fake.preempt(False)
        case FakeAzure():
            fake.events.clear()


class Machine:
    """A node with its cloud."""

    def __init__(self, client: Client, fake: FakeCloud, provider: str, boot: str = "b1") -> None:
        self.client = client
        self.fake = fake
        self.provider = provider
        self.boot = boot
        self.metrics = Metrics("spot_agent")

    @contextlib.asynccontextmanager
    async def looked_after(self, url: str) -> AsyncIterator[Agent]:
        clock, rng = system.SystemClock(), random.Random(0)
        async with aiohttp.ClientSession() as session:
            cloud = cloud_detection.cloud(
                self.provider, MetadataEndpoint(url, session, clock=clock), clock=clock, boot=self.boot
            )
            announcer = Announcer(self.client, NodeSignals(), clock=clock, metrics=self.metrics)
            agent = Agent(announcer, cloud, "n1", clock=clock, rng=rng, every_s=EVERY_S, metrics=self.metrics)
            running = asyncio.ensure_future(agent.run())
            try:
                yield agent
            finally:
                running.cancel()
                await asyncio.wait([running])

    async def node(self) -> dict[str, Any]:
        return await self.client.get(NODES, "n1")

    async def taints(self) -> list[str]:
        return [one["key"] for one in ((await self.node()).get("spec") or {}).get("taints") or ()]

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not await condition():  # noqa: ASYNC110 - the server tells only who asks
                await asyncio.sleep(0.005)

    async def goes(self) -> bool:
        return TERMINATING in await self.taints()

    async def stays(self) -> bool:
        return not await self.goes()

    async def more_looks(self, count: int) -> None:
        target = self.answered() + count

        async def done() -> bool:
            return self.answered() >= target

        await self.until(done)

    def answered(self) -> float:
        return self.metrics.value("looks_total", outcome="answered") or 0.0

    def heard(self, kind: str, outcome: str) -> float:
        labels = {"source": "agent", "provider": self.provider, "kind": kind, "outcome": outcome}
        return self.metrics.value("notices_heard_total", **labels) or 0.0


@contextlib.asynccontextmanager
async def machine(provider: str) -> AsyncIterator[tuple[Machine, str]]:
    clock, fake = system.SystemClock(), CLOUDS[provider]()
    async with (
        ApiServer() as api,
        client_factory.to_application(api.app, clock=clock, rng=random.Random(0)) as client,
        fake.serving() as url,
    ):
        await client.create(NODES, manifests.node("n1"))
        yield Machine(client, fake, provider), url


@pytest.mark.parametrize("provider", CLOUDS)
async def test_a_machine_that_goes_marks_its_node_once_over_restarts(provider: str) -> None:
    async with machine(provider) as (here, url):
        async with here.looked_after(url):
            take_away(here.fake)
            await here.until(here.goes)
            node = await here.node()
            notice = node_readings.read(node, NodeSignals(), now=system.SystemClock().now()).notice
            assert notice is not None
            assert notice.provider == provider
            assert node["metadata"]["annotations"][SAID_BY] == "agent"
        version = node["metadata"]["resourceVersion"]
        async with here.looked_after(url):
            await here.more_looks(1 if provider == "gcp" else 5)
        assert (await here.node())["metadata"]["resourceVersion"] == version
        assert here.heard("termination", "marked") == 1


@pytest.mark.parametrize("provider", ["aws", "azure"])
async def test_a_notice_that_is_over_is_taken_back_and_may_come_again(provider: str) -> None:
    async with machine(provider) as (here, url), here.looked_after(url):
        take_away(here.fake)
        await here.until(here.goes)
        give_back(here.fake)
        await here.until(here.stays)
        annotations = (await here.node())["metadata"].get("annotations") or {}
        assert not annotations.keys() & {SAID_BY, HEARD, "rota.dev/terminates-at"}
        take_away(here.fake)
        await here.until(here.goes)


async def test_a_machine_that_starts_again_takes_back_what_was_said_before_it_stopped() -> None:
    async with machine("gcp") as (here, url):
        async with here.looked_after(url):
            take_away(here.fake)
            await here.until(here.goes)
        give_back(here.fake)
        # the metadata server waits between looks: changes that are none make it answer
        async with here.looked_after(url):

            async def nudged() -> bool:
                assert isinstance(here.fake, FakeGcp)
                here.fake.preempt(False)
                return await here.stays()

            await here.until(nudged)


async def test_what_others_said_is_not_taken_back() -> None:
    async with machine("aws") as (here, url):
        taint = {"key": TERMINATING, "effect": "NoSchedule"}
        await here.client.patch(NODES, "n1", {"spec": {"taints": [taint]}})
        async with here.looked_after(url):
            await here.more_looks(10)
            assert await here.goes()


async def test_a_notice_withdrawn_by_hand_stays_withdrawn() -> None:
    async with machine("aws") as (here, url), here.looked_after(url):
        take_away(here.fake)
        await here.until(here.goes)
        await here.client.patch(NODES, "n1", {"spec": {"taints": None}})
        await here.more_looks(5)
        assert await here.stays()


async def test_a_recommendation_is_a_risk_that_outlives_looks() -> None:
    async with machine("aws") as (here, url), here.looked_after(url):
        assert isinstance(here.fake, FakeAws)
        here.fake.rebalance = {"noticeTime": "2026-03-01T12:00:00Z"}

        async def at_risk() -> bool:
            return AT_RISK in await here.taints()

        await here.until(at_risk)
        await here.more_looks(8)
        assert await here.taints() == [AT_RISK]
        take_away(here.fake)
        await here.until(here.goes)
        give_back(here.fake)
        await here.until(here.stays)
        assert await here.taints() == [AT_RISK]


async def test_an_endpoint_that_stumbles_takes_nothing_back() -> None:
    async with machine("aws") as (here, url), here.looked_after(url) as agent:
        take_away(here.fake)
        await here.until(here.goes)
        for trouble in ("500", "cut", "garbage"):
            here.fake.trouble = trouble
            asked = len(here.fake.asked)

            async def failed(asked: int = asked) -> bool:
                return not agent.healthy and len(here.fake.asked) > asked

            await here.until(failed)
            assert await here.goes()
            here.fake.trouble = ""

            async def well() -> bool:
                return agent.healthy

            await here.until(well)
        assert await here.goes()
        assert here.heard("termination", "marked") == 1


async def test_a_recreated_node_gets_the_notice_again() -> None:
    async with machine("aws") as (here, url), here.looked_after(url):
        take_away(here.fake)
        await here.until(here.goes)
        await here.client.delete(NODES, "n1")
        await here.client.create(NODES, manifests.node("n1"))
        await here.until(here.goes)


async def test_a_node_that_is_not_there_yet_is_marked_when_it_is() -> None:
    async with machine("azure") as (here, url):
        await here.client.delete(NODES, "n1")
        take_away(here.fake)
        async with here.looked_after(url):
            await here.more_looks(1)
            await here.client.create(NODES, manifests.node("n1"))
            await here.until(here.goes)


async def test_a_notice_is_delivered_when_the_server_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    write, failures = (
        Announcer._write,
        iter([Interrupted("cut off"), errors.Forbidden("not yet"), errors.Conflict("busy")]),
    )

    async def stumbling(self: Announcer, name: str, said: Announcement) -> Decision:
        for problem in failures:
            raise problem
        return await write(self, name, said)

    monkeypatch.setattr(Announcer, "_write", stumbling)
    async with machine("aws") as (here, url):

        async def told() -> bool:
            return here.heard("termination", "marked") == 1

        take_away(here.fake)
        async with here.looked_after(url):
            await here.until(here.goes)
            # it is counted once it stands there
            await here.until(told)
