"""Limits the requests per second of each user. Pure; the time is an argument."""

from typing import Final

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
