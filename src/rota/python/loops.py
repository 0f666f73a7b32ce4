"""An event loop in a thread of its own, so that scripts and notebooks call what is asynchronous as if it were not.

A notebook has a loop that runs already, and a script has none; neither is asked. A call that is interrupted, by Ctrl-C
for one, is cancelled in the loop as well.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines for threads that have no event loop."""

    def __init__(self, name: str) -> None:
        self._loop: Final = asyncio.new_event_loop()
        # A daemon: a program that forgets to close its client ends all the same.
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def begin(self, work: Coroutine[Any, Any, _T]) -> "concurrent.futures.Future[_T]":
        """Have something done, and go on."""
        if not self._thread.is_alive():
            work.close()
            raise RuntimeError("this client is closed; make another one")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Have something done, and wait for it."""
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
        """End the loop, with what still runs in it."""
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
