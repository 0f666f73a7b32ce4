"""Logs outages of a store: one line when it is lost, one when it is back, a count in between.

Every reader, writer and watch detects an outage by itself, many times a second. They report to one object per store,
which writes the lines.
"""

from typing import Final

from rota.kit import clock, logs

log = logs.get(__name__)

#: How often the log repeats that the store does not answer.
REPEAT_S: Final = 10.0


class Outage:
    """The current outage, if there is one."""

    def __init__(self, *, time: clock.Clock) -> None:
        self._time: Final = time
        self._lost_at: float | None = None
        self._told_at = 0.0
        self._failures = 0

    def away_s(self) -> float:
        """How long the store has not answered; 0 if it answers."""
        return 0.0 if self._lost_at is None else self._time.monotonic() - self._lost_at

    def failed(self, problem: object) -> None:
        """A call was not answered and will be repeated."""
        now = self._time.monotonic()
        self._failures += 1
        if self._lost_at is None:
            self._lost_at = self._told_at = now
            log.warning("store does not answer, trying again", problem=str(problem))
        elif now - self._told_at >= REPEAT_S:
            self._told_at = now
            log.warning(
                "store still does not answer",
                problem=str(problem),
                away_s=round(now - self._lost_at, 1),
                failed_calls=self._failures,
            )

    def answered(self, began: float) -> None:
        """A call was answered that began at this monotonic time; one that began before the outage proves nothing."""
        if self._lost_at is None or began < self._lost_at:
            return
        away_s, failures = self._time.monotonic() - self._lost_at, self._failures
        self._lost_at, self._failures = None, 0
        log.warning("store answers again", away_s=round(away_s, 1), failed_calls=failures)
