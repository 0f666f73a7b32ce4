"""The clock protocol: time is an argument.

Code that reads the time or waits takes a `Clock`. The real one is `rota.kit.system.SystemClock`, the one for tests is
`rota.testing.clocks.FakeClock`. This module does not import `time` or `asyncio`, so that pure modules can use the
protocol without access to the real clock.
"""

from collections.abc import Awaitable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Wall time in seconds since 1970 UTC, for timestamps that other processes read. It may jump either way."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed point; never goes back. For durations and deadlines inside one process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return once `seconds` have passed; zero or less still lets other tasks run."""
        ...

    async def wait_for(self, awaitable: Awaitable[_T], timeout: float) -> _T:
        """Await, but for at most `timeout` seconds; then cancel the awaitable and raise `TimeoutError`."""
        ...
