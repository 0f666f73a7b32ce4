"""The real clock and real randomness: the only module that may read them from the operating system.

Created where components are assembled (`rota.assembly`, the command line, benchmarks) and passed down as arguments.
"""

import asyncio
import contextlib
import random
import resource
import time
from collections.abc import Awaitable
from typing import TypeVar

_T = TypeVar("_T")


class SystemClock:
    """The machine's clock and the running event loop's timers."""

    __slots__ = ()

    def now(self) -> float:
        """See `Clock.now`."""
        return time.time()

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        await asyncio.sleep(seconds)

    def block(self, seconds: float) -> None:
        """Block this thread: for code without an event loop."""
        time.sleep(seconds)

    async def wait_for(self, awaitable: Awaitable[_T], timeout: float) -> _T:
        """See `Clock.wait_for`."""
        # Not asyncio.wait_for: before Python 3.12 it can swallow a cancellation that races with the result.
        async with asyncio.timeout(timeout):
            return await awaitable


def allow_many_files() -> int:
    """Raise this process's soft limit on open files to the hard limit; returns the limit.

    The usual soft limit is low because `select` cannot handle more; a server with a connection for every watch needs
    more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def rng() -> random.Random:
    """A fresh generator, seeded by the operating system."""
    return random.Random()  # noqa: S311  # spreads retries out; protects no secret
