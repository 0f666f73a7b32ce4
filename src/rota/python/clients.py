"""The client: submits functions to a cluster and returns futures.

    with rota.Client() as client:
        total = client.submit(sum, [1, 2, 3])
        print(total.result())

It works in scripts and notebooks: all I/O runs in a thread of the client. An exception that leaves the `with` block,
such as Ctrl-C, cancels the unfinished tasks; otherwise they continue, and can be found again by name. `AsyncClient` is
the same for programs with an event loop.
"""

import asyncio
import atexit
import contextlib
import functools
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar

from rota.client.verbs import Client as ApiClient
from rota.kit import system
from rota.python import (
    cluster_lookup,
    lease_manager,
    manifests,
    notebook_html,
    progress,
    serialization,
    streams,
    task_runner,
)
from rota.python.failures import NotDone, TooLarge
from rota.python.futures import Future
from rota.python.lease_manager import LeaseManager
from rota.python.leased_calls import LeasedCall, PackedFunction
from rota.python.loops import LoopThread
from rota.python.options import OptionError, Options
from rota.python.progress import Progress
from rota.python.serialization import Packed
from rota.python.sessions import Call, Session

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_DEFAULT: Final = Options()


class Client:
    """A connection to a cluster that runs functions."""

    def __init__(
        self,
        kubeconfig: str | os.PathLike[str] | None = None,
        *,
        context: str = "",
        server: str = "",
        namespace: str = "",
        workspace: str | os.PathLike[str] | None = None,
        durable: bool = False,
        leases: int = lease_manager.LEASES,
        idle: float = lease_manager.IDLE_S,
    ) -> None:
        """`kubeconfig` as for the command line: a file, $KUBECONFIG, or the cluster of `rota up` on this machine.

        Calls run in leased workers: at most `leases` for calls of one shape, each given back after `idle` seconds
        without calls. If `durable`, every call is a Job that outlives this program, as with the option of that name;
        `workspace` is then a folder shared by this program and all workers, for what is too large for the store.
        """
        if leases < 1 or not idle > 0:
            raise OptionError(
                f"leases={leases!r}, idle={idle!r}: there are no such leases", "write 1 or more, and seconds"
            )
        clock = system.SystemClock()
        endpoint = cluster_lookup.endpoint(kubeconfig, context=context, server=server, clock=clock)
        self.server: Final = endpoint.server
        self.namespace: Final = namespace or endpoint.namespace
        self._workspace: Final = None if workspace is None else str(Path(workspace).absolute())
        self._here: Final = cluster_lookup.is_here(endpoint)
        self._loop: Final = LoopThread("rota-client")
        self._futures: Final[weakref.WeakValueDictionary[str, Future[Any]]] = weakref.WeakValueDictionary()
        self._closed = False
        self._session: Final = Session(
            endpoint,
            namespace=self.namespace,
            results=self._workspace or manifests.RESULTS,
            name=manifests.fresh_name("python"),
            clock=clock,
            rng=system.rng(),
        )
        self._durable: Final = durable
        self._names: Final = itertools.count(1)
        self._prefix: Final = manifests.fresh_letters(6)
        self._leases: Final = LeaseManager(self, self._session, self._loop, clock=clock, most=leases, idle_s=idle)
        try:
            self._loop.call(self._session.open())
        except BaseException:
            self.close()
            raise

    # --- functions ----------------------------------------------------------------------------------------------------

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Submit a call of a function; the first one of its shape returns when the cluster has taken a lease for it."""
        plain, options = _told(function)
        if self._is_durable(options):
            call = self._call(plain, options, args, kwargs)
            self._loop.call(self._session.submit(call))
            return call.future
        packed = self._leases.function(plain)
        leased = self._leased(plain, options, packed, args, kwargs)
        self._leases.ensure(options)
        self._leases.submit(leased)
        return leased.future

    def map(self, function: Callable[..., R], /, *iterables: Iterable[Any]) -> list[Future[R]]:
        """Submit one call per item; returns the futures in order.

        Returns at once: an error while a call is submitted is raised by its future.
        """
        plain, options = _told(function)
        if self._is_durable(options):
            calls = [self._call(plain, options, args, {}) for args in zip(*iterables, strict=False)]
            for call in calls:
                self._loop.begin(self._session.submit(call)).add_done_callback(
                    functools.partial(_tell_refusal, call.future)
                )
            return [call.future for call in calls]
        packed = self._leases.function(plain)
        futures: list[Future[R]] = []
        for args in zip(*iterables, strict=False):
            leased = self._leased(plain, options, packed, args, {})
            self._leases.submit(leased)
            futures.append(leased.future)
        return futures

    def imap(
        self, function: Callable[..., R], /, *iterables: Iterable[Any], window: int = 10_000, ordered: bool = True
    ) -> Iterator[R]:
        """The results of one call per item, as an iterator: at most `window` calls are unfinished or unread at a time.

        So iterables may be of any length. Results come in the order of the items, or as they are finished if not
        `ordered`. The first exception is raised; that and an end of the iteration cancel the calls in between.
        """
        return streams.results(self, function, zip(*iterables, strict=False), window=window, ordered=ordered)

    def progress(self) -> Progress:
        """How far the calls in leased workers are."""
        return self._loop.call(self._progress())

    def end_actor(self, options: Options) -> None:
        """Give back the worker of an actor; see `actors`."""
        if not self._closed:
            self._loop.call(self._leases.end_pool(options))

    async def _progress(self) -> Progress:
        return progress.of(self._leases)

    def future(self, name: str) -> Future[Any]:
        """The future of a task that was submitted before, perhaps by another program."""
        known = self._futures.get(name)
        if known is not None:
            return known
        return self._loop.call(self._session.adopt(name, lambda function: self._future(name, function)))

    def ask(
        self,
        work: Callable[[ApiClient], Coroutine[Any, Any, T]],
        *,
        timeout: float | None = None,
        patient: bool = False,
    ) -> T:
        """Run an API operation; `NotDone` if it takes longer than the timeout.

        If `patient`, requests are retried until then while the server is away or busy. `work` must only read in that
        case.
        """

        async def asked() -> T:
            try:
                async with asyncio.timeout(timeout):
                    with self._session.telling():
                        if patient:
                            return await self._session.patiently(work)
                        return await work(self._session.client)
            except TimeoutError:
                raise NotDone(f"not done within {timeout:g} s; it goes on") from None

        return self._loop.call(asked())

    def _is_durable(self, options: Options) -> bool:
        return self._durable or options.durable or bool(options.gang)

    def _leased(
        self,
        function: Callable[..., Any],
        options: Options,
        packed: PackedFunction,
        args: Iterable[Any],
        kwargs: dict[str, Any],
    ) -> LeasedCall:
        stem = manifests.cleaned(options.name or getattr(function, "__name__", "") or packed.name)
        future = self._future(f"{stem}-{self._prefix}{next(self._names)}", packed.name)
        return self._leases.call(future, packed, function, args, kwargs, options)

    def _call(self, plain: Callable[..., Any], options: Options, args: Iterable[Any], kwargs: dict[str, Any]) -> Call:
        shown = serialization.name_of(plain)
        name = manifests.fresh_name(options.name or getattr(plain, "__name__", "") or shown)
        packed = Packed(name=shown, content=serialization.pack(plain, tuple(args), kwargs, name=shown))
        return Call(future=self._future(name, shown), packed=packed, options=options, file=self._file(name, packed))

    def _future(self, name: str, function: str) -> Future[Any]:
        made = Future[Any](self, name, function=function)
        self._futures[name] = made
        return made

    def _file(self, name: str, packed: Packed) -> str:
        """The file for a call that is too large for the store; empty for a smaller one."""
        if len(packed.content) <= manifests.MOST_STORED:
            return ""
        folder = self._workspace or (task_runner.own_folder(manifests.RESULTS) if self._here else "")
        if not folder:
            size = f"{len(packed.content) / 2**20:.1f} MiB"
            raise TooLarge(
                f"{packed.name} and its arguments are {size}, and the store takes {manifests.MOST_STORED // 1024} KiB",
                "name a folder that all workers see: rota.Client(workspace=...), or pass the path of a file",
            )
        return task_runner.put_away(packed.content, folder, name)[0]

    # --- requests of futures ------------------------------------------------------------------------------------------

    def cancel_task(self, name: str) -> None:
        """See `futures.Owner`."""
        if not self._closed:
            self._loop.begin(self._cancelled(name))

    async def _cancelled(self, name: str) -> None:
        if self._leases.has(name):
            self._leases.cancel(name)
        else:
            self._session.cancel(name)

    def release_task(self, name: str) -> None:
        """See `futures.Owner`."""
        if not name.rpartition("-")[2].startswith(self._prefix):
            self._loop.call(self._session.release(name))

    def task_logs(self, name: str) -> str:
        """See `futures.Owner`."""
        future = self._futures.get(name)
        if future is not None and future.name.rpartition("-")[2].startswith(self._prefix):
            text = future.printed if future.done() else self._loop.call(self._leases.output(name))
            return text.decode(errors="replace")
        return self._loop.call(self._session.logs(name, future.pod if future is not None else ""))

    # --- closing ------------------------------------------------------------------------------------------------------

    def cancel_all(self) -> int:
        """Cancel all unfinished tasks of this client; returns their number."""
        return sum(future.cancel() for future in list(self._futures.values()) if not future.done())

    def close(self) -> None:
        """Disconnect: leases are given back, and unfinished calls in them fail; durable ones continue."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(RuntimeError):
            self._loop.call(self._leases.close())
            self._loop.call(self._session.close())
        self._loop.close()

    def __enter__(self) -> Self:
        """Inside the block, tasks and pipelines without an explicit client use this one."""
        with _lock:
            _entered.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _lock:
            _entered.remove(self)
        if kind is not None:
            self.cancel_all()
        self.close()

    def __repr__(self) -> str:
        return f"<rota.Client of {self.server}, namespace {self.namespace}{', closed' if self._closed else ''}>"

    def _repr_html_(self) -> str:
        going = [one for one in self._futures.values() if not one.done()]
        known = {"server": self.server, "namespace": self.namespace, "unfinished tasks": len(going)}
        return notebook_html.facts("Rota client", known)


def _told(function: Callable[..., Any]) -> tuple[Callable[..., Any], Options]:
    """A function and its options, of a task or of a plain function."""
    options = getattr(function, "task_options", None)
    if isinstance(options, Options):
        return getattr(function, "function", function), options
    return function, _DEFAULT


def _tell_refusal(future: Future[Any], sent: Any) -> None:
    problem = None if sent.cancelled() else sent.exception()
    if problem is not None:
        future.settle(problem=problem)


class AsyncClient:
    """The client for programs with an event loop: `future = await client.submit(fn, 1)`, then `await future`."""

    def __init__(self, kubeconfig: str | os.PathLike[str] | None = None, **where: Any) -> None:
        """As `Client`; connects with `async with`, or with the first call."""
        self._make: Final = functools.partial(Client, kubeconfig, **where)
        self._client: Client | None = None
        self._making: Final = asyncio.Lock()

    async def _made(self) -> Client:
        async with self._making:
            if self._client is None:
                self._client = await asyncio.to_thread(self._make)
            return self._client

    async def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Submit a call of a function."""
        client = await self._made()
        return await asyncio.to_thread(functools.partial(client.submit, function, *args, **kwargs))

    async def map(self, function: Callable[..., R], /, *iterables: Iterable[Any]) -> list[Future[R]]:
        """Submit one call per item."""
        client = await self._made()
        return await asyncio.to_thread(client.map, function, *iterables)

    async def future(self, name: str) -> Future[Any]:
        """The future of a task that was submitted before."""
        client = await self._made()
        return await asyncio.to_thread(client.future, name)

    async def close(self) -> None:
        """Disconnect; tasks continue."""
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    async def __aenter__(self) -> Self:
        await self._made()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None and self._client is not None:
            self._client.cancel_all()
        await self.close()


# --- the default client -----------------------------------------------------------------------------------------------

#: Clients of open `with` blocks, the innermost last; and the default client that was created without one.
_entered: Final[list[Client]] = []
_made: Final[list[Client]] = []
_lock: Final = threading.Lock()


def default() -> Client:
    """The client to use without an explicit one: that of the innermost `with` block, or one for the whole process."""
    with _lock:
        if _entered:
            return _entered[-1]
        if not _made:
            _made.append(Client())
            atexit.register(_end)
        return _made[0]


def _end() -> None:
    """Close the default client; a program that ends by Ctrl-C cancels its tasks."""
    for client in _made:
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            client.cancel_all()
        client.close()
