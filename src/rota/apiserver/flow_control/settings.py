"""Limits on concurrent requests and on their duration."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The defaults suit a control plane of some hundred nodes; they bound memory and waiting times."""

    #: Concurrent requests; a list counts several times. Shared among the levels of `priority_levels`.
    seats: int = 600
    #: Requests of one level that may wait for a seat; further ones are refused.
    queue: int = 600
    #: Of those, how many may belong to one user.
    queue_per_user: int = 100
    #: How long a request may wait for a seat.
    wait_s: float = 15.0
    #: Time limit of a request from its head to its response; streams have none. Clients may ask for less.
    request_s: float = 60.0
    #: Open streams (watches, logs), in total and per user. Members of `system:masters` have no limit per user.
    streams: int = 10_000
    streams_per_user: int = 2_000
    #: Requests per second of one user, and the burst; None for no limit.
    rate_per_user: float | None = None
    burst_per_user: int = 200
    #: Requests that are authenticated at once, in total and of one client; and the time limit of that.
    authentications: int = 256
    authentications_per_flow: int = 32
    authentication_s: float = 10.0
    #: Authentications of one client that may fail, per second and in a burst, before it is refused unheard.
    failures_per_second: float = 20.0
    failures_burst: int = 200

    def __post_init__(self) -> None:
        counts = (
            *(self.seats, self.queue, self.queue_per_user, self.streams, self.streams_per_user, self.burst_per_user),
            *(self.authentications, self.authentications_per_flow, self.failures_burst),
        )
        amounts = (self.wait_s, self.request_s, self.authentication_s, self.failures_per_second)
        if min(counts) < 1 or min(amounts) <= 0 or (self.rate_per_user or 1) <= 0:
            raise ValueError("every limit is above zero")
