"""A token bucket: a burst, then a rate per second. Pure; the time is an argument."""

from typing import Final


class TokenBucket:
    """Starts full. Times must not go back."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, *, rate: float, burst: int, now: float) -> None:
        """`rate` is in tokens per second, `burst` the size of the bucket."""
        if rate <= 0 or burst < 1:
            raise ValueError(f"a bucket needs a rate above 0 and a burst of at least 1, got {rate} and {burst}")
        self._rate: Final = rate
        self._burst: Final = burst
        #: Negative by the tokens that were taken in advance.
        self._tokens = float(burst)
        self._at = now

    def take(self, now: float) -> bool:
        """Take a token if one is available."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def has(self, now: float) -> bool:
        """Whether a token is available."""
        self._refill(now)
        return self._tokens >= 1

    def reserve(self, now: float) -> float:
        """Take a token in any case; returns the seconds until it is available."""
        self._refill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def is_full(self, now: float) -> bool:
        """Whether the bucket is full."""
        self._refill(now)
        return self._tokens >= self._burst

    def _refill(self, now: float) -> None:
        self._tokens = min(float(self._burst), self._tokens + (now - self._at) * self._rate)
        self._at = now
