"""Supervised background tasks.

A `Supervisor` starts named tasks, logs the crash of any of them with its traceback, and then does what the task's
`OnCrash` says. Nothing runs after `close`: it cancels every task and waits for all of them to end. A supervisor catches
any exception; elsewhere an unexpected error crashes its task and ends here.
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from rota.kit import logs
from rota.kit.backoff import Backoff, Policy, Rng
from rota.kit.clock import Clock

log = logs.get(__name__)

#: How long `close` waits before it logs the tasks that have not ended.
_PATIENCE_S: Final = 10.0


class OnCrash(enum.Enum):
    """What a supervisor does after a task crashed."""

    #: Run it again after a backoff, as often as needed; a long run without a crash resets the backoff.
    RESTART = "restart"
    #: Stop every task of the supervisor; `wait` and `close` raise `TaskCrashedError`.
    FAIL = "fail"
    #: Only log it.
    IGNORE = "ignore"


class TaskCrashedError(Exception):
    """A task marked `OnCrash.FAIL` crashed; the cause is attached."""

    def __init__(self, supervisor: str, task: str) -> None:
        super().__init__(f"task {task} of {supervisor} crashed")
        self.task = task


class Supervisor:
    """Owns named background tasks.

    Used as `async with Supervisor("scheduler", clock=..., rng=...) as supervisor`: start tasks, then await `wait()` or
    do other work. Leaving the block closes the supervisor, and raises `TaskCrashedError` if a task marked
    `OnCrash.FAIL` had crashed.
    """

    def __init__(self, name: str, *, clock: Clock, rng: Rng, backoff: Policy | None = None) -> None:
        self.name = name
        self._clock = clock
        self._rng = rng
        self._policy = backoff or Policy()
        #: By name, in the order of their start. Only live tasks: a finished one removes itself.
        self._tasks: dict[str, asyncio.Task[None]] = {}
        #: Set whenever `_tasks` may have become empty or the supervisor failed.
        self._changed = asyncio.Event()
        self._closing = False
        self._failure: TaskCrashedError | None = None

    @property
    def running(self) -> tuple[str, ...]:
        """Names of the tasks that have not ended, in the order of their start."""
        return tuple(self._tasks)

    @property
    def failure(self) -> TaskCrashedError | None:
        """Why the supervisor failed, if it did."""
        return self._failure

    def start(self, name: str, run: Callable[[], Awaitable[None]], *, on_crash: OnCrash = OnCrash.RESTART) -> None:
        """Run `run()` in the background under a unique name; returning ends the task, raising is a crash."""
        if self._closing:
            raise RuntimeError(f"{self.name} is closing and takes no new task ({name})")
        if name in self._tasks:
            raise ValueError(f"{self.name} already runs a task named {name}")
        task = asyncio.create_task(self._supervise(name, run, on_crash), name=f"{self.name}/{name}")
        self._tasks[name] = task
        task.add_done_callback(lambda ended: self._forget(name, ended))

    async def stop(self, name: str) -> None:
        """Cancel one task and wait for its end; a name that does not run counts as stopped."""
        if name in self._tasks:
            await self._end({name: self._tasks[name]})

    async def wait(self) -> None:
        """Return when no task is left; raise `TaskCrashedError` as soon as the supervisor fails."""
        while self._tasks and self._failure is None:
            self._changed.clear()
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Cancel every task, the youngest first, and wait until all have ended. May be called twice."""
        self._closing = True
        await self._end(dict(self._tasks))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
        if self._failure is not None and error is None:
            raise self._failure

    async def _end(self, tasks: dict[str, asyncio.Task[None]]) -> None:
        if asyncio.current_task() in tasks.values():
            raise RuntimeError(f"a task of {self.name} cannot wait for its own end: return or raise instead")
        for task in reversed(tasks.values()):
            task.cancel()
        while pending := [task for task in tasks.values() if not task.done()]:
            try:
                await self._clock.wait_for(asyncio.wait(pending), _PATIENCE_S)
            except TimeoutError:
                stuck = [task.get_name() for task in pending if not task.done()]
                log.warning("cancelled tasks have not ended", supervisor=self.name, tasks=stuck)
        # Their done-callbacks run in the next iteration of the event loop; after `close` the supervisor must be empty.
        for name, task in tasks.items():
            self._forget(name, task)

    async def _supervise(self, name: str, run: Callable[[], Awaitable[None]], on_crash: OnCrash) -> None:
        backoff = Backoff(self._policy, self._rng)
        while True:
            started = self._clock.monotonic()
            try:
                await run()
            except asyncio.CancelledError as cancelled:
                # Either this task was cancelled, or an awaitable inside it was cancelled by itself.
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                error: BaseException = cancelled
            except Exception as crash:  # noqa: BLE001  # a supervisor handles every crash
                error = crash
            else:
                return
            if on_crash is not OnCrash.RESTART:
                log.exception("task crashed", error=error, supervisor=self.name, task=name, then=on_crash.value)
                if on_crash is OnCrash.FAIL:
                    self._fail(name, error)
                return
            if self._clock.monotonic() - started > self._policy.cap_s:
                backoff.reset()
            delay = backoff.next()
            log.exception(
                "task crashed",
                error=error,
                supervisor=self.name,
                task=name,
                failures=backoff.failures,
                restart_in_s=round(delay, 3),
            )
            # The traceback would keep the crashed run's frames alive during the pause.
            del error
            await self._clock.sleep(delay)

    def _fail(self, name: str, error: BaseException) -> None:
        if self._failure is None:
            self._failure = TaskCrashedError(self.name, name)
            self._failure.__cause__ = error
        self._closing = True
        for other, task in reversed(self._tasks.items()):
            if other != name:
                task.cancel()
        self._changed.set()

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        self._changed.set()
