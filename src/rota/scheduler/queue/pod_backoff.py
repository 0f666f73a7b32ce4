"""How long a pod rests after a failed attempt.

Doubling from one second to ten, by the number of refusals, or of faults in a row. The end of a rest counts in whole
seconds, as in kube-scheduler: all rests that end within one second end together, when it is over, and the pods among
them are tried in the order of the queue.
"""

import math
from dataclasses import dataclass

from rota.scheduler.queue.entries import QueuedPod

#: Rests end together in steps of this.
WINDOW_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodBackoff:
    """The rule; a longest rest of zero means none at all."""

    initial_s: float = 1.0
    longest_s: float = 10.0

    def duration(self, failures: int) -> float:
        """Seconds to rest after so many failures, counted from 1."""
        if self.longest_s <= 0:
            return 0.0
        # The exponent is bounded because 2.0 to a great power leaves the range of floats.
        return min(self.longest_s, self.initial_s * 2.0 ** min(failures - 1, 64))

    def end(self, queued: QueuedPod) -> float:
        """Give the second within which the rest of a pod ends; a pod that never failed does not rest."""
        count = queued.faults or queued.failures
        rest = self.duration(count) if count else 0.0
        return window(queued.queued_at + rest) if rest else -math.inf


def window(at: float) -> float:
    """Give the beginning of the second that a moment lies in."""
    return math.floor(at / WINDOW_S) * WINDOW_S


def in_backoff(queued: QueuedPod, now: float) -> bool:
    """Whether a pod's rest is not over."""
    return queued.backoff_until >= window(now)


def over_at(end: float) -> float:
    """Give the moment at which a rest that ends within this second is over."""
    return end + WINDOW_S
