"""`@rota.task`: a function that can be called here, or sent to a cluster.

    @rota.task(cpu=2, memory="1Gi", retries=2)
    def count(path: str) -> int: ...

    count("a.txt")              # here
    count.submit("a.txt")       # in the cluster: a future
    count.map(["a.txt", ...])   # many of them

Type checkers see the function's own parameters and what it returns in all of these.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, ParamSpec, TypeVar, Unpack, overload

from rota.python import clients, pages
from rota.python.futures import Future
from rota.python.options import Options, Wishes

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A function with what it asks for."""

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        functools.update_wrapper(self, function)
        self.function: Final = function
        self.task_options: Final = options

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here."""
        return self.function(*args, **kwargs)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Have it called in the cluster, by the client of those who name none."""
        return clients.default().submit(self, *args, **kwargs)

    def map(self, *iterables: Iterable[Any]) -> list[Future[R]]:
        """Have it called in the cluster once for each item."""
        return clients.default().map(self, *iterables)

    def options(self, **wishes: Unpack[Wishes]) -> "Task[P, R]":
        """The same function with other options."""
        return Task(self.function, self.task_options.changed(**wishes))

    def __get__(self, instance: object, owner: type | None = None) -> "Task[P, R]":
        if instance is None:
            return self
        raise TypeError(f"{self.function.__qualname__} is a method: make a function of it that gets what it needs")

    def __reduce__(self) -> tuple[Any, ...]:
        return Task, (self.function, self.task_options)

    def __repr__(self) -> str:
        return f"<rota.task {self.function.__qualname__}>"

    def _repr_html_(self) -> str:
        given = self.task_options
        names = ("cpu", "memory", "gpu", "retries", "timeout", "priority", "queue", "python", "image")
        return pages.facts(f"Task {self.function.__qualname__}", {name: getattr(given, name) or "" for name in names})


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(**wishes: Unpack[Wishes]) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(function: Callable[..., Any] | None = None, /, **wishes: Any) -> Any:
    """Make a task of a function: `@rota.task`, or with options `@rota.task(cpu=2, retries=3)`."""
    options = Options().changed(**wishes)
    if function is not None:
        return Task(function, options)
    return lambda given: Task(given, options)
