"""Time as an argument.

Whatever needs to know the time or to wait takes a `Clock`. The real one is `rota.kit.system.SystemClock`, the
one for tests is `rota.testing.clocks.FakeClock`. This module stays free of `time` and `asyncio`, so that pure
rooms may name the protocol without being able to reach the real thing.
"""

from collections.abc import Awaitable
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Wall time in seconds since 1970 UTC, for timestamps that others read. It may jump either way."""
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
