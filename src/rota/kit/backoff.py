"""Exponential backoff with a cap and jitter.

Pure: it computes delays and never waits. `Policy` holds the parameters, `Backoff` counts the consecutive failures of
one operation. Properties (tests/kit/test_backoff.py): a delay is never negative and never above the cap, its ceiling
never shrinks from one failure to the next, and after a reset the delays start over.
"""

import enum
import math
from dataclasses import dataclass
from typing import Protocol


class Rng(Protocol):
    """A source of randomness; `random.Random` is one."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


class Jitter(enum.Enum):
    """Which part of a delay is random, so that callers that failed at the same time do not retry at the same time."""

    NONE = "none"
    #: Half of the delay is fixed, half is random: spreads callers out and still keeps a minimum pause.
    EQUAL = "equal"
    #: The whole delay is random: the best spread when very many callers wait for one server.
    FULL = "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Delays of `initial_s`, `initial_s * factor`, `initial_s * factor ** 2`, ... up to `cap_s`."""

    initial_s: float = 0.1
    factor: float = 2.0
    cap_s: float = 30.0
    jitter: Jitter = Jitter.EQUAL

    def __post_init__(self) -> None:
        if not 0 < self.initial_s <= self.cap_s < math.inf:
            raise ValueError(f"a backoff needs 0 < initial_s <= cap_s, got {self.initial_s} and {self.cap_s}")
        if not 1 <= self.factor < math.inf:
            raise ValueError(f"a backoff needs a factor of at least 1, got {self.factor}")

    def ceiling(self, failures: int) -> float:
        """The longest delay after this many failures in a row, counted from 1."""
        # A power that exceeds the range of floats is above any cap.
        try:
            return min(self.cap_s, self.initial_s * self.factor ** (failures - 1))
        except OverflowError:
            return self.cap_s

    def delay(self, failures: int, rng: Rng) -> float:
        """Seconds to wait after this many failures in a row, counted from 1."""
        ceiling = self.ceiling(failures)
        match self.jitter:
            case Jitter.NONE:
                return ceiling
            case Jitter.EQUAL:
                return ceiling / 2 + ceiling / 2 * rng.random()
            case Jitter.FULL:
                return ceiling * rng.random()


class Backoff:
    """Counts the consecutive failures of one operation and computes the delay after each."""

    __slots__ = ("_policy", "_rng", "failures")

    def __init__(self, policy: Policy, rng: Rng) -> None:
        self._policy = policy
        self._rng = rng
        #: Failures since the last success.
        self.failures = 0

    def next(self) -> float:
        """Count a failure; return the seconds to wait before the next try."""
        self.failures += 1
        return self._policy.delay(self.failures, self._rng)

    def reset(self) -> None:
        """Count a success: the next failure gets the first delay again."""
        self.failures = 0
