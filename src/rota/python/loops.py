"""An event loop in its own thread, for synchronous callers.

A notebook has a running loop, a script has none; this works in both. A call that is interrupted, such as by Ctrl-C, is
cancelled in the loop as well.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines for threads without an event loop."""

    def __init__(self, name: str) -> None:
        self._loop: Final = asyncio.new_event_loop()
        # A daemon thread, so that a program that does not close its client can exit.
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, _T]) -> "concurrent.futures.Future[_T]":
        """Start a coroutine without waiting."""
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("this client is closed; make another one")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def soon(self, work: Callable[[], object]) -> None:
        """Let the loop call a function; `RuntimeError` if it is closed."""
        self._loop.call_soon_threadsafe(work)

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine and wait for its result."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("the client's own thread cannot wait for itself; use another thread for that")
        begun = self.begin(work)
        try:
            return begun.result()
        except BaseException:
            begun.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and cancel its tasks."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()
