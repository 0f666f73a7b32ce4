"""A time limit for every request that is not a stream, by one look at all of them now and then.

A timer for each request would cost more than some requests do. What is overdue is cancelled as `asyncio.timeout` would
do it, and whoever runs it answers that the time is over; a write that was under way may still have happened.
"""

import asyncio
from typing import Final

from rota.apiserver.flow_control import durations
from rota.apiserver.http.requests import Request
from rota.kit.clock import Clock

_LOOK_EVERY_S: Final = 0.5


class Deadline:
    """One request's time."""

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
        """Whether a cancellation that has arrived is this one; it is then taken back."""
        return self.over and self._task.uncancel() <= self._before


class Deadlines:
    """The time of all requests that are under way."""

    def __init__(self, clock: Clock, *, request_s: float) -> None:
        self._clock: Final = clock
        self._request_s: Final = request_s
        self._running: Final[set[Deadline]] = set()
        self._begun: Final = asyncio.Event()

    def begin(self, request: Request) -> Deadline:
        """Let a request's time run; `end` must follow. BadRequest if it asks for a time that is none."""
        wish = request.query.get("timeout")
        limit = durations.limit(wish, self._request_s) if wish else self._request_s
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
        """End what is overdue, until cancelled."""
        while True:
            # an idle server is not woken twice a second for nothing
            await self._begun.wait()
            await self._clock.sleep(_LOOK_EVERY_S)
            now = self._clock.monotonic()
            for deadline in [one for one in self._running if one.due <= now]:
                self._running.discard(deadline)
                deadline.end()
            if not self._running:
                self._begun.clear()
