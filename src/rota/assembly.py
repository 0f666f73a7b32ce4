"""The one place that builds parts and plugs them together.

Everything else takes what it needs as arguments; here the real clock, real randomness and real databases come in. The
command line and the simulator ask this module for running parts and know nothing of how they are made.
"""

import asyncio
import contextlib
import secrets
import signal
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from rota.apiserver import assembling, serving
from rota.client import connecting
from rota.client.elections.elector import Election, LeaderElector
from rota.client.endpoints import Endpoint
from rota.client.verbs import Client
from rota.controllers.event_expiry import EventExpiry
from rota.controllers.garbage import GarbageCollector
from rota.controllers.namespaces import NamespaceController
from rota.controllers.resource_quotas import QuotaController
from rota.controllers.service_accounts import ServiceAccountController
from rota.controllers.terminations import TerminationController
from rota.kit import errors, logs, system, tasks
from rota.scheduler import builtin, loading
from rota.scheduler.loading import Loaded
from rota.scheduler.service import Scheduler
from rota.store import archive, opening
from rota.store.contract import Store
from rota.store.upkeep import Compactor

log = logs.get(__name__)

_T = TypeVar("_T")


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Run asynchronous work to its end, on the event loop that the product runs on."""
    return uvloop.run(work)


async def open_store(url: str, *, create: bool = True) -> Store:
    """The store at `url`; without `create`, one that is not there is an error and nothing is written."""
    return await opening.open_store(url, time=system.SystemClock(), chance=system.chance(), create=create)


async def backup(url: str, path: Path, *, progress: Callable[[int], None]) -> dict[str, int]:
    """Write the store at `url` to a file; how many entries, their revision, the file's size."""
    store = await open_store(url, create=False)
    try:
        summary = await archive.backup(store, path, time=system.SystemClock(), progress=progress)
    finally:
        await store.close()
    return _as_dict(summary)


async def restore(path: Path, url: str) -> dict[str, int]:
    """Fill the store at `url` from a file; how many entries, the store's new revision, the file's size."""
    # Before the store is touched, which opening it may do.
    await asyncio.to_thread(archive.verify, path)
    store = await open_store(url)
    try:
        summary = await archive.restore(store, path)
    finally:
        await store.close()
    return _as_dict(summary)


async def run_local(
    url: str, *, http_port: int | None, conflict_check: bool, ready: Callable[[dict[str, str]], None]
) -> None:
    """Run all parts on the store at `url` until a signal asks to stop; `ready` is told what runs where.

    The API is served without TLS, on loopback, and only if there is an `http_port`; 0 takes a free one.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    clock, chance = system.SystemClock(), system.chance()
    async with contextlib.AsyncExitStack() as parts:
        store = await open_store(url)
        parts.push_async_callback(store.close)
        # Not before: who waits for a database that does not answer may give up at once.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        supervisor = await parts.enter_async_context(tasks.Supervisor("rota", clock=clock, chance=chance))
        supervisor.start("compactor", Compactor(store, time=clock).run)
        facts = {"store": logs.redact_url(url)}
        if http_port is not None:
            facts["api"] = await _serve_api(parts, store, http_port, conflict_check=conflict_check)
        ready(facts)
        await stop.wait()


async def _serve_api(parts: contextlib.AsyncExitStack, store: Store, port: int, *, conflict_check: bool) -> str:
    """An API server on loopback and the controllers that keep its promises; the server's address."""
    clock, chance = system.SystemClock(), system.chance()
    server = assembling.server(store, clock=clock, chance=chance, conflict_check=conflict_check)
    app = await parts.enter_async_context(server)
    try:
        served = await parts.enter_async_context(serving.serve(app, port=port))
    except OSError as problem:
        raise errors.UserError(
            f"cannot listen on port {port}: {problem.strerror}", "choose another, or 0 for a free one"
        ) from problem
    client = await parts.enter_async_context(connecting.to_application(app, clock=clock, chance=chance))
    supervisor = await parts.enter_async_context(tasks.Supervisor("leader", clock=clock, chance=chance))
    # Several processes on one store run the same controllers: one of them at a time.
    election = Election(name="rota-controllers", identity=f"{socket.gethostname()}_{secrets.token_hex(8)}")
    elector = LeaderElector(client, election, clock=clock, chance=chance)
    supervisor.start("controllers", lambda: elector.run(lambda _: _run_controllers(client)))
    supervisor.start("scheduler", _scheduler(client, loading.default(builtin.registry())).run)
    return served.url


async def run_scheduler(
    endpoint: Endpoint,
    loaded: Loaded,
    *,
    reread: Callable[[], Loaded],
    elect: bool = True,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Schedule at an API server until a signal asks to stop; SIGHUP has the configuration read again."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    clock, chance = system.SystemClock(), system.chance()
    async with (
        connecting.to_server(endpoint, clock=clock, chance=chance) as client,
        tasks.Supervisor("scheduler", clock=clock, chance=chance) as supervisor,
    ):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        scheduler = _scheduler(client, loaded, elect=elect)
        loop.add_signal_handler(signal.SIGHUP, lambda: _reload(scheduler, reread))
        supervisor.start("scheduler", scheduler.run)
        ready(f"Scheduling at {endpoint.server} for {', '.join(loaded.configuration.profiles)}. Ctrl-C stops it.")
        await stop.wait()


def _scheduler(client: Client, loaded: Loaded, *, elect: bool = True) -> Scheduler:
    identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
    clock, chance = system.SystemClock(), system.chance()
    return Scheduler(client, loaded, clock=clock, chance=chance, identity=identity, elect=elect)


def _reload(scheduler: Scheduler, reread: Callable[[], Loaded]) -> None:
    """Read the configuration again; one that cannot be used changes nothing."""
    try:
        scheduler.load(reread())
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the scheduler runs on with the old one
        log.error("configuration not loaded; the old one stays", error=error)


async def _run_controllers(client: Client) -> None:
    """Run every controller until cancelled."""
    clock, chance = system.SystemClock(), system.chance()
    async with tasks.Supervisor("controllers", clock=clock, chance=chance) as supervisor:
        supervisor.start("garbage", GarbageCollector(client, clock=clock, chance=chance).run)
        supervisor.start("namespaces", NamespaceController(client, clock=clock, chance=chance).run)
        supervisor.start("terminations", TerminationController(client, clock=clock, chance=chance).run)
        supervisor.start("service accounts", ServiceAccountController(client, clock=clock, chance=chance).run)
        supervisor.start("quotas", QuotaController(client, clock=clock, chance=chance).run)
        supervisor.start("event expiry", EventExpiry(client, clock=clock).run)
        await supervisor.wait()


def _as_dict(summary: archive.Summary) -> dict[str, int]:
    return {"entries": summary.entries, "revision": summary.revision, "size_bytes": summary.size_bytes}
