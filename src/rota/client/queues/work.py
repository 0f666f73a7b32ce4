"""A work queue for asyncio: handlers add keys, workers process them, failures are retried later.

    queue = WorkQueue[Key](clock=clock, rng=rng)
    informer.add_handler(lambda key, old, new: queue.add(key))
    supervisor.start("worker", lambda: queue.work(reconcile, workers=4))

The rules are in `core`: one worker per key at a time, no addition lost. Each key has its own exponential backoff; all
retries together are rate limited, so that a failing server is not overloaded.
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

#: Processes a key; may return the seconds after which it should be processed again.
Process: TypeAlias = Callable[[K], Awaitable[float | None]]

#: The backoff of keys that failed.
BACKOFF: Final = backoff.Policy(initial_s=0.005, cap_s=1000.0, jitter=backoff.Jitter.NONE)
#: Rate limit of all retries: a burst of a hundred, then ten per second.
_RATE: Final = 10.0
_BURST: Final = 100


class WorkQueue(Generic[K]):
    """For tasks of one event loop. Adding never waits."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Rng,
        policy: backoff.Policy = BACKOFF,
        name: str = "",
        metrics: QueueMetrics | None = None,
        rank: Callable[[K], int] | None = None,
    ) -> None:
        """With `rank`, keys that wait are processed by their rank, the highest first."""
        self._metrics: Final = metrics or QueueMetrics(Metrics("client"), name, clock=clock)
        self._clock: Final = clock
        self._rng: Final = rng
        self._policy: Final = policy
        self._core: Final = QueueCore[K](rank)
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
        """Add a key."""
        if self._closed:
            return
        before = len(self._core)
        if self._core.add(key):
            self._metrics.added(key)
        self._wake(len(self._core) - before)

    def add_after(self, key: K, delay_s: float) -> None:
        """Add a key after a delay."""
        if delay_s <= 0:
            self.add(key)
        elif not self._closed:
            due = self._core.next_due()
            self._core.add_at(key, self._clock.monotonic() + delay_s)
            # Sleeping workers must notice the earlier time.
            self._wake(1 if self._core.next_due() < due else 0)

    def retry(self, key: K) -> float:
        """Retry a key that failed after its backoff; returns the delay."""
        self._metrics.retried()
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        own = self._policy.delay(failures, self._rng)
        delay = max(own, self._bucket.reserve(self._clock.monotonic()))
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Reset the failures of a key."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often a key has failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K | None:
        """The next key, which the caller ends with `done`; None when the queue is shut down and empty."""
        while True:
            for due in self._core.advance(self._clock.monotonic()):
                self._metrics.added(due)
            key = self._core.take()
            if key is not None:
                self._metrics.taken(key)
                # One wake-up may cover several keys that became due together.
                self._wake(len(self._core))
                return key
            if self._closed:
                return None
            await self._wait()

    def done(self, key: K) -> None:
        """The processing of a key has ended, successfully or not; required after `get`."""
        before = len(self._core)
        self._core.done(key)
        self._metrics.done(key)
        self._wake(len(self._core) - before)
        self._settle()

    def shut_down(self) -> None:
        """Accept no more keys and drop the delayed ones; ready keys are still handed out."""
        self._closed = True
        self._core.drop_delayed()
        self._wake(len(self._waiters))
        self._settle()

    async def drain(self) -> None:
        """Shut down, and wait until all ready keys have been processed."""
        self.shut_down()
        await self._idle.wait()

    async def work(self, process: Process[K], *, workers: int = 1) -> None:
        """Process keys until the queue is shut down and empty; exceptions of `process` are logged and retried."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._worker(process))

    async def _worker(self, process: Process[K]) -> None:
        while (key := await self.get()) is not None:
            try:
                again_after_s = await process(key)
            except asyncio.CancelledError:
                # The processing was cancelled: the next worker starts the key again.
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
                # Woken and cancelled at once: another worker takes the key.
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
