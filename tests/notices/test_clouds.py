"""Clouds' metadata endpoints, as small fakes of them answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from tests.notices.fake_clouds import LATER, FakeAws, FakeAzure, FakeCloud, FakeGcp

from rota.api import times
from rota.kit import system
from rota.kit.errors import UserError
from rota.notices.announcements import Kind
from rota.notices.clouds import cloud_detection
from rota.notices.clouds.cloud_provider import Cloud, CloudError, MetadataEndpoint
from rota.testing.clocks import FakeClock

CLOUDS: dict[str, Callable[[], FakeCloud]] = {"aws": FakeAws, "gcp": FakeGcp, "azure": FakeAzure}
pytestmark = pytest.mark.slow


@contextlib.asynccontextmanager
async def asked(fake: FakeCloud, provider: str) -> AsyncIterator[Cloud]:
    clock = system.SystemClock()
    async with fake.serving() as url, aiohttp.ClientSession() as session:
        yield cloud_detection.cloud(provider, MetadataEndpoint(url, session, clock=clock), clock=clock, boot="b1")


async def test_amazon_says_nothing_then_a_risk_then_the_end() -> None:
    fake = FakeAws()
    async with asked(fake, "aws") as cloud:
        assert list(await cloud.look()) == []
        fake.rebalance = {"noticeTime": "2026-03-01T12:00:00Z"}
        (risk,) = await cloud.look()
        assert (risk.kind, risk.provider) == (Kind.RISK, "aws")
        fake.action = {"action": "terminate", "time": LATER}
        end, _ = await cloud.look()
        assert (end.kind, end.deadline) == (Kind.TERMINATION, times.parse(LATER))
        assert [one.mark for one in await cloud.look()] == [end.mark, risk.mark]
    assert fake.given == 1


async def test_a_token_that_expired_is_asked_for_anew_and_once() -> None:
    fake = FakeAws()
    async with asked(fake, "aws") as cloud:
        await cloud.look()
        fake.tokens.clear()
        fake.action = {"action": "stop", "time": LATER}
        assert [one.kind for one in await cloud.look()] == [Kind.TERMINATION]
        assert fake.given == 2


async def test_an_end_without_a_readable_time_is_an_end_all_the_same() -> None:
    fake = FakeAws()
    async with asked(fake, "aws") as cloud:
        fake.action = {"action": "hibernate", "time": "now"}
        (end,) = await cloud.look()
        assert (end.kind, end.deadline) == (Kind.TERMINATION, None)


async def test_google_answers_when_something_changes() -> None:
    fake = FakeGcp()
    async with asked(fake, "gcp") as cloud:
        assert list(await cloud.look()) == []
        waiting = asyncio.ensure_future(cloud.look())
        async with asyncio.timeout(30):
            while len(fake.asked) < 2:  # noqa: ASYNC110 - only the fake tells
                await asyncio.sleep(0.001)
        assert not waiting.done()
        fake.preempt()
        (end,) = await waiting
        assert (end.kind, end.provider, end.deadline) == (Kind.TERMINATION, "gcp", None)


async def test_azure_events_of_other_machines_are_ignored() -> None:
    fake = FakeAzure()
    async with asked(fake, "azure") as cloud:
        fake.schedule("Preempt", "pool_4")
        assert list(await cloud.look()) == []
        fake.schedule("Freeze")
        fake.schedule("Reboot")
        fake.schedule("Preempt", "pool_4", "POOL_3", when="Thu, 01 Jan 2099 00:00:00 GMT")
        risk, end = await cloud.look()
        assert (risk.kind, end.kind) == (Kind.RISK, Kind.TERMINATION)
        assert end.deadline == times.parse(LATER)


@pytest.mark.parametrize("provider", CLOUDS)
@pytest.mark.parametrize("trouble", ["500", "garbage", "other json", "huge", "redirect", "cut"])
async def test_an_endpoint_that_fails_says_neither_yes_nor_no(provider: str, trouble: str) -> None:
    fake = CLOUDS[provider]()
    async with asked(fake, provider) as cloud:
        await cloud.look()
        if isinstance(fake, FakeAws):
            # with a good token, so that the questions themselves fail
            fake.action = {"action": "terminate", "time": LATER}
        fake.trouble = trouble
        with pytest.raises(CloudError) as told:
            await cloud.look()
        assert "\n" not in str(told.value)
        fake.trouble = ""
        await cloud.look()


async def test_an_endpoint_that_is_slow_is_not_waited_for() -> None:
    fake, clock = FakeAws(), FakeClock()
    fake.trouble = "slow"
    async with fake.serving() as url, aiohttp.ClientSession() as session:
        cloud = cloud_detection.cloud("aws", MetadataEndpoint(url, session, clock=clock), clock=clock, boot="")
        looking = asyncio.ensure_future(cloud.look())
        async with asyncio.timeout(30):
            while not fake.asked:  # noqa: ASYNC110 - only the fake tells
                await asyncio.sleep(0.001)
        await clock.advance(6)
        with pytest.raises(CloudError, match="did not answer within 5 s"):
            await looking


async def test_an_unreachable_metadata_service_is_reported() -> None:
    async with aiohttp.ClientSession() as session:
        clock = system.SystemClock()
        cloud = cloud_detection.cloud(
            "azure", MetadataEndpoint("http://127.0.0.1:1", session, clock=clock), clock=clock, boot=""
        )
        with pytest.raises(CloudError, match="does not answer"):
            await cloud.look()
        with pytest.raises(UserError, match="no address of a metadata endpoint; write it like http://"):
            MetadataEndpoint("169.254.169.254", session, clock=clock)


@pytest.mark.parametrize(
    ("provider_id", "provider"),
    [("aws:///a/i-1", "aws"), ("gce://p/z/n", "gcp"), ("azure:///x", "azure"), ("kind://x", ""), ("", "")],
)
def test_a_providers_id_names_the_cloud(provider_id: str, provider: str) -> None:
    assert cloud_detection.by_provider_id(provider_id) == provider


@pytest.mark.parametrize("provider", CLOUDS)
async def test_a_cloud_is_known_by_how_its_endpoint_answers(provider: str) -> None:
    clock = system.SystemClock()
    async with CLOUDS[provider]().serving() as url, aiohttp.ClientSession() as session:
        # every cloud has its endpoint at the same address
        assert await cloud_detection.probed(lambda _: MetadataEndpoint(url, session, clock=clock)) == provider


async def test_where_no_cloud_answers_one_has_to_be_named() -> None:
    clock = system.SystemClock()
    async with aiohttp.ClientSession() as session:
        with pytest.raises(UserError, match="name one of aws, gcp, azure with --provider"):
            await cloud_detection.probed(lambda _: MetadataEndpoint("http://127.0.0.1:1", session, clock=clock))
