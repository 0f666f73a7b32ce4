"""The real clock and the fake one have the same guarantees."""

import asyncio

import pytest

from rota.kit.clock import Clock
from rota.kit.system import SystemClock
from rota.testing.clocks import FakeClock


async def tick_every_second(clock: Clock, seen: list[float]) -> None:
    while True:
        await clock.sleep(1)
        seen.append(clock.monotonic())


async def test_fake_time_stands_still_until_it_is_advanced() -> None:
    clock = FakeClock(start=1000)
    sleeper = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    assert (clock.now(), clock.monotonic(), clock.sleeping) == (1000, 0, 1)
    await clock.advance(4.9)
    assert not sleeper.done()
    await clock.advance(0.1)
    assert sleeper.done()
    assert (clock.now(), clock.sleeping) == (1005, 0)


async def test_a_loop_gets_every_one_of_its_rounds_at_its_own_moment() -> None:
    clock = FakeClock()
    seen: list[float] = []
    task = asyncio.create_task(tick_every_second(clock, seen))
    await clock.advance(3.5)
    assert seen == [1, 2, 3]
    task.cancel()


async def test_sleepers_wake_in_order_of_their_deadlines_and_equals_in_order_of_falling_asleep() -> None:
    clock = FakeClock()
    woken: list[str] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        for name, seconds in (("late", 3), ("first", 1), ("second", 1), ("middle", 2)):
            group.create_task(sleep(name, seconds))
        await clock.advance(10)
    assert woken == ["first", "second", "middle", "late"]


async def test_the_wall_clock_can_jump_without_waking_anyone() -> None:
    clock = FakeClock(start=1000)
    sleeper = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    clock.step_wall(-100)
    await clock.settle()
    assert (clock.now(), clock.monotonic(), sleeper.done()) == (900, 0, False)
    await clock.advance(5)
    assert sleeper.done()


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = FakeClock()
    sleeper = asyncio.create_task(clock.sleep(5))
    await clock.settle()
    sleeper.cancel()
    await clock.advance(10)
    assert sleeper.cancelled()


@pytest.mark.parametrize("links", [1, 60, 5000])
async def test_time_moves_on_only_when_all_that_woke_have_run(links: int) -> None:
    """Each task of a chain wakes the next; the last one sleeps, and is due within the same span of time."""
    clock = FakeClock()
    seen: list[float] = []

    async def chain() -> None:
        await clock.sleep(1)
        for _ in range(links):
            await asyncio.sleep(0)
        seen.append(clock.monotonic())
        await clock.sleep(1)
        seen.append(clock.monotonic())

    task = asyncio.create_task(chain())
    await clock.advance(3)
    assert seen == [1, 2]
    await task


async def test_tasks_that_never_rest_are_reported() -> None:
    clock = FakeClock()

    loop, resting = asyncio.get_running_loop(), False

    def spin() -> None:
        if not resting:
            loop.call_soon(spin)

    spin()
    with pytest.raises(RuntimeError, match="still wake each other"):
        await clock.settle()
    resting = True


@pytest.fixture(params=["system", "fake"])
def either(request: pytest.FixtureRequest) -> Clock:
    return SystemClock() if request.param == "system" else FakeClock()


async def _let_pass(clock: Clock, seconds: float) -> None:
    if isinstance(clock, FakeClock):
        await clock.advance(seconds)


async def test_a_wait_returns_what_it_waited_for(either: Clock) -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    assert await either.wait_for(answer(), 10) == 42


async def test_a_wait_passes_on_the_error(either: Clock) -> None:
    async def fail() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await either.wait_for(fail(), 10)


async def test_a_wait_that_takes_too_long_is_cancelled_and_says_so(either: Clock) -> None:
    cleaned = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    wait = asyncio.create_task(either.wait_for(forever(), 0.01))
    await _let_pass(either, 0.01)
    with pytest.raises(TimeoutError):
        await wait
    assert cleaned.is_set()


async def test_a_cancelled_wait_cancels_what_it_waits_for(either: Clock) -> None:
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def forever() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    wait = asyncio.create_task(either.wait_for(forever(), 10))
    await started.wait()
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait
    assert cleaned.is_set()


async def test_sleeping_for_no_time_lets_others_run(either: Clock) -> None:
    ran = asyncio.Event()
    asyncio.get_running_loop().call_soon(ran.set)
    await either.sleep(0)
    assert ran.is_set()
