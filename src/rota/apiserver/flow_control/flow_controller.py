"""Flow control of the server: a request gets a seat, waits for one, or is refused with 429.

A thin layer around `seats` and `Rates`: it uses the event loop and the clock, they have the rules. A request that
does not wait is not suspended.
"""

import asyncio
import functools
from typing import Final

from rota.apiserver.flow_control import priority_levels
from rota.apiserver.flow_control.priority_levels import PriorityLevel
from rota.apiserver.flow_control.seats import SeatRequest, Seats, State
from rota.apiserver.flow_control.settings import Limits
from rota.apiserver.http import responses
from rota.apiserver.interfaces import User
from rota.apiserver.routing import Route
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.kit.rate_limit import TokenBucket


class Rates:
    """A token bucket for each recent user."""

    #: Above this number, full buckets, which mean nothing any more, are dropped.
    _MOST: Final = 4096

    def __init__(self, *, rate: float, burst: int) -> None:
        self._rate: Final = rate
        self._burst: Final = burst
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, user: str, now: float) -> bool:
        """Whether the user may send one more request."""
        bucket = self._buckets.get(user)
        if bucket is None:
            if len(self._buckets) >= self._MOST:
                self._buckets = {name: one for name, one in self._buckets.items() if not one.is_full(now)}
            bucket = self._buckets[user] = TokenBucket(rate=self._rate, burst=self._burst, now=now)
        return bucket.take(now)


_RETRY_AFTER: Final = ((b"retry-after", b"1"),)
#: Levels without a rate limit.
_UNRATED: Final = frozenset({PriorityLevel.EXEMPT, PriorityLevel.HEARTBEATS})
_WORDS: Final = "Too many requests, please try again later.\n"


class Overloaded(Exception):
    """The request is refused for now and had no effect."""

    @property
    def answer(self) -> responses.Response:
        """The response, with upstream's message."""
        plain = responses.text(429, _WORDS)
        return responses.Response(429, plain.body, plain.content_type, plain.headers + _RETRY_AFTER)


class FlowController:
    """Admits requests."""

    def __init__(self, limits: Limits, clock: Clock, metrics: Metrics) -> None:
        self._limits: Final = limits
        self._clock: Final = clock
        self._seats: Final = Seats(
            priority_levels.allot(limits.seats),
            seats=limits.seats,
            queue=limits.queue,
            queue_per_user=limits.queue_per_user,
        )
        rate = limits.rate_per_user
        self._rates: Final = None if rate is None else Rates(rate=rate, burst=limits.burst_per_user)
        self._waiters: Final[dict[SeatRequest, asyncio.Future[None]]] = {}
        self._streams: Final[dict[str, int]] = {}
        self._streams_in_all = 0
        self._refused: Final = metrics.counter("requests_refused_total", "Requests refused with 429.", ("level", "why"))
        seated = metrics.gauge("requests_seated", "Seats that requests hold now.", ("level",))
        waiting = metrics.gauge("requests_waiting", "Requests that wait for a seat now.", ("level",))
        for level in priority_levels.SHARES:
            # evaluated at a scrape, so that counting costs requests nothing
            seated.labels(level.label).set_function(functools.partial(self._seats.held, level))
            waiting.labels(level.label).set_function(functools.partial(self._seats.waiting, level))
        self._waited: Final = metrics.histogram("request_wait_seconds", "Time that requests waited here.", ("level",))

    def enter(self, user: User, route: Route | None, path: str = "") -> SeatRequest:
        """A seat for a request, or a place in the queue (see `wait`); `leave` must follow. Overloaded if there is none.

        `route` is None for non-resource paths.
        """
        level = priority_levels.level_of(user, route, path)
        if (
            self._rates is not None
            and level not in _UNRATED
            and not self._rates.take(user.name, self._clock.monotonic())
        ):
            raise self._refusal(level, "rate")
        seat_request = self._seats.arrive(level, user.name, priority_levels.width_of(route))
        if seat_request.state is State.REFUSED:
            raise self._refusal(level, "queue full")
        return seat_request

    async def wait(self, seat_request: SeatRequest) -> None:
        """Wait until a queued request has a seat; Overloaded if that takes too long."""
        seated: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[seat_request] = seated
        begun = self._clock.monotonic()
        try:
            await self._clock.wait_for(seated, self._limits.wait_s)
        except TimeoutError:
            raise self._refusal(seat_request.level, "waited too long") from None
        finally:
            del self._waiters[seat_request]
            self._waited.labels(seat_request.level.label).observe(self._clock.monotonic() - begun)

    def leave(self, seat_request: SeatRequest) -> None:
        """A request has ended, or stops waiting."""
        for seated in self._seats.leave(seat_request):
            waiter = self._waiters.get(seated)
            # a request that has just given up leaves by itself, and its seat goes to the next
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def open_stream(self, user: User) -> None:
        """Count a stream; `close_stream` must follow. Overloaded if there are too many."""
        mine = self._streams.get(user.name, 0)
        level = priority_levels.level_of(user, None)
        if self._streams_in_all >= self._limits.streams:
            raise self._refusal(level, "streams")
        if mine >= self._limits.streams_per_user and level is not PriorityLevel.EXEMPT:
            raise self._refusal(level, "streams of a user")
        self._streams[user.name] = mine + 1
        self._streams_in_all += 1

    def close_stream(self, user: User) -> None:
        """A stream has ended."""
        self._streams_in_all -= 1
        left = self._streams[user.name] - 1
        if left:
            self._streams[user.name] = left
        else:
            del self._streams[user.name]

    def _refusal(self, level: PriorityLevel, why: str) -> Overloaded:
        self._refused.labels(level.label, why).inc()
        return Overloaded()
