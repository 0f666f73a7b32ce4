"""What can go wrong with a task, by type, so that a program can tell one from the other.

What is wrong with the call itself (`NotPicklable`, `TooLarge`) is raised where it is made. What a task raised comes
back as what it was, with the far side's traceback as its cause; all that ends a task otherwise is a `TaskLost`, which
says how. A cancelled one raises `concurrent.futures.CancelledError`, as all futures do.
"""

from rota.kit.errors import UserError


class NotPicklable(UserError, TypeError):
    """The function or an argument cannot be sent: which one, and the line of the function."""


class TooLarge(UserError, ValueError):
    """The function and its arguments are more than can be sent this way."""


class NotReachable(UserError, ConnectionError):
    """The cluster does not answer."""


class Refused(UserError):
    """The cluster does not take the task, and what it says about that."""


class TaskLost(Exception):
    """A task that ended without returning or raising anything."""

    def __init__(self, message: str, *, task: str = "", node: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        #: Its name, by which `rota logs job/NAME` shows what it wrote.
        self.task = task
        self.node = node
        #: None if its process was never seen to end.
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[object, ...]:
        state = {"task": self.task, "node": self.node, "exit_code": self.exit_code}
        return type(self), (str(self),), state


class TaskDied(TaskLost):
    """Its process ended by itself or by a signal before the function returned."""


class OutOfMemory(TaskDied):
    """It used more memory than it had asked for."""


class Evicted(TaskLost):
    """It was taken from its node, and was not tried again."""


class TimedOut(TaskLost):
    """It ran for longer than its `timeout`, and was ended. A wait that was too short is a `NotDone`."""


class NotDone(TimeoutError):
    """It was not over within the `timeout` of a wait, as of `result(timeout=...)`; it goes on."""


class Deleted(TaskLost):
    """Somebody deleted it."""


class NoResult(TaskLost):
    """It ended well and left nothing, or what it left cannot be had."""


class WrongEnvironment(TaskLost):
    """The Python that it should run in is not there, is of another version, or lacks a module."""


class RemoteError(Exception):
    """What a task raised, where that cannot be had here: its type lives on the far side only."""

    def __init__(self, message: str, *, type_name: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name


class RemoteTraceback(Exception):
    """The far side's traceback, as the cause of what a task raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text.rstrip()}\n"""'


class StepFailed(TaskLost):
    """A step of a pipeline that failed, and with it the run."""

    def __init__(self, message: str, *, step: str = "", **more: object) -> None:
        super().__init__(message, **more)  # type: ignore[arg-type]
        self.step = step


class RunCancelled(TaskLost):
    """A run of a pipeline that somebody has cancelled."""
