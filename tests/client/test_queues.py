"""The rules of the work queue against a model, and the queue among tasks."""

import asyncio
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rota.client.queues.core import QueueCore
from rota.client.queues.work import WorkQueue
from rota.kit.rate_limit import TokenBucket
from rota.testing.clocks import FakeClock

KEYS = st.integers(0, 3)


class QueueModel(RuleBasedStateMachine):
    """For every key: whether it needs work, whether someone works on it, when it is to be added."""

    @initialize()
    def start(self) -> None:
        self.core = QueueCore[int]()
        self.now = 0.0
        self.order: list[int] = []
        self.dirty: set[int] = set()
        self.in_work: set[int] = set()
        self.due: dict[int, float] = {}

    def _model_add(self, key: int) -> None:
        if key not in self.dirty:
            self.dirty.add(key)
            if key not in self.in_work:
                self.order.append(key)

    @rule(key=KEYS)
    def add(self, key: int) -> None:
        self.core.add(key)
        self._model_add(key)

    @rule(key=KEYS, delay=st.integers(1, 5))
    def add_later(self, key: int, delay: int) -> None:
        self.core.add_at(key, self.now + delay)
        self.due[key] = min(self.due.get(key, self.now + delay), self.now + delay)

    @rule(seconds=st.integers(0, 6))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds
        before = set(self.dirty)
        self.core.advance(self.now)
        ripe = {key for key, due in self.due.items() if due <= self.now}
        for key in ripe:
            del self.due[key]
        # Those that became due at the same time may come in the order of their delays.
        fresh = [key for key in self.core._ready if key in ripe and key not in before]
        for key in [*fresh, *ripe]:
            self._model_add(key)

    @rule()
    def take(self) -> None:
        key = self.core.take()
        assert key == (self.order.pop(0) if self.order else None)
        if key is not None:
            assert key not in self.in_work, "two workers on one key"
            self.dirty.discard(key)
            self.in_work.add(key)

    @precondition(lambda self: self.in_work)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.in_work)))
        self.core.done(key)
        self.in_work.discard(key)
        if key in self.dirty:
            self.order.append(key)

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.core) == len(self.order)
        assert self.core.in_work == len(self.in_work)
        assert self.core.delayed == len(self.due)
        assert self.core.next_due() == min(self.due.values(), default=float("inf"))
        assert set(self.order) == self.dirty - self.in_work, "a key that needs work is ready or will be"


QueueModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_the_queue_keeps_its_rules = pytest.mark.slow(QueueModel.TestCase)


def test_only_a_key_in_processing_can_be_done() -> None:
    with pytest.raises(ValueError, match="1 is not being processed"):
        QueueCore[int]().done(1)


@pytest.fixture
def queue(clock: FakeClock, rng: random.Random) -> WorkQueue[str]:
    return WorkQueue[str](clock=clock, rng=rng)


def test_ranked_keys_come_by_rank_and_equal_ones_in_order() -> None:
    core = QueueCore[int](rank=lambda key: key // 10)
    for key in (1, 21, 11, 2, 22):
        core.add(key)
    assert [core.take() for _ in range(5)] == [21, 22, 11, 1, 2]


async def test_a_waiting_worker_gets_what_is_added(queue: WorkQueue[str], clock: FakeClock) -> None:
    getting = asyncio.create_task(queue.get())
    await clock.settle()
    queue.add("a")
    assert await getting == "a"


async def test_every_waiting_worker_gets_a_key(queue: WorkQueue[str], clock: FakeClock) -> None:
    getting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await clock.settle()
    for key in ("a", "b", "c"):
        queue.add_after(key, 1)
    await clock.advance(1)
    assert {task.result() for task in getting} == {"a", "b", "c"}


async def test_a_delayed_key_comes_in_time_and_an_earlier_one_before_it(
    queue: WorkQueue[str], clock: FakeClock
) -> None:
    first = asyncio.create_task(queue.get())
    queue.add_after("late", 10)
    await clock.advance(1)
    queue.add_after("early", 2)
    await clock.advance(1)
    assert not first.done()
    await clock.advance(1)
    assert first.result() == "early"
    second = asyncio.create_task(queue.get())
    await clock.advance(6)
    assert not second.done()
    await clock.advance(1)
    assert second.result() == "late"


async def test_a_cancelled_worker_does_not_take_a_key_with_it(queue: WorkQueue[str], clock: FakeClock) -> None:
    leaving, staying = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await clock.settle()
    queue.add("a")
    leaving.cancel()
    await clock.settle()
    assert leaving.cancelled()
    assert staying.result() == "a"


async def test_failures_wait_longer_each_time_until_forgotten(queue: WorkQueue[str]) -> None:
    delays = [queue.retry("a") for _ in range(4)]
    assert delays == [0.005, 0.01, 0.02, 0.04]
    assert queue.failures("a") == 4
    queue.forget("a")
    assert queue.retry("a") == 0.005


async def test_all_failures_together_are_held_to_a_rate(queue: WorkQueue[str]) -> None:
    delays = [queue.retry(f"key-{number}") for number in range(120)]
    assert delays[99] == 0.005
    assert delays[119] == pytest.approx(2.0)


async def test_work_is_repeated_until_it_succeeds_and_never_by_two(queue: WorkQueue[str], clock: FakeClock) -> None:
    at_work: set[str] = set()
    log: list[str] = []

    async def process(key: str) -> float | None:
        assert key not in at_work
        at_work.add(key)
        await clock.sleep(1)
        at_work.discard(key)
        log.append(key)
        if log.count(key) < 3:
            raise RuntimeError("not yet")
        return None

    running = asyncio.create_task(queue.work(process, workers=3))
    queue.add("a")
    await clock.advance(0.5)
    queue.add("a")
    queue.add("b")
    await clock.advance(60)
    assert log.count("a") >= 3
    assert log.count("b") == 3
    queue.shut_down()
    await running


async def test_work_that_is_cancelled_is_begun_anew_by_the_next(queue: WorkQueue[str], clock: FakeClock) -> None:
    log: list[str] = []

    async def process(key: str) -> float | None:
        log.append(key)
        await clock.sleep(5)
        return None

    running = asyncio.create_task(queue.work(process))
    queue.add("a")
    await clock.advance(1)
    running.cancel()
    await asyncio.wait([running])
    assert len(queue) == 1
    running = asyncio.create_task(queue.work(process))
    await clock.advance(6)
    assert log == ["a", "a"]
    queue.shut_down()
    await running


async def test_work_can_ask_to_be_done_again_later(queue: WorkQueue[str], clock: FakeClock) -> None:
    times: list[float] = []

    async def process(key: str) -> float | None:
        times.append(clock.monotonic())
        return 10.0 if len(times) < 3 else None

    running = asyncio.create_task(queue.work(process))
    queue.add("a")
    await clock.advance(60)
    assert times == [0, 10, 20]
    queue.shut_down()
    await running


async def test_draining_waits_for_the_work_under_way_and_takes_no_more(queue: WorkQueue[str], clock: FakeClock) -> None:
    log: list[str] = []

    async def process(key: str) -> float | None:
        await clock.sleep(5)
        log.append(key)
        return None

    running = asyncio.create_task(queue.work(process))
    queue.add("a")
    queue.add("b")
    queue.add_after("never", 1)
    await clock.advance(0.5)
    draining = asyncio.create_task(queue.drain())
    await clock.advance(5)
    queue.add("too late")
    assert not draining.done()
    await clock.advance(5)
    assert draining.done()
    await running
    assert log == ["a", "b"]


def test_a_bucket_gives_its_burst_at_once_and_its_rate_after_that() -> None:
    bucket = TokenBucket(rate=2, burst=3, now=0)
    assert [bucket.take(0) for _ in range(4)] == [True, True, True, False]
    assert bucket.take(0.5)
    assert not bucket.take(0.5)
    assert bucket.reserve(0.5) == 0.5
    assert bucket.reserve(0.5) == 1.0
    assert bucket.is_full(10)
