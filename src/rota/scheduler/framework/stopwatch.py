"""How long extension points take: the framework says when each begins and ends, somebody outside has the clock.

Decisions know no clock, so that they can be repeated; without a stopwatch nobody counts.
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
        """Give the time."""

    def observe_duration(self, point: str, code: Code, since: float) -> None:
        """A point that began at a time has ended now, and what it came to."""


class NoStopwatch:
    """Measures nothing."""

    def start(self) -> float:
        """See `Stopwatch.start`."""
        return 0.0

    def observe_duration(self, point: str, code: Code, since: float) -> None:
        """See `Stopwatch.lap`."""


NO_STOPWATCH: Final = NoStopwatch()
