"""Moves computations on large inputs from clients off the event loop.

Python threads share one interpreter, so a thread does not make such work faster: it makes it interruptible. The
interpreter switches threads every few milliseconds, and the event loop serves other requests in between. Small inputs
are processed at once, because a handover to a thread would cost more than the work.

A garbage collection over millions of values stops all threads for up to a second, and finds no cycles in values that
came from JSON. Python's collector is therefore off while such work runs.
"""

import asyncio
import contextlib
import functools
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

#: Inputs up to this size are processed at once: some ten milliseconds of work at most.
INLINE_BYTES: Final = 16 * 1024
#: The assumed size of a large input of unknown size.
ALWAYS: Final = INLINE_BYTES + 1
#: These threads compete with the event loop for the interpreter; more of them make it slower and nothing faster.
_THREADS: Final = 2

_working: Final[set[asyncio.Future[Any]]] = set()


async def run(work: Callable[[], _T], size_bytes: int) -> _T:
    """The result of `work`, whose input has this size; cancelling the wait does not stop the work."""
    if size_bytes <= INLINE_BYTES:
        return work()
    working = asyncio.get_running_loop().run_in_executor(_threads(), _without_collections, work)
    _working.add(working)
    working.add_done_callback(_working.discard)
    return await working


def is_working() -> bool:
    """Whether work of this event loop is in a thread: a clock in virtual time must not move on before it is done."""
    loop = asyncio.get_running_loop()
    return any(one.get_loop() is loop for one in _working)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="offload")


def _without_collections(work: Callable[[], _T]) -> _T:
    with _collector_rests:
        return work()


class _CollectorRests(contextlib.AbstractContextManager[None]):
    """Turns Python's collector off while at least one thread is inside, if it was on before."""

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
