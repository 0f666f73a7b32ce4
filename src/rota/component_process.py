"""What every process of a component needs: an event loop, an API client, a supervisor, signals, and checked rights.

Apart from `assembly`, which imports every component: a scheduler that starts with seven others on a few cores should
not load the code of all of them first.
"""

import asyncio
import contextlib
import gc
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, Final, TypeVar

import uvloop

from rota.client import client_factory, rights
from rota.client.endpoints import Endpoint
from rota.client.rights import Right
from rota.client.verbs import Client
from rota.kit import system, tasks
from rota.kit.tasks import Supervisor

_T = TypeVar("_T")
#: The manifests with the roles of each component.
ROLES: Final = {
    "scheduler": "packaging/manifests/scheduler.yaml",
    "extender": "packaging/manifests/extender.yaml",
    "spot controller": "packaging/manifests/spot-controller.yaml",
    "spot agent": "packaging/manifests/spot-agent.yaml",
    "batch controller": "docs/examples/batch-controller-roles.yaml",
    "resolver": "docs/examples/resolver.yaml",
    "forecaster": "docs/examples/forecaster-roles.yaml",
}
#: Allocations minus deallocations of containers before a collection of the youngest generation (`gc.set_threshold`).
_GARBAGE_AFTER: Final = 20_000


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end on uvloop."""
    # Requests create few reference cycles, but many short-lived containers: with Python's default threshold, garbage
    # collection takes a tenth of a server's time.
    gc.set_threshold(_GARBAGE_AFTER, *gc.get_threshold()[1:])
    return uvloop.run(work)


async def checked(client: Client, part: str, used: Iterable[Right]) -> frozenset[Right]:
    """Check the rights of a component; returns the missing ones that are optional."""
    return await rights.check(client, used, part=part, manifest=ROLES[part])


@contextlib.asynccontextmanager
async def beside(endpoint: Endpoint, name: str) -> AsyncIterator[tuple[Client, Supervisor, asyncio.Event]]:
    """What a client component needs: an API client, a supervisor, and an event that a signal sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    clock, rng = system.SystemClock(), system.rng()
    async with (
        client_factory.to_server(endpoint, clock=clock, rng=rng) as client,
        tasks.Supervisor(name, clock=clock, rng=rng) as supervisor,
    ):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        yield client, supervisor, stop


def passing_identity() -> str:
    """A unique identity for this process."""
    return f"{socket.gethostname()}_{secrets.token_hex(8)}"
