"""The exceptions of tasks.

An invalid call (`NotPicklable`, `TooLarge`) is raised where it is made. An exception of the function is raised again as
the same type, with the remote traceback as its cause. Any other end of a task is a `TaskLost`. A cancelled task raises
`concurrent.futures.CancelledError`, as all futures do.
"""

from rota.kit.errors import UserError


class NotPicklable(UserError, TypeError):
    """The function or an argument cannot be pickled; the message names it and the line of the function."""


class TooLarge(UserError, ValueError):
    """The function and its arguments exceed the size limit."""


class NotReachable(UserError, ConnectionError):
    """The cluster does not answer."""


class Refused(UserError):
    """The cluster refused the task; the message is the server's."""


class TaskLost(Exception):
    """A task that ended without a result and without an exception."""

    def __init__(self, message: str, *, task: str = "", node: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        #: The task's name; `rota logs job/NAME` shows its output.
        self.task = task
        self.node = node
        #: None if the end of its process was not observed.
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[object, ...]:
        state = {"task": self.task, "node": self.node, "exit_code": self.exit_code}
        return type(self), (str(self),), state


class TaskDied(TaskLost):
    """Its process exited or was killed by a signal before the function returned."""


class OutOfMemory(TaskDied):
    """It exceeded its memory request."""


class Evicted(TaskLost):
    """It was evicted from its node, and not retried."""


class TimedOut(TaskLost):
    """It ran longer than its `timeout` and was killed. For an expired wait see `NotDone`."""


class NotDone(TimeoutError):
    """It did not finish within the `timeout` of a wait, such as `result(timeout=...)`; it continues."""


class Deleted(TaskLost):
    """It was deleted."""


class NoResult(TaskLost):
    """It succeeded without leaving a result, or its result cannot be read."""


class WrongEnvironment(TaskLost):
    """The requested Python is missing, has another version, or lacks a module."""


class RemoteError(Exception):
    """An exception of a task whose type does not exist in this program."""

    def __init__(self, message: str, *, type_name: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name


class RemoteTraceback(Exception):
    """The remote traceback, as the cause of a task's exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text.rstrip()}\n"""'


class StepFailed(TaskLost):
    """A step of a pipeline failed, and with it the run."""

    def __init__(self, message: str, *, step: str = "", **more: object) -> None:
        super().__init__(message, **more)  # type: ignore[arg-type]
        self.step = step


class RunCancelled(TaskLost):
    """A run of a pipeline was cancelled."""
