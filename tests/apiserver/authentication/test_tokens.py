"""Tokens while the store, which their origins ask, does not answer."""

import asyncio

import pytest

from rota.api.users import User
from rota.apiserver.authentication.tokens import REMEMBERED_S, Rejected, Tokens, Verified
from rota.store.errors import Unavailable
from rota.testing.clocks import FakeClock

FOR = ("api",)
LIFETIME_S = 86_400.0


class Origin:
    """Knows the token `t` while its store answers."""

    def __init__(self, clock: FakeClock, *, expires: bool = True) -> None:
        self.fault = ""
        self.expires_at = clock.now() + LIFETIME_S if expires else None

    async def verify(self, token: str, audiences: tuple[str, ...], /) -> Verified | None:
        match self.fault:
            case "down":
                raise Unavailable("the store is down", "start it")
            case "silent":
                await asyncio.Event().wait()
            case "revoked":
                raise Rejected("it was revoked")
        return Verified(user=User(name="u"), audiences=audiences, expires_at=self.expires_at) if token == "t" else None


async def verdict(tokens: Tokens, clock: FakeClock, token: str = "t", *, outlives_store: bool = True) -> str:
    asked = asyncio.ensure_future(tokens.verify(token, FOR, outlives_store=outlives_store))
    await clock.advance(5)
    try:
        return (await asked).user.name
    except (Rejected, Unavailable) as problem:
        return type(problem).__name__


@pytest.mark.parametrize("fault", ["down", "silent"])
async def test_a_token_that_was_valid_stays_valid_while_the_store_does_not_answer(fault: str) -> None:
    clock = FakeClock()
    origin = Origin(clock)
    tokens = Tokens([origin], clock=clock)
    assert await verdict(tokens, clock) == "u"
    origin.fault = fault
    for _ in range(3):
        await clock.advance(REMEMBERED_S)
        assert await verdict(tokens, clock) == "u"


async def test_other_requests_wait_for_the_store() -> None:
    clock = FakeClock()
    origin = Origin(clock)
    tokens = Tokens([origin], clock=clock)
    assert await verdict(tokens, clock, outlives_store=False) == "u"
    origin.fault = "down"
    await clock.advance(REMEMBERED_S)
    assert await verdict(tokens, clock) == "u"
    assert await verdict(tokens, clock, outlives_store=False) == "Unavailable"


async def test_an_unknown_token_is_not_valid_while_the_store_is_down() -> None:
    clock = FakeClock()
    origin = Origin(clock)
    tokens = Tokens([origin], clock=clock)
    origin.fault = "down"
    assert await verdict(tokens, clock) == "Unavailable"


async def test_a_token_is_valid_for_an_hour_of_an_outage() -> None:
    clock = FakeClock()
    origin = Origin(clock)
    tokens = Tokens([origin], clock=clock)
    assert await verdict(tokens, clock) == "u"
    origin.fault = "down"
    for _ in range(340):
        await clock.advance(10)
        await tokens.verify("t", FOR, outlives_store=True)
    await clock.advance(250)
    assert await verdict(tokens, clock) == "Unavailable"


async def test_a_token_that_expires_in_an_outage_is_not_valid() -> None:
    clock = FakeClock()
    origin = Origin(clock)
    tokens = Tokens([origin], clock=clock)
    assert await verdict(tokens, clock) == "u"
    origin.fault = "down"
    clock.step_wall(LIFETIME_S)
    await clock.advance(REMEMBERED_S)
    assert await verdict(tokens, clock) == "Unavailable"


async def test_a_token_without_an_expiry_is_not_valid_in_an_outage() -> None:
    clock = FakeClock()
    origin = Origin(clock, expires=False)
    tokens = Tokens([origin], clock=clock)
    assert await verdict(tokens, clock) == "u"
    origin.fault = "down"
    await clock.advance(REMEMBERED_S)
    assert await verdict(tokens, clock) == "Unavailable"


async def test_a_revoked_token_is_refused_when_the_store_answers_again() -> None:
    clock = FakeClock()
    origin = Origin(clock)
    tokens = Tokens([origin], clock=clock)
    assert await verdict(tokens, clock) == "u"
    origin.fault = "down"
    await clock.advance(REMEMBERED_S)
    assert await verdict(tokens, clock) == "u"
    origin.fault = "revoked"
    await clock.advance(REMEMBERED_S)
    assert await verdict(tokens, clock) == "Rejected"
