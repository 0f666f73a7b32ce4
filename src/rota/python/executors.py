"""A `concurrent.futures.Executor`: `rota.Executor()` instead of a pool."""

import concurrent.futures
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, Unpack

from rota.python import clients
from rota.python.clients import Client
from rota.python.futures import Future
from rota.python.options import Options, TaskOptions
from rota.python.tasks import Task

P = ParamSpec("P")
R = TypeVar("R")


class Executor(concurrent.futures.Executor):
    """Runs calls in a cluster; all have the same options."""

    def __init__(self, client: Client | None = None, **overrides: Unpack[TaskOptions]) -> None:
        """Without a client, the default client is used."""
        self._client: Final = client or clients.default()
        self._options: Final = Options().changed(**overrides)
        self._futures: Final[set[Future[Any]]] = set()
        self._shut = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Submit a call of a function."""
        if self._shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        wanted = fn if isinstance(fn, Task) else Task(fn, self._options)
        future = self._client.submit(wanted, *args, **kwargs)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls; wait for unfinished ones, or cancel them."""
        self._shut = True
        going = list(self._futures)
        if cancel_futures:
            for future in going:
                future.cancel()
        if wait:
            concurrent.futures.wait(going)
