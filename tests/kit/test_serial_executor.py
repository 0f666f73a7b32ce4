"""A serial executor runs calls in order in one thread and returns their results or exceptions."""

import asyncio
import threading

import pytest

from rota.kit.serial_executor import SerialExecutor


async def test_calls_run_in_order_in_one_thread_that_is_not_the_loops() -> None:
    lane = SerialExecutor("test")
    ran: list[int] = []

    def call(number: int) -> int:
        ran.append(number)
        return threading.get_ident()

    threads = await asyncio.gather(*(lane.run(lambda number=number: call(number)) for number in range(50)))  # type: ignore[misc]
    lane.close()
    assert ran == list(range(50))
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_an_exception_reaches_the_caller_and_the_executor_goes_on() -> None:
    lane = SerialExecutor("test")

    def fail() -> None:
        raise KeyError("this")

    with pytest.raises(KeyError, match="this"):
        await lane.run(fail)
    assert await lane.run(lambda: "next") == "next"
    lane.close()


async def test_giving_up_the_wait_does_not_stop_the_call() -> None:
    lane = SerialExecutor("test")
    go, done = threading.Event(), threading.Event()

    def call() -> None:
        go.wait(10)
        done.set()

    waiting = asyncio.create_task(lane.run(call))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    lane.close()
    assert done.is_set()
