"""A time limit for every request that is not a stream, enforced by one periodic scan.

A timer for each request would cost more than some requests do. An overdue request is cancelled as `asyncio.timeout`
would do it, and its runner answers with a timeout; a write that was under way may still have happened.
"""

import asyncio
from typing import Final

from rota.apiserver.flow_control import durations
from rota.apiserver.http.requests import Request
from rota.kit.clock import Clock

_LOOK_EVERY_S: Final = 0.5


class Deadline:
    """The time limit of one request."""

    __slots__ = ("_before", "_task", "due", "over")

    def __init__(self, task: asyncio.Task[object], due: float) -> None:
        self._task: Final = task
        self._before: Final = task.cancelling()
        self.due: Final = due
        self.over = False

    def end(self) -> None:
        """The time is over."""
        self.over = True
        self._task.cancel()

    def explains(self) -> bool:
        """Whether a received cancellation is this one; it is then undone."""
        return self.over and self._task.uncancel() <= self._before


class Deadlines:
    """The time limits of all running requests."""

    def __init__(self, clock: Clock, *, request_s: float) -> None:
        self._clock: Final = clock
        self._request_s: Final = request_s
        self._running: Final[set[Deadline]] = set()
        self._begun: Final = asyncio.Event()

    def begin(self, request: Request) -> Deadline:
        """Start a request's time; `end` must follow. BadRequest if the requested timeout is invalid."""
        timeout = request.query.get("timeout")
        limit = durations.limit(timeout, self._request_s) if timeout else self._request_s
        task = asyncio.current_task()
        assert task is not None, "requests are answered in tasks"
        deadline = Deadline(task, self._clock.monotonic() + limit)
        if not self._running:
            self._begun.set()
        self._running.add(deadline)
        return deadline

    def end(self, deadline: Deadline) -> None:
        """The request is answered."""
        self._running.discard(deadline)

    async def run(self) -> None:
        """Cancel overdue requests, until cancelled."""
        while True:
            # an idle server should not wake up twice a second
            await self._begun.wait()
            await self._clock.sleep(_LOOK_EVERY_S)
            now = self._clock.monotonic()
            for deadline in [one for one in self._running if one.due <= now]:
                self._running.discard(deadline)
                deadline.end()
            if not self._running:
                self._begun.clear()
