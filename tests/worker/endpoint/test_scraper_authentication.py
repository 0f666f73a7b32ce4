"""What a scraper's token opens at a worker: the pages with metrics, as long as a master says so."""

import asyncio
from typing import Any, cast

import pytest
from aiohttp.test_utils import make_mocked_request

from rota.api import errors
from rota.client.verbs import Client
from rota.testing.clocks import FakeClock
from rota.worker.endpoint.scraper_authentication import ScraperAuthentication


class Masters:
    """The reviews of masters."""

    def __init__(self) -> None:
        self.users = {"good": "prometheus", "poor": "somebody"}
        self.allowed = {"prometheus"}
        self.answers = True
        self.reviews = 0
        self.gate = asyncio.Event()
        self.gate.set()

    def with_settings(self, **_: Any) -> "Masters":
        return self

    async def create(self, _: Any, review: Any) -> Any:
        if not self.answers:
            raise errors.ServiceUnavailable("no master")
        self.reviews += 1
        await self.gate.wait()
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            name = self.users.get(spec["token"])
            return {"status": {"authenticated": name is not None, "user": {"username": name}}}
        wanted = {"verb": "get", "version": "v1", "resource": "nodes", "subresource": "metrics", "name": "w1"}
        assert spec["resourceAttributes"] == wanted
        return {"status": {"allowed": spec["user"] in self.allowed}}


class Door:
    def __init__(self) -> None:
        self.masters = Masters()
        self.clock = FakeClock()
        self._checked = ScraperAuthentication(cast(Client, self.masters), "w1", clock=self.clock)

    async def code(self, token: str = "good", path: str = "/metrics", method: str = "GET") -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        refusal = await self._checked.refusal(make_mocked_request(method, path, headers=headers))
        return 200 if refusal is None else refusal.status


@pytest.fixture
def door() -> Door:
    return Door()


async def test_a_token_with_the_right_to_read_metrics_opens_them(door: Door) -> None:
    assert await door.code() == 200
    assert await door.code(path="/metrics/resource") == 200


@pytest.mark.parametrize("path", ["/pods", "/exec/default/p/c", "/containerLogs/default/p/c", "/metrics/", "/healthz"])
async def test_it_opens_nothing_else(door: Door, path: str) -> None:
    assert await door.code(path=path) == 401
    assert await door.code(method="POST") == 401
    assert door.masters.reviews == 0


async def test_tokens_that_are_unknown_or_lack_the_right_are_refused(door: Door) -> None:
    assert await door.code("") == 401
    assert await door.code("unknown") == 401
    assert await door.code("poor") == 403


async def test_a_verdict_is_kept_for_a_while(door: Door) -> None:
    assert await door.code() == 200
    await door.clock.advance(110)
    assert await door.code() == 200
    assert door.masters.reviews == 2, "one review of the token, one of the right"
    door.masters.allowed.clear()
    await door.clock.advance(20)
    assert await door.code() == 403
    door.masters.allowed.add("prometheus")
    assert await door.code() == 403
    await door.clock.advance(31)
    assert await door.code() == 200


async def test_metrics_can_be_read_for_an_hour_while_no_master_answers(door: Door) -> None:
    assert await door.code() == 200
    door.masters.answers = False
    await door.clock.advance(3500)
    assert await door.code() == 200
    assert await door.code("unknown") == 503
    await door.clock.advance(200)
    assert await door.code() == 503


async def test_very_many_tokens_do_not_fill_the_memory(door: Door) -> None:
    for number in range(1000):
        assert await door.code(f"t{number}") == 401
    assert len(door._checked._verdicts) == 256


async def test_unknown_tokens_do_not_keep_a_known_scraper_out(door: Door) -> None:
    assert await door.code() == 200
    for number in range(300):
        assert await door.code(f"unknown-{number}") == 401
    reviews = door.masters.reviews
    assert await door.code() == 200
    assert door.masters.reviews == reviews, "its verdict is still known"
    await door.clock.advance(130)
    door.masters.gate.clear()
    unknown = [asyncio.ensure_future(door.code(f"other-{number}")) for number in range(100)]
    scraping = asyncio.ensure_future(door.code())
    await asyncio.sleep(0)
    door.masters.gate.set()
    assert await scraping == 200
    codes = await asyncio.gather(*unknown)
    assert (codes.count(503), codes.count(401)) == (68, 32)
