"""How much a server takes on at once, and for how long."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The defaults suit a control plane of some hundred nodes; what they bound is memory and waiting."""

    #: Requests under way at once, lists counted several times over. Shared among the levels of `priority_levels`.
    seats: int = 600
    #: Requests of one level that may wait for a seat; what comes then is refused.
    queue: int = 600
    #: Of those, how many may be one user's.
    queue_per_user: int = 100
    #: How long one may wait for a seat.
    wait_s: float = 15.0
    #: How long one may take from its head to its answer; streams have no such limit. Clients may ask for less.
    request_s: float = 60.0
    #: Open streams (watches, logs), in all and of one user. Those in `system:masters` have no limit of their own.
    streams: int = 10_000
    streams_per_user: int = 2_000
    #: Requests per second of one user, and how many of them may come at once; None for no such limit.
    rate_per_user: float | None = None
    burst_per_user: int = 200

    def __post_init__(self) -> None:
        counts = (self.seats, self.queue, self.queue_per_user, self.streams, self.streams_per_user, self.burst_per_user)
        if min(counts) < 1 or min(self.wait_s, self.request_s) <= 0 or (self.rate_per_user or 1) <= 0:
            raise ValueError("every limit is above zero")
