"""`@rota.task`: a function that can be called locally, submitted to a cluster, or made a step of a pipeline.

    @rota.task(cpu=2, memory="1Gi", retries=2)
    def count(path: str) -> int: ...

    count("a.txt")              # locally
    count.submit("a.txt")       # in the cluster: a future
    count.map(["a.txt", ...])   # many calls

In a `@rota.pipeline` function, a call makes a step, and `count.each(...)` a step that runs once for each item. Type
checkers see the function's own parameters and return type in all of these.
"""

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from rota.python import clients, notebook_html, pipeline_builder, serialization
from rota.python.futures import Future
from rota.python.options import Options, TaskOptions
from rota.python.pipeline_builder import PipelineError, StepOptions

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """A function with its options."""

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], options: Options, *, step: StepOptions | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function: Final = function
        self.task_options: Final = options
        self._step: Final[StepOptions] = step or {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function locally; in a pipeline, add a step."""
        plan = pipeline_builder.current()
        if plan is None:
            here: Any = self.function(*args, **kwargs) if self._step.get("when", True) else None
            return cast("R", here)
        step: R = plan.add(self.function, self.task_options, args, kwargs, settings=self._step)
        return step

    def each(self, *iterables: Iterable[Any]) -> list[R]:
        """Call it once for each item: locally, or in a pipeline as a step that runs once for each."""
        plan = pipeline_builder.current()
        if plan is None:
            one: Any = self.function
            return [one(*args) for args in zip(*iterables, strict=False)] if self._step.get("when", True) else []
        steps: list[R] = plan.add_each(self.function, self.task_options, iterables, settings=self._step)
        return steps

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Submit a call to the cluster of the default client."""
        if pipeline_builder.current() is not None:
            raise PipelineError(
                f"{serialization.name_of(self.function)}.submit in a pipeline", "call it: that makes a step of it"
            )
        return clients.default().submit(self, *args, **kwargs)

    def map(self, *iterables: Iterable[Any]) -> list[Future[R]]:
        """Submit one call per item; in a pipeline the same as `each`."""
        plan = pipeline_builder.current()
        if plan is None:
            return clients.default().map(self, *iterables)
        steps: list[Future[R]] = plan.add_each(self.function, self.task_options, iterables, settings=self._step)
        return steps

    def options(self, **overrides: Unpack[TaskOptions]) -> "Task[P, R]":
        """The same function with other options."""
        return Task(self.function, self.task_options.changed(**overrides), step=self._step)

    def step(self, **overrides: Unpack[StepOptions]) -> "Task[P, R]":
        """The same function with options as a step of a pipeline: `after`, `when`, `name`, ..."""
        unknown = [one for one in overrides if one not in StepOptions.__annotations__]
        if unknown:
            known = ", ".join(StepOptions.__annotations__)
            raise PipelineError(f"a step has no option {unknown[0]}", f"there are {known}")
        return Task(self.function, self.task_options, step={**self._step, **overrides})

    def __get__(self, instance: object, owner: type | None = None) -> "Task[P, R]":
        if instance is None:
            return self
        raise TypeError(
            f"{serialization.name_of(self.function)} is a method: make a function of it that gets what it needs"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A task that another task's code refers to is pickled as its function, so that the worker does not need Rota.
        return copy.copy, (self.function,)

    def __repr__(self) -> str:
        return f"<rota.task {serialization.name_of(self.function)}>"

    def _repr_html_(self) -> str:
        given = self.task_options
        names = ("cpu", "memory", "gpu", "retries", "timeout", "priority", "queue", "gang", "python", "image")
        return notebook_html.facts(
            f"Task {serialization.name_of(self.function)}", {name: getattr(given, name) or "" for name in names}
        )


@overload
def task(function: Callable[P, R], /) -> Task[P, R]: ...


@overload
def task(**overrides: Unpack[TaskOptions]) -> Callable[[Callable[P, R]], Task[P, R]]: ...


def task(function: Callable[..., Any] | None = None, /, **overrides: Any) -> Any:
    """Make a task of a function: `@rota.task`, or with options `@rota.task(cpu=2, retries=3)`."""
    options = Options().changed(**overrides)
    if function is not None:
        return Task(function, options)
    return lambda given: Task(given, options)
