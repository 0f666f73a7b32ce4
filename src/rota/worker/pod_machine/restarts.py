"""CrashLoopBackOff: the delay before a container is restarted.

As the kubelet: the first restart is immediate, then after ten seconds, doubling up to five minutes. A run of ten
minutes resets it.
"""

from dataclasses import dataclass
from typing import Final

FIRST_S: Final = 10.0
LONGEST_S: Final = 300.0
#: A run of this length resets the backoff.
LONG_RUN_S: Final = 600.0


@dataclass(slots=True)
class Backoff:
    """The backoff of one container."""

    #: The delay after the next end.
    next_s: float = 0.0
    #: The present delay, or the last one.
    pause_s: float = 0.0
    #: No start before this time.
    until: float = 0.0

    def ended(self, *, now: float, ran_s: float) -> None:
        """A run has ended after so many seconds, and another is to follow."""
        self.pause_s = 0.0 if ran_s >= LONG_RUN_S else self.next_s
        self.until = now + self.pause_s
        self.next_s = min(max(self.pause_s * 2, FIRST_S), LONGEST_S)

    def failed(self, *, now: float) -> None:
        """A start has failed."""
        self.next_s = max(self.next_s, FIRST_S)
        self.ended(now=now, ran_s=0.0)

    def waits(self, now: float) -> bool:
        """Whether the delay is not over."""
        return now < self.until

    @property
    def shown(self) -> str:
        """The present delay as text: `20s`, `1m20s`, `5m0s`."""
        minutes, seconds = divmod(int(self.pause_s), 60)
        return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
