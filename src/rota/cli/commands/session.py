"""Runs a command's requests: one connection, one event loop, and errors that name the remedy.

Every command uses `at`. Errors of the server and of the connection become one line. SIGTERM and SIGHUP cancel the work
as Ctrl-C does, so that it can clean up, and so does a closed output pipe.
"""

import asyncio
import contextlib
import errno
import ipaddress
import os
import signal
import stat
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click

from rota.api import errors as api_errors
from rota.cli import output
from rota.client import client_factory
from rota.client.endpoints import Endpoint
from rota.client.transports.transport import TransportError, Unreachable
from rota.client.verbs import Client, Settings
from rota.kit import errors, logs, system

_T = TypeVar("_T")
#: The exit status that a shell reports for a program ended by SIGPIPE.
_READER_GONE: Final = 141
_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


def at(endpoint: Endpoint, work: Callable[[Client], Awaitable[_T]]) -> _T:
    """Run an operation with a client of the server."""
    logs.configure(level="error")

    async def connected() -> _T:
        settings = Settings(on_warning=_warn)
        clock, rng = system.SystemClock(), system.rng()
        async with client_factory.to_server(endpoint, clock=clock, rng=rng, settings=settings) as client:
            return await work(client)

    with telling(endpoint):
        return run(connected())


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end, or until a signal arrives, or until the output pipe is closed."""
    codes: list[int] = []

    async def heeding() -> _T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop(code: int) -> None:
            codes.append(code)
            task.cancel()

        def abandoned(pipe: int) -> None:
            loop.remove_reader(pipe)
            stop(_READER_GONE)

        for number in _SIGNALS:
            # Under nohup, SIGHUP stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, stop, 128 + number)
        pipe = _pipe()
        if pipe is not None:
            # The writing end of a pipe is never readable: an event means that the reader has closed it.
            loop.add_reader(pipe, abandoned, pipe)
        return await work

    try:
        return asyncio.run(heeding())
    except asyncio.CancelledError:
        raise click.exceptions.Exit(codes[0]) from None


def _pipe() -> int | None:
    """Standard output, if it is a pipe: without writes a process does not notice that the reader has closed it."""
    with contextlib.suppress(OSError, ValueError):
        number = sys.stdout.fileno()
        if stat.S_ISFIFO(os.fstat(number).st_mode):
            return number
    return None


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run several coroutines concurrently; the first error cancels the others, and is raised unchanged."""
    under_way = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*under_way)
    finally:
        for one in under_way:
            one.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


@contextlib.contextmanager
def telling(endpoint: Endpoint) -> Iterator[None]:
    """Turn errors of the server and of the connection into messages with a remedy."""
    try:
        yield
    except Unreachable as error:
        raise errors.UserError(f"{endpoint.server} does not answer: {_cause(error)}", _awakening(endpoint)) from error
    except TransportError as error:
        raise errors.UserError(f"{endpoint.server}: {error}", "try again") from error
    except api_errors.Unauthorized as error:
        said = str(error).removeprefix("Unauthorized: ")
        remedy = "" if "expired" in said else "is this the kubeconfig that it wrote, or an older one?"
        raise errors.UserError(f"{endpoint.server} does not accept your credentials: {said}", remedy) from error
    except api_errors.NotFound as error:
        known = error.details is not None and error.details.kind and error.details.name
        remedy = f"see 'rota get {error.details.kind}'" if error.details is not None and known else ""
        raise errors.UserError(refusal(error), remedy) from error
    except api_errors.ApiError as error:
        raise errors.UserError(refusal(error)) from error


def refusal(error: api_errors.ApiError) -> str:
    """The server's message, with the invalid fields if it does not name them."""
    fields = [f"{cause.field}: {cause.message}" for cause in error.causes if cause.field not in error.message]
    return "; ".join([" ".join(error.message.split()), *fields])


def _warn(text: str) -> None:
    """Print a server's warning: `299 - "what it says"`."""
    _, quote, said = text.partition('"')
    output.note(f"warning: {said.removesuffix(quote) if quote else text}")


def _cause(error: Unreachable) -> str:
    problem = error.__cause__
    while problem is not None:
        if isinstance(problem, OSError) and problem.errno is not None and problem.errno in errno.errorcode:
            return os.strerror(problem.errno)
        problem = getattr(problem, "os_error", None) or problem.__cause__
    return str(error)


def _awakening(endpoint: Endpoint) -> str:
    host = urlsplit(endpoint.server).hostname or ""
    with contextlib.suppress(ValueError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return "is `rota up` running?"
    return "is its master running, and can this machine reach it?"
