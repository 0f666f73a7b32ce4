"""Flow control: which requests wait, for how long, and the response to refused ones."""

import asyncio

import pytest

from rota.api import errors, scheme
from rota.apiserver import routing
from rota.apiserver.flow_control import deadlines
from rota.apiserver.flow_control.flow_controller import FlowController, Overloaded, Rates
from rota.apiserver.flow_control.seats import SeatRequest, State
from rota.apiserver.flow_control.settings import Limits
from rota.apiserver.interfaces import User
from rota.kit.metrics import Metrics
from rota.testing.clocks import FakeClock

ADMIN = User(name="admin", groups=("system:masters",))
ANN = User(name="ann")
BOB = User(name="bob")
NODE = User(name="system:node:n", groups=("system:nodes",))
SMALL = Limits(seats=5, queue=4, queue_per_user=3, wait_s=5.0, streams=4, streams_per_user=2)


class Fixture:
    def __init__(self, limits: Limits = SMALL) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics("apiserver")
        self.flow_controller = FlowController(limits, self.clock, self.metrics)

    def fill(self, user: User = ANN) -> list[SeatRequest]:
        """Take every seat that other levels may use."""
        taken = []
        while (seat_request := self.flow_controller.enter(user, None)).state is State.SEATED:
            taken.append(seat_request)
        self.flow_controller.leave(seat_request)
        return taken


async def test_a_request_with_a_free_seat_does_not_wait() -> None:
    assert Fixture().flow_controller.enter(ANN, None).state is State.SEATED


async def test_a_waiting_request_continues_when_a_seat_is_freed() -> None:
    here = Fixture()
    taken = here.fill()
    seat_request = here.flow_controller.enter(BOB, None)
    waiting = asyncio.create_task(here.flow_controller.wait(seat_request))
    await here.clock.advance(1.0)
    assert not waiting.done()
    here.flow_controller.leave(taken.pop())
    await waiting
    assert seat_request.state is State.SEATED


async def test_a_request_that_waited_too_long_is_refused_and_holds_no_seat() -> None:
    here = Fixture()
    taken = here.fill()
    seat_request = here.flow_controller.enter(BOB, None)
    waiting = asyncio.create_task(here.flow_controller.wait(seat_request))
    await here.clock.advance(SMALL.wait_s)
    with pytest.raises(Overloaded):
        await waiting
    here.flow_controller.leave(seat_request)
    for one in taken:
        here.flow_controller.leave(one)
    assert len(here.fill()) == len(taken)
    assert here.metrics.value("requests_refused_total", level="others", why="waited too long") == 1


async def test_a_cancelled_request_leaves_the_queue() -> None:
    here = Fixture()
    taken = here.fill()
    first, second = here.flow_controller.enter(ANN, None), here.flow_controller.enter(BOB, None)
    giving_up = asyncio.create_task(here.flow_controller.wait(first))
    staying = asyncio.create_task(here.flow_controller.wait(second))
    await here.clock.advance(0.1)
    giving_up.cancel()
    await asyncio.wait([giving_up])
    here.flow_controller.leave(first)
    here.flow_controller.leave(taken.pop())
    await staying


async def test_a_full_line_refuses_with_upstreams_words() -> None:
    here = Fixture()
    taken = here.fill()
    for user in (ANN, ANN, ANN, BOB):
        assert here.flow_controller.enter(user, None).state is State.WAITING
    assert here.metrics.value("requests_waiting", level="others") == 4
    assert here.metrics.value("requests_seated", level="others") == len(taken)
    with pytest.raises(Overloaded) as caught:
        here.flow_controller.enter(BOB, None)
    answer = caught.value.answer
    assert answer.code == 429
    assert answer.body == b"Too many requests, please try again later.\n"
    assert (b"retry-after", b"1") in answer.headers
    assert here.flow_controller.enter(ADMIN, None).state is State.SEATED


async def test_one_user_does_not_take_the_whole_line() -> None:
    here = Fixture()
    here.fill()
    for _ in range(SMALL.queue_per_user):
        here.flow_controller.enter(ANN, None)
    with pytest.raises(Overloaded):
        here.flow_controller.enter(ANN, None)
    assert here.flow_controller.enter(BOB, None).state is State.WAITING


async def test_streams_are_bounded_for_each_user_and_in_all() -> None:
    flow_controller = Fixture().flow_controller
    flow_controller.open_stream(ANN)
    flow_controller.open_stream(ANN)
    with pytest.raises(Overloaded):
        flow_controller.open_stream(ANN)
    flow_controller.open_stream(BOB)
    flow_controller.open_stream(ADMIN)
    with pytest.raises(Overloaded):
        flow_controller.open_stream(ADMIN)
    flow_controller.close_stream(ANN)
    flow_controller.open_stream(ADMIN)


async def test_a_rate_is_each_users_own_and_spares_heartbeats() -> None:
    here = Fixture(Limits(rate_per_user=2.0, burst_per_user=3))
    lease = routing.match(scheme.builtin(), "PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b")
    for _ in range(3):
        here.flow_controller.leave(here.flow_controller.enter(ANN, None))
    with pytest.raises(Overloaded):
        here.flow_controller.enter(ANN, None)
    with pytest.raises(Overloaded):
        here.flow_controller.enter(ANN, lease)
    here.flow_controller.enter(BOB, None)
    for _ in range(4):
        here.flow_controller.leave(here.flow_controller.enter(NODE, lease))
    here.flow_controller.enter(ADMIN, None)
    await here.clock.advance(0.5)
    here.flow_controller.enter(ANN, None)


def test_rates_forget_users_that_have_rested() -> None:
    rates = Rates(rate=1.0, burst=1)
    for number in range(20_000):
        assert rates.take(f"user-{number}", now=float(number))
    assert len(rates._buckets) <= Rates._MOST


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [
        ("10s", 10.0),
        ("1m", 60.0),
        ("1m30s", 60.0),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        ("0", 60.0),
        ("0s", 60.0),
        ("-5s", 60.0),
    ],
)
def test_a_client_may_ask_for_less_time(wish: str, seconds: float) -> None:
    assert deadlines.requested_s(wish, 60.0) == seconds


@pytest.mark.parametrize("wish", ["10", "s", "1x", "1s ", "\u0661s", "1" * 100 + "s"])
def test_a_time_that_is_none_is_refused(wish: str) -> None:
    with pytest.raises(errors.BadRequest, match="invalid timeout specified in the request URL"):
        deadlines.requested_s(wish, 60.0)


def test_limits_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="above zero"):
        Limits(seats=0)
