"""The backoff of a pod after a failed attempt.

It doubles from one second to ten, by the number of refusals, or of errors in a row. It ends in whole seconds, as in
kube-scheduler: all backoffs that end in the same second end together, and their pods are tried in the order of the
queue.
"""

import math
from dataclasses import dataclass

from rota.scheduler.queue.entries import QueuedPod

#: Backoffs end together in steps of this.
WINDOW_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBackoff:
    """The backoff policy; a maximum of zero means no backoff."""

    initial_s: float = 1.0
    longest_s: float = 10.0

    def duration(self, failures: int) -> float:
        """Seconds of backoff after so many failures, counted from 1."""
        if self.longest_s <= 0:
            return 0.0
        # The exponent is bounded because 2.0 to a large power leaves the range of floats.
        return min(self.longest_s, self.initial_s * 2.0 ** min(failures - 1, 64))

    def end(self, queued: QueuedPod) -> float:
        """The second in which the backoff of a pod ends; a pod that never failed has none."""
        count = queued.faults or queued.failures
        rest = self.duration(count) if count else 0.0
        return window(queued.queued_at + rest) if rest else -math.inf


def window(at: float) -> float:
    """The beginning of the second of a time."""
    return math.floor(at / WINDOW_S) * WINDOW_S


def in_backoff(queued: QueuedPod, now: float) -> bool:
    """Whether a pod's backoff is not over."""
    return queued.backoff_until >= window(now)


def over_at(end: float) -> float:
    """The time at which a backoff that ends in this second is over."""
    return end + WINDOW_S
