"""The future of a task: a `concurrent.futures.Future` that knows where its task is, and can be awaited.

So it goes wherever such futures go: `concurrent.futures.wait`, `asyncio.wrap_future`, code written for executors.
Unlike those of a pool, it can be cancelled while its task runs, and found again by its name.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

from rota.python import notebook_html
from rota.python.failures import NotDone, RemoteTraceback

R = TypeVar("R")


class Owner(Protocol):
    """Whoever a future's task is asked from."""

    def cancel_task(self, name: str) -> None:
        """Have a task ended, and go on."""
        ...

    def release_task(self, name: str) -> None:
        """Remove all that is left of a task."""
        ...

    def task_logs(self, name: str) -> str:
        """What a task has written."""
        ...


class Future(concurrent.futures.Future[R], Generic[R]):
    """What a task will return, or raise: a `concurrent.futures.Future` with all that those have."""

    def __init__(self, owner: Owner, name: str, *, function: str = "") -> None:
        super().__init__()
        self._owner: Final = owner
        #: The name of the Job in the cluster; `client.future(name)` finds it again, from other programs, too.
        self.name: Final = name
        #: What the function is called.
        self.function: Final = function or name
        #: The node that it runs on, or ran on last; empty until it has one.
        self.node = ""
        #: The pod of its latest try.
        self.pod = ""
        #: Why it does not run yet, as the scheduler or its node says; empty if there is nothing to say.
        self.why = ""
        self._phase = "pending"
        self._cancelling: Final = threading.RLock()

    @property
    def status(self) -> str:
        """`pending`, `running`, `succeeded`, `failed` or `cancelled`."""
        if self.cancelled():
            return "cancelled"
        if not self.done():
            return self._phase
        return "succeeded" if self.exception() is None else "failed"

    @property
    def traceback(self) -> str | None:
        """The far side's traceback of what the task raised; None if it raised nothing, or is not over."""
        if not self.done() or self.cancelled():
            return None
        problem = self.exception()
        cause = problem.__cause__ if problem is not None else None
        return cause.text if isinstance(cause, RemoteTraceback) else None

    def running(self) -> bool:
        """Whether its function is being called."""
        return not self.done() and self._phase == "running"

    def cancel(self) -> bool:
        """Have the task ended, also if it runs; False if it is over already."""
        with self._cancelling:
            already = self.cancelled()
            if not super().cancel():
                return False
            if not already:
                self.set_running_or_notify_cancel()  # those who wait are told only by this
                self._owner.cancel_task(self.name)
        return True

    def release(self) -> None:
        """Remove the task from the cluster, and its result if that is a file here; what was read stays."""
        self.cancel()
        self._owner.release_task(self.name)

    def logs(self) -> str:
        """What the task has written so far, in its latest try."""
        return self._owner.task_logs(self.name)

    def result(self, timeout: float | None = None) -> R:
        """What the function returned, or what it raised; `NotDone` says what is waited for after the timeout."""
        try:
            return super().result(timeout)
        except TimeoutError:
            if self.done():  # it is the task's own
                return super().result()
            raise NotDone(self._still()) from None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the function raised, or None; `NotDone` says what is waited for after the timeout."""
        try:
            return super().exception(timeout)
        except TimeoutError:
            raise NotDone(self._still()) from None

    def _still(self) -> str:
        return f"{self.name} is still {self.status}{f': {self.why}' if self.why else ''}"

    def progressed(self, *, phase: str, node: str, pod: str, why: str = "") -> None:
        """Take in what the cluster says about a task that goes on."""
        self._phase, self.node, self.pod, self.why = phase, node, pod, why

    def settle(self, value: Any = None, problem: BaseException | None = None) -> None:
        """Take in how the task ended, unless it was cancelled here before."""
        try:
            if problem is not None:
                self.set_exception(problem)
            else:
                self.set_result(value)
        except concurrent.futures.InvalidStateError:
            pass

    def __await__(self) -> Generator[Any, None, R]:
        """Wait for it in an event loop; who is cancelled meanwhile cancels the task, too."""
        return asyncio.wrap_future(self).__await__()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"the future of {self.name} cannot be sent: pass its result(), or make a pipeline of both")

    def __repr__(self) -> str:
        return f"<rota.Future {self.name}: {self.status}{f' on {self.node}' if self.node else ''}>"

    def _repr_html_(self) -> str:
        facts = {"function": self.function, "status": self.status, "node": self.node, "why": self.why}
        if self.status == "failed":
            facts["error"] = repr(self.exception())
        return notebook_html.facts(f"Future {self.name}", facts)


def as_completed(futures: Iterable[Future[R]], *, timeout: float | None = None) -> Iterator[Future[R]]:
    """Futures as they are done; `NotDone` when not all of them are in time."""
    done: Iterator[Any] = concurrent.futures.as_completed(futures, timeout)
    while True:
        try:
            future = next(done)
        except StopIteration:
            return
        except TimeoutError as problem:
            raise NotDone(str(problem)) from None
        yield future


def wait(
    futures: Iterable[Future[R]], *, timeout: float | None = None, return_when: str = concurrent.futures.ALL_COMPLETED
) -> "concurrent.futures._base.DoneAndNotDoneFutures[R]":
    """Wait for futures; those that are done, and those that are not."""
    return concurrent.futures.wait(futures, timeout, return_when)


def results(futures: Iterable[Future[R]], *, on_each: Callable[[Future[R]], None] | None = None) -> list[R]:
    """The results of all, in their order; the first error is raised as soon as it is known, and cancels the others."""
    listed = list(futures)
    try:
        for future in as_completed(listed):
            if on_each is not None:
                on_each(future)
            future.result()
    except BaseException:
        for future in listed:
            future.cancel()
        raise
    return [future.result() for future in listed]
