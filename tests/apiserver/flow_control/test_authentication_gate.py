"""Requests whose user is not known yet: how many are verified at once, how often that may fail, and for how long."""

import asyncio
from typing import Any

import pytest
from tests.apiserver.authentication.harness import SELF

from rota.api import users
from rota.apiserver.authentication import authentication_config
from rota.apiserver.flow_control import authentication_gate
from rota.apiserver.flow_control.authentication_gate import AuthenticationGate, flow_of_address
from rota.apiserver.flow_control.flow_controller import Overloaded
from rota.apiserver.flow_control.settings import Limits
from rota.apiserver.interfaces import Credentials, User
from rota.kit.metrics import Metrics
from rota.testing.api import Answer, ApiServer
from rota.testing.clocks import FakeClock

SMALL = Limits(authentications=4, authentications_per_flow=3, failures_per_second=2.0, failures_burst=5)
ADMIN = "Bearer admins-own-token"


def gate(clock: FakeClock) -> AuthenticationGate:
    return AuthenticationGate(SMALL, clock, Metrics("apiserver"))


def test_a_client_gets_no_more_than_its_part_and_all_clients_no_more_than_there_is() -> None:
    tried = gate(FakeClock())
    for _ in range(3):
        tried.enter("10.0.0.1")
    with pytest.raises(Overloaded):
        tried.enter("10.0.0.1")
    tried.enter("10.0.0.2")
    with pytest.raises(Overloaded):
        tried.enter("10.0.0.3")
    tried.leave("10.0.0.1")
    tried.enter("10.0.0.3")


async def test_a_client_that_fails_often_is_refused_unheard_until_time_has_passed() -> None:
    clock = FakeClock()
    tried = gate(clock)
    for _ in range(5):
        tried.enter("10.0.0.1")
        tried.failed("10.0.0.1")
        tried.leave("10.0.0.1")
    with pytest.raises(Overloaded):
        tried.enter("10.0.0.1")
    tried.enter("10.0.0.2")
    await clock.advance(0.6)
    tried.enter("10.0.0.1")


def test_failures_of_many_clients_take_bounded_memory() -> None:
    tried = gate(FakeClock())
    for number in range(3 * authentication_gate._MOST_FLOWS):
        tried.failed(f"10.0.{number // 256}.{number % 256}")
    assert len(tried._failures) == authentication_gate._MOST_FLOWS


@pytest.mark.parametrize(
    ("address", "flow"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::/64"),
        ("no: address", "no: address"),
        ("", ""),
    ],
)
def test_an_ipv6_client_is_its_network(address: str, flow: str) -> None:
    assert flow_of_address(address) == flow


# --- in a server ------------------------------------------------------------------------------------------------------


class Slow:
    """Verifies nothing until it is released; counts what it verifies."""

    def __init__(self) -> None:
        self.verified = 0
        self.go = asyncio.Event()

    def recall(self, credentials: Credentials, /) -> User | None:
        return None if credentials.headers.get(b"authorization") else users.ANONYMOUS

    def flow(self, credentials: Credentials, /) -> str:
        return credentials.headers[b"authorization"].decode()[:1]

    async def authenticate(self, credentials: Credentials, /) -> User:
        self.verified += 1
        await self.go.wait()
        return users.ADMINISTRATOR


async def _asks(api: ApiServer, authorization: str, path: str = "/api/v1/namespaces") -> Answer:
    return await api.request("GET", path, headers={"authorization": authorization})


async def test_what_is_too_much_is_refused_at_once_and_the_others_go_on() -> None:
    slow = Slow()
    async with ApiServer(authenticator=slow, limits=SMALL) as api:
        waiting = [asyncio.create_task(_asks(api, f"a{number}")) for number in range(3)]
        await asyncio.sleep(0)
        refused = await _asks(api, "a9")
        assert (refused.code, refused.headers["retry-after"]) == (429, "1")
        assert slow.verified == 3, "what is refused is not verified"
        assert (await api.get("/readyz")).code == 200, "what needs no verification does not wait for it"
        slow.go.set()
        assert [one.code for one in await asyncio.gather(*waiting)] == [200] * 3
        assert (await _asks(api, "a9")).code == 200


async def test_an_authentication_has_a_time_limit_of_its_own_also_for_streams() -> None:
    clock, slow = FakeClock(), Slow()
    async with ApiServer(authenticator=slow, limits=SMALL, clock=clock) as api:
        asked = [asyncio.create_task(_asks(api, f"a{one}", f"/api/v1/pods?watch={one}")) for one in ("true", "false")]
        await clock.advance(SMALL.authentication_s + 1.0)
        assert [one.code for one in await asyncio.gather(*asked)] == [504, 504]
        slow.go.set()
        assert (await _asks(api, "a")).code == 200, "and leaves its seat"


def _entrance(**settings: Any) -> dict[str, Any]:
    static = {"admins-own-token": users.ADMINISTRATOR, "new": User(name="new")}
    return {"signing_in": authentication_config.Settings(static_tokens=static), "limits": SMALL, **settings}


async def test_bad_tokens_of_an_address_do_not_shut_out_those_who_were_in() -> None:
    clock = FakeClock()
    async with ApiServer(clock=clock, **_entrance()) as api:

        async def whoami(authorization: str) -> int:
            asked = await api.request("POST", SELF, body={}, headers={"authorization": authorization})
            return asked.code

        assert await whoami(ADMIN) == 201
        guessed = [await whoami(f"Bearer abcdef.{number:016d}") for number in range(20)]
        assert guessed == [401] * 5 + [429] * 15
        assert await whoami("Bearer new") == 429, "as far as the server knows, this is one more guess"
        assert await whoami(ADMIN) == 201
        await clock.advance(11.0)  # the token is to be verified again
        assert [await whoami(f"Bearer abcdef.{number:016d}") for number in range(6)] == [401] * 5 + [429]
        assert await whoami(ADMIN) == 201, "it was valid before, so it is counted by itself"
        await clock.advance(1.0)
        assert await whoami("Bearer new") == 201
