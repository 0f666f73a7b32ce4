"""A time limit for every request that is not a stream, enforced by one periodic scan, and the `timeout` parameter.

A timer for each request would cost more than some requests do. An overdue request is cancelled as `asyncio.timeout`
would do it, and its runner answers with a timeout; a write that was under way may still have happened.
"""

import asyncio
import re
from typing import Final

from rota.api import errors, gotext
from rota.apiserver.http.requests import Request
from rota.kit.clock import Clock

_UNITS_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"[-+]?(?:0|(?:{_PART.pattern})+)")


def requested_s(timeout: str, most_s: float) -> float:
    """The time limit of a request with this `timeout`; BadRequest if it is not a duration.

    It is at most `most_s`, which zero and no value also mean.
    """
    if len(timeout) > 64 or not _WHOLE.fullmatch(timeout):
        why = f"time: invalid duration {gotext.quote(timeout)}"
        raise errors.bad_request(f"invalid timeout specified in the request URL - {why}")
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(timeout))
    return min(seconds, most_s) if seconds > 0 and not timeout.startswith("-") else most_s


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

    def begin(self, request: Request, *, most_s: float | None = None) -> Deadline:
        """Start a request's time, `most_s` at most; `end` must follow. BadRequest if the timeout is invalid."""
        timeout = request.query.get("timeout")
        limit = requested_s(timeout, self._request_s) if timeout else self._request_s
        if most_s is not None:
            limit = min(limit, most_s)
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
