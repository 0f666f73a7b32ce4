"""Durations of extension points: the framework reports when each begins and ends, a `Stopwatch` has the clock.

Decisions do not read a clock, so that they can be repeated; without a stopwatch nothing is measured.
"""

from typing import Final, Protocol

from rota.scheduler.framework.status import Code

PRE_FILTER: Final = "PreFilter"
FILTER: Final = "Filter"
POST_FILTER: Final = "PostFilter"
PRE_SCORE: Final = "PreScore"
SCORE: Final = "Score"
RESERVE: Final = "Reserve"
UNRESERVE: Final = "Unreserve"
PERMIT: Final = "Permit"
PRE_BIND: Final = "PreBind"
BIND: Final = "Bind"
POST_BIND: Final = "PostBind"


class Stopwatch(Protocol):
    """Measures the extension points of one profile, under kube-scheduler's names."""

    def start(self) -> float:
        """The current time."""

    def observe_duration(self, point: str, code: Code, since: float) -> None:
        """An extension point that began at `since` has ended with this code."""


class NoStopwatch:
    """Measures nothing."""

    def start(self) -> float:
        """See `Stopwatch.start`."""
        return 0.0

    def observe_duration(self, point: str, code: Code, since: float) -> None:
        """See `Stopwatch.observe_duration`."""


NO_STOPWATCH: Final = NoStopwatch()
