"""Supervised tasks: restart, failure, clean ends."""

import asyncio
import logging
import random

import pytest

from rota.kit.backoff import Jitter, Policy
from rota.kit.tasks import OnCrash, Supervisor, TaskCrashedError
from rota.testing.clocks import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def supervisor_on(clock: FakeClock) -> Supervisor:
    policy = Policy(initial_s=1, factor=2, cap_s=8, jitter=Jitter.NONE)
    return Supervisor("test", clock=clock, rng=random.Random(1), backoff=policy)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_crashed_task_is_logged_with_its_traceback_and_restarted_after_its_backoff(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    starts: list[float] = []

    async def crash_thrice() -> None:
        starts.append(clock.monotonic())
        if len(starts) <= 3:
            raise LookupError("no such node")
        await forever()

    async with supervisor_on(clock) as supervisor:
        supervisor.start("sync", crash_thrice)
        await clock.advance(100)
        assert starts == [0, 1, 3, 7]
        assert supervisor.running == ("sync",)
    crashes = [record for record in caplog.records if record.getMessage() == "task crashed"]
    assert len(crashes) == 3
    assert "LookupError: no such node" in caplog.text
    assert "in crash_thrice" in caplog.text


async def test_a_long_quiet_run_clears_the_backoff(clock: FakeClock) -> None:
    starts: list[float] = []

    async def crash_after_ten_seconds() -> None:
        starts.append(clock.monotonic())
        await clock.sleep(10)
        raise LookupError

    async with supervisor_on(clock) as supervisor:
        supervisor.start("sync", crash_after_ten_seconds)
        await clock.advance(34)
        assert starts == [0, 11, 22, 33]


async def test_a_task_that_returns_is_done_and_not_restarted(clock: FakeClock) -> None:
    runs = 0

    async def once() -> None:
        nonlocal runs
        runs += 1

    async with supervisor_on(clock) as supervisor:
        supervisor.start("once", once)
        await supervisor.wait()
        await clock.advance(100)
        assert runs == 1
        supervisor.start("once", once)
        await supervisor.wait()
        assert runs == 2


async def test_a_failing_task_ends_all_others_and_the_wait_raises_its_cause(clock: FakeClock) -> None:
    cleaned: list[str] = []

    async def careful() -> None:
        try:
            await forever()
        finally:
            cleaned.append("careful")

    async def doomed() -> None:
        raise LookupError("gone")

    supervisor = supervisor_on(clock)
    supervisor.start("careful", careful)
    await clock.settle()
    supervisor.start("doomed", doomed, on_crash=OnCrash.FAIL)
    with pytest.raises(TaskCrashedError, match="task doomed of test crashed") as caught:
        await supervisor.wait()
    await supervisor.close()
    assert isinstance(caught.value.__cause__, LookupError)
    assert cleaned == ["careful"]
    assert supervisor.running == ()


async def test_leaving_the_block_raises_the_failure_without_a_wait(clock: FakeClock) -> None:
    async def doomed() -> None:
        raise LookupError

    async def block() -> None:
        async with supervisor_on(clock) as supervisor:
            supervisor.start("doomed", doomed, on_crash=OnCrash.FAIL)
            await clock.settle()

    with pytest.raises(TaskCrashedError):
        await block()


async def test_an_error_of_the_block_itself_is_not_replaced_by_the_failure(clock: FakeClock) -> None:
    async def doomed() -> None:
        raise LookupError

    async def block() -> None:
        async with supervisor_on(clock) as supervisor:
            supervisor.start("doomed", doomed, on_crash=OnCrash.FAIL)
            await clock.settle()
            raise KeyError

    with pytest.raises(KeyError):
        await block()


async def test_an_ignored_crash_ends_only_its_own_task(clock: FakeClock) -> None:
    async def doomed() -> None:
        raise LookupError

    async with supervisor_on(clock) as supervisor:
        supervisor.start("doomed", doomed, on_crash=OnCrash.IGNORE)
        supervisor.start("other", forever)
        await clock.advance(100)
        assert supervisor.running == ("other",)


async def test_close_stops_the_youngest_first_and_waits_for_slow_cleanups(clock: FakeClock) -> None:
    ended: list[str] = []

    async def careful(name: str) -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0.001)
            ended.append(name)

    supervisor = supervisor_on(clock)
    supervisor.start("first", lambda: careful("first"))
    supervisor.start("second", lambda: careful("second"))
    await clock.settle()
    await supervisor.close()
    await supervisor.close()
    assert ended == ["second", "first"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_close_interrupts_a_task_that_waits_for_its_restart(clock: FakeClock) -> None:
    async def doomed() -> None:
        raise LookupError

    async with supervisor_on(clock) as supervisor:
        supervisor.start("doomed", doomed)
        await clock.settle()
    assert supervisor.running == ()


async def test_close_names_the_tasks_that_do_not_let_go(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    released = asyncio.Event()

    async def stubborn() -> None:
        try:
            await forever()
        finally:
            await released.wait()

    supervisor = supervisor_on(clock)
    supervisor.start("stubborn", stubborn)
    await clock.settle()
    closing = asyncio.create_task(supervisor.close())
    with caplog.at_level(logging.WARNING):
        await clock.advance(11)
    assert "cancelled tasks have not ended" in caplog.text
    assert not closing.done()
    released.set()
    await closing


async def test_an_unrequested_cancellation_counts_as_a_crash(clock: FakeClock) -> None:
    runs = 0

    async def awaits_something_that_gets_cancelled() -> None:
        nonlocal runs
        runs += 1
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with supervisor_on(clock) as supervisor:
        supervisor.start("sync", awaits_something_that_gets_cancelled)
        await clock.advance(1)
        assert runs == 2


async def test_stopping_one_task_leaves_the_others(clock: FakeClock) -> None:
    async with supervisor_on(clock) as supervisor:
        supervisor.start("a", forever)
        supervisor.start("b", forever)
        await supervisor.stop("a")
        await supervisor.stop("never started")
        assert supervisor.running == ("b",)


async def test_two_live_tasks_cannot_share_a_name(clock: FakeClock) -> None:
    async with supervisor_on(clock) as supervisor:
        supervisor.start("a", forever)
        with pytest.raises(ValueError, match="already runs a task named a"):
            supervisor.start("a", forever)


async def test_a_closed_supervisor_takes_no_new_task(clock: FakeClock) -> None:
    supervisor = supervisor_on(clock)
    await supervisor.close()
    with pytest.raises(RuntimeError, match="takes no new task"):
        supervisor.start("late", forever)


async def test_a_task_that_closes_its_own_supervisor_gets_an_error_instead_of_hanging(clock: FakeClock) -> None:
    supervisor = supervisor_on(clock)
    supervisor.start("impatient", supervisor.close, on_crash=OnCrash.FAIL)
    with pytest.raises(TaskCrashedError) as caught:
        await supervisor.wait()
    await supervisor.close()
    assert "cannot wait for its own end" in str(caught.value.__cause__)
