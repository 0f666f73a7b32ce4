"""The future of a task: a `concurrent.futures.Future` that knows its task, and can be awaited.

It works with `concurrent.futures.wait`, `asyncio.wrap_future`, and code written for executors. Unlike futures of a
pool, it can be cancelled while its task runs, and found again by name.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar, cast

from rota.python import notebook_html
from rota.python.failures import NotDone, RemoteTraceback
from rota.python.remote_results import Remote, read_value

R = TypeVar("R")


class Owner(Protocol):
    """The client behind a future."""

    def cancel_task(self, name: str) -> None:
        """Start the cancellation of a task."""
        ...

    def release_task(self, name: str) -> None:
        """Delete a task and its result."""
        ...

    def task_logs(self, name: str) -> str:
        """The output of a task."""
        ...


class _LazyCondition:
    """A condition that a future uses instead of `threading.Condition`, which takes a kilobyte before any thread waits.

    Programs keep hundreds of thousands of futures, and wait in few of them.
    """

    __slots__ = ("_lock", "_waited_for")

    def __init__(self) -> None:
        self._lock: Final = threading.RLock()
        self._waited_for: threading.Condition | None = None

    def acquire(self) -> bool:
        """See `threading.Condition`."""
        return self._lock.acquire()

    def release(self) -> None:
        """See `threading.Condition`."""
        self._lock.release()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """See `threading.Condition`."""
        if self._waited_for is None:
            self._waited_for = threading.Condition(self._lock)
        return self._waited_for.wait(timeout)

    def notify_all(self) -> None:
        """See `threading.Condition`; it is created anew for threads that wait later."""
        waited_for, self._waited_for = self._waited_for, None
        if waited_for is not None:
            waited_for.notify_all()


class Future(concurrent.futures.Future[R], Generic[R]):
    """The result or exception of a task: a `concurrent.futures.Future` with additional attributes."""

    def __init__(self, owner: Owner, name: str, *, function: str = "") -> None:
        super().__init__()
        self._condition = cast("threading.Condition", _LazyCondition())
        self._owner: Final = owner
        #: The name of the Job in the cluster; `client.future(name)` finds it again, from other programs, too.
        self.name: Final = name
        #: The name of the function.
        self.function: Final = function or name
        #: The node that it runs on, or ran on last; empty until it has one.
        self.node = ""
        #: The pod of its latest attempt.
        self.pod = ""
        #: Why it does not run yet, from the scheduler or its node; empty if there is no message.
        self.why = ""
        #: The end of what a call in a leased worker has printed.
        self.printed = b""
        self._phase = "pending"
        self._done_callbacks: list[Callable[..., object]]
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
        """The remote traceback of the task's exception; None if it raised none, or is not finished."""
        if not self.done() or self.cancelled():
            return None
        problem = self.exception()
        cause = problem.__cause__ if problem is not None else None
        return cause.text if isinstance(cause, RemoteTraceback) else None

    def running(self) -> bool:
        """Whether its function is running."""
        return not self.done() and self._phase == "running"

    def cancel(self) -> bool:
        """Cancel the task, also if it runs; False if it has finished."""
        with self._cancelling:
            already = self.cancelled()
            if not super().cancel():
                return False
            if not already:
                self.set_running_or_notify_cancel()  # notifies waiting threads
                self._owner.cancel_task(self.name)
        return True

    def release(self) -> None:
        """Delete the task from the cluster, and its result if that is a local file; a result that was read stays."""
        self.cancel()
        self._owner.release_task(self.name)

    def logs(self) -> str:
        """The output of the task's latest attempt so far."""
        return self._owner.task_logs(self.name)

    def result(self, timeout: float | None = None) -> R:
        """The function's result or exception; `NotDone` says what is waited for after the timeout."""
        try:
            value = super().result(timeout)
        except TimeoutError:
            if self.done():  # an exception of the task itself
                return super().result()
            raise NotDone(self._still()) from None
        return self._fetched(value, timeout) if isinstance(value, Remote) else value

    @property
    def remote(self) -> Remote | None:
        """The result, while it is with the worker and was not read."""
        found: Any = getattr(self, "_result", None)
        return found if isinstance(found, Remote) else None

    def _fetched(self, remote: Remote, timeout: float | None) -> R:
        """Fetch a result that is with its worker; once."""
        try:
            frame = remote.fetched(timeout)
        except TimeoutError:
            raise NotDone(f"the result of {self.name} is on its way: {remote.size} bytes") from None
        value, problem = read_value(frame, self.name)
        if problem is not None:
            raise problem
        self._result = value
        return cast("R", value)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The function's exception, or None; `NotDone` says what is waited for after the timeout."""
        try:
            return super().exception(timeout)
        except TimeoutError:
            raise NotDone(self._still()) from None

    def _still(self) -> str:
        return f"{self.name} is still {self.status}{f': {self.why}' if self.why else ''}"

    def progressed(self, *, phase: str, node: str, pod: str, why: str = "", address: str = "") -> None:
        """Update the state of a task that continues; the address is that of its pod."""
        self._phase, self.node, self.pod, self.why = phase, node, pod, why

    def settle(self, value: Any = None, problem: BaseException | None = None) -> None:
        """Set the task's result, unless it was cancelled here before."""
        try:
            if problem is not None:
                self.set_exception(problem)
            else:
                self.set_result(value)
        except concurrent.futures.InvalidStateError:
            pass

    def settle_quietly(self, outcome: tuple[Any, BaseException | None]) -> bool:
        """Set the task's result if nothing is called then, so that this takes no time; whether it did."""
        with self._condition:
            if self._done_callbacks:
                return False
            self.settle(*outcome)
        return True

    def __await__(self) -> Generator[Any, None, R]:
        """Await it in an event loop; cancelling the awaiting coroutine cancels the task, too."""
        return self._awaited().__await__()

    async def _awaited(self) -> R:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        self.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
        try:
            await done.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self.cancelled():
            raise asyncio.CancelledError
        return await asyncio.to_thread(self.result) if self.remote is not None else self.result(0)

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
    """Futures in the order of completion; `NotDone` if not all finish within the timeout."""
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
    """Wait for futures; returns those that are done, and those that are not."""
    return concurrent.futures.wait(futures, timeout, return_when)


def results(futures: Iterable[Future[R]], *, on_each: Callable[[Future[R]], None] | None = None) -> list[R]:
    """The results of all futures in order; the first error is raised as soon as it occurs, and cancels the others."""
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
