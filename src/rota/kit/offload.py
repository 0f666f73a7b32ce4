"""Computations that grow with what a client sent, kept off the event loop when the input is large.

Python threads share one interpreter, so a thread does not make such work faster: it makes it interruptible. The
interpreter switches threads every few milliseconds, and the event loop answers others in between. Small inputs are
worked on at once, because handing them over would cost more than the work.

A search for cycles among millions of values stops all threads for up to a second, and finds nothing in values that
came from JSON. Python's collector therefore rests while such work is under way.
"""

import asyncio
import contextlib
import functools
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_T = TypeVar("_T")

#: Inputs up to this size are worked on at once: some ten milliseconds of work at most.
INLINE_BYTES: Final = 16 * 1024
#: The size of an input whose size is not known and that is not small.
ALWAYS: Final = INLINE_BYTES + 1
#: The event loop competes with these for the interpreter; more of them make it slower and nothing faster.
_THREADS: Final = 2


async def run(work: Callable[[], _T], size_bytes: int) -> _T:
    """The result of `work`, whose input has this size; cancelling the wait does not stop the work."""
    if size_bytes <= INLINE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_threads(), _without_collections, work)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="offload")


def _without_collections(work: Callable[[], _T]) -> _T:
    with _collector_rests:
        return work()


class _CollectorRests(contextlib.AbstractContextManager[None]):
    """Python's collector is off while at least one thread is within, if it was on before."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._within = 0
        self._was_on = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._within:
                self._was_on = gc.isenabled()
                gc.disable()
            self._within += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if not self._within and self._was_on:
                gc.enable()


_collector_rests: Final = _CollectorRests()
