"""Virtual time for tests: only the test advances it.

`await clock.advance(10)` goes through the deadlines of all sleepers in order, letting the tasks that wake run
(and fall asleep again) before time moves on. Ten seconds of a one-second loop are ten rounds, in no time.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Sequence, Sized
from typing import Final, TypeVar

from rota.kit import offload

_T = TypeVar("_T")

#: After so many iterations without an idle one, the tasks are considered to loop for ever.
_ENDLESS: Final = 100_000
#: Real time: timers of the event loop that are waited for, and how often to look.
_SOON_S: Final = 0.03
_LOOK_S: Final = 0.001


class FakeClock:
    """A `rota.kit.clock.Clock` that a test controls."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._elapsed = 0.0
        self._wall_offset = start
        self._order = itertools.count()
        #: (deadline in elapsed seconds, order of falling asleep, who sleeps)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """See `Clock.now`."""
        return self._wall_offset + self._elapsed

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), future))
        await future

    async def wait_for(self, awaitable: Awaitable[_T], timeout: float) -> _T:
        """See `Clock.wait_for`."""
        work = asyncio.ensure_future(awaitable)
        alarm = asyncio.ensure_future(self.sleep(timeout))
        late = False
        try:
            await asyncio.wait((work, alarm), return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            late = work.cancel()
            await asyncio.wait((work, alarm))
        if late and work.cancelled():
            raise TimeoutError
        return work.result()

    @property
    def sleeping(self) -> int:
        """How many tasks wait for time to pass."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Let time pass: wake every sleeper at its moment, earliest first, and let it run before going on."""
        until = self._elapsed + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= until:
            deadline, _, future = heapq.heappop(self._sleepers)
            if future.done():
                continue
            self._elapsed = max(self._elapsed, deadline)
            future.set_result(None)
            await self.settle()
        self._elapsed = until
        await self.settle()

    def step_wall(self, seconds: float) -> None:
        """Jump the wall clock alone, as a time server does; durations are not affected."""
        self._wall_offset += seconds

    def oversleep(self, seconds: float) -> None:
        """Let time pass while no task runs, as for a process that was stopped: sleepers wake at the next advance."""
        self._elapsed += seconds

    async def settle(self) -> None:
        """Let every task that can run do so, without virtual time passing: until the event loop has nothing to run.

        It waits for work of `kit.offload` and for timers of the event loop that end within milliseconds, such as those
        that gather changes for many watches. Of other calls in threads and of sockets only what has arrived counts.
        """
        loop = asyncio.get_running_loop()
        # The loop's own queues: no public interface shows whether it is idle. Entries of `_ready` are callbacks of this
        # iteration or the next.
        ready: Sized = vars(loop)["_ready"]
        timers: Sequence[asyncio.TimerHandle] = vars(loop)["_scheduled"]
        for _ in range(_ENDLESS):
            await asyncio.sleep(0)
            if ready:
                continue
            soon = loop.time() + _SOON_S
            if not offload.is_working() and not (timers and not timers[0].cancelled() and timers[0].when() <= soon):
                return
            await asyncio.sleep(_LOOK_S)
        raise RuntimeError(f"after {_ENDLESS} iterations of the event loop tasks still wake each other")
