"""A work queue for tasks: keys come in from handlers, workers take them, failures come back later.

    queue = WorkQueue[Key](clock=clock, chance=chance)
    informer.add_handler(lambda key, old, new: queue.add(key))
    supervisor.start("worker", lambda: queue.work(reconcile, workers=4))

The rules are in `core`: one worker per key at a time, no addition lost. Failures of a key are answered with growing
delays of its own; all repetitions together are held to a rate, so that a broken server is not asked without end.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeAlias, TypeVar

from rota.client.queues.core import QueueCore
from rota.client.queues.metrics import QueueMetrics
from rota.kit import backoff, logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.kit.rate_limit import TokenBucket

log = logs.get(__name__)

K = TypeVar("K", bound=Hashable)

#: Works on a key; may give back the seconds after which it should be looked at again.
Process: TypeAlias = Callable[[K], Awaitable[float | None]]

_BACKOFF: Final = backoff.Policy(initial_s=0.005, cap_s=1000.0, jitter=backoff.Jitter.NONE)
#: Repetitions of all keys together: a hundred at once, ten per second.
_RATE: Final = 10.0
_BURST: Final = 100


class WorkQueue(Generic[K]):
    """Used by tasks of one event loop. Adding never waits."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Rng,
        policy: backoff.Policy = _BACKOFF,
        name: str = "",
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._metrics: Final = metrics or QueueMetrics(Metrics("client"), name, clock=clock)
        self._clock: Final = clock
        self._rng: Final = rng
        self._policy: Final = policy
        self._core: Final = QueueCore[K]()
        self._bucket: Final = TokenBucket(rate=_RATE, burst=_BURST, now=clock.monotonic())
        self._failures: Final[dict[K, int]] = {}
        self._waiters: Final[deque[asyncio.Future[None]]] = deque()
        self._idle: Final = asyncio.Event()
        self._closed = False
        self._log: Final = log.bind(queue=name)

    def __len__(self) -> int:
        """Keys that wait for a worker."""
        return len(self._core)

    def add(self, key: K) -> None:
        """The key needs work."""
        if self._closed:
            return
        before = len(self._core)
        if self._core.add(key):
            self._metrics.added(key)
        self._wake(len(self._core) - before)

    def add_after(self, key: K, delay_s: float) -> None:
        """The key needs work later."""
        if delay_s <= 0:
            self.add(key)
        elif not self._closed:
            due = self._core.next_due()
            self._core.add_at(key, self._clock.monotonic() + delay_s)
            # Those who sleep until the former first one would oversleep.
            self._wake(1 if self._core.next_due() < due else 0)

    def retry(self, key: K) -> float:
        """The work on a key has failed: add it again later, the later the more often it failed; the delay."""
        self._metrics.retried()
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        own = self._policy.delay(failures, self._rng)
        delay = max(own, self._bucket.reserve(self._clock.monotonic()))
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The work on a key went well: its next failure counts as the first."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often a key has failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K | None:
        """The next key, to be given back with `done`; None when the queue is shut down and empty."""
        while True:
            for due in self._core.advance(self._clock.monotonic()):
                self._metrics.added(due)
            key = self._core.take()
            if key is not None:
                self._metrics.taken(key)
                # One wake-up may have stood for several keys that became due together.
                self._wake(len(self._core))
                return key
            if self._closed:
                return None
            await self._wait()

    def done(self, key: K) -> None:
        """The work on a key has ended, well or not; whoever got it must say so."""
        before = len(self._core)
        self._core.done(key)
        self._metrics.done(key)
        self._wake(len(self._core) - before)
        self._settle()

    def shut_down(self) -> None:
        """Take no more keys and forget the delayed ones; those that are ready are still handed out."""
        self._closed = True
        self._core.drop_delayed()
        self._wake(len(self._waiters))
        self._settle()

    async def drain(self) -> None:
        """Shut down, and wait until everything ready has been worked on."""
        self.shut_down()
        await self._idle.wait()

    async def work(self, process: Process[K], *, workers: int = 1) -> None:
        """Work on keys until the queue is shut down and empty; what `process` raises is logged and tried again."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._worker(process))

    async def _worker(self, process: Process[K]) -> None:
        while (key := await self.get()) is not None:
            try:
                again_after_s = await process(key)
            except asyncio.CancelledError:
                # Half done is not done: whoever works on this queue next begins the key anew.
                self.add(key)
                raise
            except Exception as error:  # noqa: BLE001 - one key's failure must not stop the work on the others
                delay = self.retry(key)
                self._log.exception(
                    "work failed", error=error, key=str(key), failures=self.failures(key), retry_in_s=round(delay, 3)
                )
            else:
                self.forget(key)
                if again_after_s is not None:
                    self.add_after(key, again_after_s)
            finally:
                self.done(key)

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        due = self._core.next_due()
        try:
            if due == math.inf:
                await waiter
            else:
                await self._clock.wait_for(waiter, due - self._clock.monotonic())
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # Woken and cancelled at once: the key is for someone else.
                self._wake(1)
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake(self, count: int) -> None:
        while count > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    def _settle(self) -> None:
        if self._closed and not self._core.in_work and not len(self._core):
            self._idle.set()
