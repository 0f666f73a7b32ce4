"""Builds the components and connects them.

All other modules take their dependencies as arguments; this one provides the system clock, randomness and databases.
The command line calls this module to run a component.
"""

import asyncio
import contextlib
import gc
import signal
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import aiohttp

from rota import component_process, control_plane
from rota.api.users import ADMINISTRATOR
from rota.apiserver.encryption import key_admin
from rota.apiserver.encryption.rotation import Holdings
from rota.apiserver.server.app import App
from rota.client import client_factory, kubeconfig
from rota.client.elections.elector import SYSTEM
from rota.client.endpoints import Endpoint
from rota.cluster_proxy import ClusterProxy
from rota.component_process import beside, checked, passing_identity
from rota.controllers.batch import rights as batch_rights
from rota.controllers.batch.beside import BatchControl
from rota.controllers.batch.beside import Settings as BatchSettings
from rota.extender import rights as extender_rights
from rota.extender import service as extending
from rota.extender.service import Extender
from rota.extender.view import View
from rota.federation.control import accounts, federation
from rota.federation.control.federation import Federation
from rota.federation.member import agent as federation_agent
from rota.federation.member import connections
from rota.federation_admission import DeletionProtection, PolicyValidation
from rota.forecaster import rights as forecaster_rights
from rota.forecaster.forecaster import Forecaster
from rota.forecaster.forecaster import Settings as ForecasterSettings
from rota.forecaster.metrics_sources import PrometheusMetrics
from rota.kit import diagnostics, logs, system, tasks
from rota.kit.diagnostics import Address
from rota.kit.metrics import Metrics
from rota.notices import rights as notice_rights
from rota.notices import webhook
from rota.notices.agent import Agent
from rota.notices.announcer import NODES, Announcer
from rota.notices.clouds import cloud_detection
from rota.notices.clouds.cloud_provider import MetadataEndpoint
from rota.notices.node_events import NodeEvents
from rota.notices.node_lookup import Machines
from rota.notices.stale_notices import StaleNoticeReaper
from rota.notices.webhook import Hook, Webhook
from rota.resolver import rights as resolver_rights
from rota.resolver.service import Resolver
from rota.resolver.service import Settings as ResolverSettings
from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource, LiveConfiguration, LiveFrameworks
from rota.spot import return_policy
from rota.spot.node_signals import NodeSignals
from rota.spot_control import rights as spot_rights
from rota.spot_control.leader_process import SpotControl
from rota.store import logstore, roles, store_factory
from rota.store.compaction import Compactor
from rota.store.metrics import StoreMetrics
from rota.store.roles import FencedStore
from rota.store.store_interface import Store
from rota.worker import host_resources, standalone
from rota.worker.cluster_join import join
from rota.worker.cluster_join.join import Invitation
from rota.worker.endpoint import endpoint_server
from rota.worker.worker_assembly import Settings as WorkerSettings

log = logs.get(__name__)

_T = TypeVar("_T")

#: The command line runs every component by this.
run: Final = component_process.run


async def open_store(url: str, *, create: bool = True, metrics: StoreMetrics | None = None) -> Store:
    """Open the store at `url`; without `create`, a missing store is an error and nothing is written."""
    settings = logstore.Settings(metrics=metrics)
    return await store_factory.open_store(
        url, time=system.SystemClock(), rng=system.rng(), create=create, settings=settings
    )


async def encryption_status(url: str, keys: Path) -> list[Holdings]:
    """Return which objects of the store at `url` are encrypted, and with which keys."""
    return await _with_store(url, lambda store: key_admin.status(store, keys, system.SystemClock()))


async def rotate_encryption(url: str, keys: Path, *, new_key: bool) -> tuple[str, int]:
    """Encrypt all objects with a new key, or with the first of the file; returns its name and the number of
    rewritten objects. Raises for a standby, which must stay equal to its primary, and for a superseded store."""

    async def rotate(store: Store) -> tuple[str, int]:
        return await key_admin.rotate(await FencedStore.of(store), keys, system.SystemClock(), new_key=new_key)

    return await _with_store(url, rotate)


async def forget_encryption_keys(url: str, keys: Path) -> list[str]:
    """Remove unused keys from the file; returns their names."""
    return await _with_store(url, lambda store: key_admin.forget(store, keys, system.SystemClock()))


async def _with_store(url: str, work: Callable[[Store], Coroutine[Any, Any, _T]]) -> _T:
    store = await open_store(url, create=False)
    try:
        return await work(store)
    finally:
        await store.close()


async def run_local(
    url: str,
    settings: control_plane.Settings,
    *,
    ready: Callable[[dict[str, str]], None],
    leaving: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Run a master on the store at `url` until a signal stops it; `ready` is called with the addresses.

    `leaving` is called after the signal, while the API still serves.
    """
    system.allow_many_files()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    clock, rng = system.SystemClock(), system.rng()
    async with contextlib.AsyncExitStack() as parts:
        metrics = Metrics("process", process=True)
        store_metrics = StoreMetrics(metrics.beside("store"))
        store = await open_store(url, metrics=store_metrics)
        parts.push_async_callback(store.close)
        await roles.begin(store)
        # Raises for a standby or another level, and keeps this master from writing after the promotion of a standby.
        fenced = await FencedStore.of(store)
        # Installed only now: while a database does not answer, a signal must end the process at once.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        supervisor = await parts.enter_async_context(tasks.Supervisor("rota", clock=clock, rng=rng))
        supervisor.start("compactor", Compactor(store, time=clock, metrics=store_metrics).run)
        facts = await parts.enter_async_context(control_plane.running(fenced, replace(settings, metrics=metrics)))
        # Objects of the start stay alive: excluding them from garbage collection avoids pauses.
        gc.freeze()
        ready({"store": logs.redact_url(url), **facts})
        await stop.wait()
        if leaving is not None:
            await leaving()


async def run_federation(
    url: str,
    settings: control_plane.Settings,
    *,
    ready: Callable[[dict[str, str]], None],
    federated: federation.Settings,
) -> None:
    """Run a federation's control plane on the store at `url` until a signal stops it.

    It is a master without scheduler and workload controllers, because its workloads run in member clusters. The
    federation's loops call its API in this process, each with its own account.
    """
    clock, rng = system.SystemClock(), system.rng()

    async def federate(parts: contextlib.AsyncExitStack, app: App) -> None:
        async with client_factory.to_application(app, clock=clock, rng=rng, user=ADMINISTRATOR) as client:
            await federation.install(client, clock=clock)
        clients = {
            loop: await parts.enter_async_context(
                client_factory.to_application(app, clock=clock, rng=rng, user=accounts.user(loop))
            )
            for loop in accounts.GRANTS
        }
        loops = Federation(
            clients,
            clock=clock,
            rng=rng,
            settings=federated,
            identity="" if settings.alone else passing_identity(),
        )
        running = await parts.enter_async_context(tasks.Supervisor("federation", clock=clock, rng=rng))
        running.start("loops", loops.run)

    proxy = ClusterProxy(clock=clock)
    try:
        served = replace(
            settings,
            connecting=proxy.handlers,
            admission=(DeletionProtection(), PolicyValidation()),
            beside=federate,
        )
        await run_local(url, served, ready=ready)
    finally:
        await proxy.close()


async def run_federation_agent(
    folder: Path, settings: federation_agent.Settings, *, server: str = "", ready: Callable[[str], None]
) -> None:
    """Run the agent of a pull member until a signal stops it; `server` is where the control plane is now."""
    clock, rng = system.SystemClock(), system.rng()
    cluster = federation_agent.cluster_in(folder)
    control = kubeconfig.load(folder / federation_agent.CONTROL, clock=clock)
    if server:
        control = replace(control, server=server)
    member = kubeconfig.load(folder / federation_agent.MEMBER, clock=clock)
    async with (
        beside(control, "federation agent") as (client, supervisor, stop),
        connections.connected_to(member, clock=clock, rng=rng) as inside,
    ):
        agent = federation_agent.Agent(client, inside, cluster, folder, clock=clock, rng=rng, settings=settings)
        supervisor.start("agent", agent.run)
        ready(f"The agent of cluster {cluster} serves {control.server}. Ctrl-C stops it.")
        await stop.wait()


async def run_worker(
    settings: WorkerSettings, invitation: Invitation, *, port: int, ready: Callable[[str], None]
) -> None:
    """Join a cluster as a worker and run until a signal stops it; tasks continue after that."""
    system.allow_many_files()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    clock, rng = system.SystemClock(), system.rng()
    settings = await asyncio.to_thread(join.placed, settings, invitation, clock=clock)
    listener = endpoint_server.listen(settings.address if host_resources.has_address(settings.address) else "", port)
    with contextlib.closing(listener):
        joined = await join.enter(settings.folder, settings.node, invitation, clock=clock, rng=rng)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        working = standalone.running_worker(joined, settings, listener=listener, clock=clock, rng=rng)
        async with working as worker:
            ready(joined.endpoint.server)
            await _first(stop.wait(), worker.wait())


async def _first(*works: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them ends, and raise its exception."""
    started = [asyncio.ensure_future(one) for one in works]
    try:
        ended, _ = await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
        for one in ended:
            one.result()
    finally:
        for one in started:
            one.cancel()
        await asyncio.wait(started)


async def run_extender(
    endpoint: Endpoint,
    marks: NodeSignals,
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None = None,
    binds: bool = False,
    http: Address | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the scheduler extender for the cluster of an API server until a signal stops it."""
    clock, rng = system.SystemClock(), system.rng()
    async with (
        beside(endpoint, "extender") as (client, supervisor, stop),
        contextlib.AsyncExitStack() as parts,
    ):
        await checked(client, "extender", extender_rights.needed(binds=binds))
        extender = Extender(client, clock=clock, rng=rng, view=View(marks), binds=binds)
        async with extending.serving(extender, host=host, port=port, tls=tls) as address:
            supervisor.start("cluster", extender.run)
            ready(f"Answering schedulers at {address} about the nodes of {endpoint.server}. Ctrl-C stops it.")
            if http is not None:
                ready(f"Metrics at {await parts.enter_async_context(diagnostics.serving(extender.health(), http))}.")
            await stop.wait()


async def run_batch_controller(
    endpoint: Endpoint, settings: BatchSettings, *, ready: Callable[[str], None] = lambda _: None
) -> None:
    """Run the batch controllers for the cluster of an API server until a signal stops them."""
    async with (
        beside(endpoint, "batch jobs") as (client, supervisor, stop),
        contextlib.AsyncExitStack() as parts,
    ):
        await checked(client, "batch controller", batch_rights.needed(settings))
        control = BatchControl(
            client,
            settings,
            clock=system.SystemClock(),
            rng=system.rng(),
            identity=passing_identity(),
        )
        await control.start(parts, supervisor, ready=ready)
        ready(f"Running batch jobs of {endpoint.server}. Ctrl-C stops it.")
        await stop.wait()


async def run_forecaster(
    endpoint: Endpoint,
    settings: ForecasterSettings,
    *,
    http: Address | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Publish forecasts of the nodes of an API server's cluster until a signal stops it."""
    async with (
        beside(endpoint, "forecasts") as (client, supervisor, stop),
        contextlib.AsyncExitStack() as parts,
    ):
        await checked(client, "forecaster", forecaster_rights.needed(settings))
        source = None
        if (chosen := settings.prometheus) is not None:
            session = await parts.enter_async_context(aiohttp.ClientSession())
            source = PrometheusMetrics(
                session,
                chosen.url,
                node_label=chosen.node_label,
                every_s=settings.every_s,
                token_file=chosen.token_file,
            )
        forecaster = Forecaster(
            client,
            settings,
            source=source,
            clock=system.SystemClock(),
            rng=system.rng(),
            identity=passing_identity(),
            metrics=Metrics("forecaster", process=True),
        )
        await forecaster.install()
        if http is not None:
            pages = diagnostics.serving(diagnostics.health(forecaster.metrics), http)
            ready(f"Metrics at {await parts.enter_async_context(pages)}.")
        supervisor.start("forecaster", forecaster.run)
        if address := await parts.enter_async_context(forecaster.serving()):
            ready(f"Setting the requests of new pods at {address}.")
        ready(f"Publishing forecasts of the nodes of {endpoint.server}. Ctrl-C stops it.")
        await stop.wait()


async def run_resolver(
    endpoint: Endpoint,
    settings: ResolverSettings,
    *,
    http: Address | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Check the bindings of an API server until a signal ends that."""
    clock, rng = system.SystemClock(), system.rng()
    async with (
        beside(endpoint, "resolver") as (client, supervisor, stop),
        contextlib.AsyncExitStack() as parts,
    ):
        await checked(client, "resolver", resolver_rights.needed(settings))
        resolver = Resolver(client, settings, identity=passing_identity(), clock=clock, rng=rng)
        address = await parts.enter_async_context(resolver.serving())
        supervisor.start("resolver", resolver.run)
        if http is not None:
            pages = diagnostics.serving(diagnostics.health(resolver.metrics), http)
            ready(f"Metrics at {await parts.enter_async_context(pages)}.")
        await resolver.register()
        ready(f"Checking bindings of {endpoint.server} at {address}. Ctrl-C stops it.")
        await stop.wait()


async def run_spot_controller(
    endpoint: Endpoint,
    source: ConfigurationSource,
    marks: NodeSignals,
    *,
    dry_run: bool = False,
    lease_namespace: str = SYSTEM,
    back: return_policy.Settings = return_policy.USUAL,
    record_only: bool = False,
    hook: Hook | None = None,
    http: Address | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the spot controller for the cluster of an API server until a signal stops it.

    Notices come from marks on nodes, from events about nodes, and with a `hook` from authenticated clients of the
    webhook. With `record_only` they are only written on nodes, for another controller to act on.
    """
    clock, rng = system.SystemClock(), system.rng()
    async with (
        beside(endpoint, "spot controller") as (client, supervisor, stop),
        contextlib.AsyncExitStack() as parts,
    ):
        used = notice_rights.MARKING if record_only else spot_rights.needed(namespace=lease_namespace, dry_run=dry_run)
        insufficient = await checked(
            client, "spot controller", (*used, *(notice_rights.EVENTS if marks.heeds_events else ()))
        )
        metrics = Metrics("spot", process=True)
        if not record_only:
            configuration = LiveConfiguration(source, clock=clock)
            supervisor.start("configuration", configuration.run)
            control = SpotControl(
                client,
                LiveFrameworks(configuration),
                marks,
                clock=clock,
                rng=rng,
                identity=passing_identity(),
                lease_namespace=lease_namespace,
                back=back,
                dry_run=dry_run,
            )
            metrics = control.metrics
            supervisor.start("control", control.run)
        what = "Hearing" if record_only else "Telling what would be done on" if dry_run else "Acting on"
        ready(f"{what} notices of nodes at {endpoint.server}. Ctrl-C stops it.")
        if http is not None:
            # a standby is as ready as the leader
            ready(
                f"Metrics at {await parts.enter_async_context(diagnostics.serving(diagnostics.health(metrics), http))}."
            )
        # the process that receives a notice writes it on the node, leader or not
        announcer = Announcer(client, marks, clock=clock, metrics=metrics, dry_run=dry_run)
        if marks.heeds_events and insufficient.isdisjoint(notice_rights.EVENTS):
            events = NodeEvents(client, announcer, marks, clock=clock, rng=rng, metrics=metrics)
            supervisor.start("node events", events.run)
        known = Machines(client, clock=clock, rng=rng)
        supervisor.start("machines", known.run)
        supervisor.start("survivors", StaleNoticeReaper(known, announcer, clock=clock, rng=rng).run)
        if hook is not None:
            taking = Webhook(announcer, known, marks, clock=clock, token=hook.token, metrics=metrics)
            ready(f"Taking notices at {await parts.enter_async_context(webhook.serving(taking, hook))}.")
        await stop.wait()


async def run_spot_agent(
    endpoint: Endpoint,
    *,
    node: str,
    provider: str = "",
    metadata_url: str = "",
    every_s: float = 5.0,
    http: Address | None = None,
    ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Poll the cloud for a termination notice of the node's machine and mark the node, until a signal stops it.

    Without a `provider` it is detected; `metadata_url` overrides the address of its metadata endpoint.
    """
    clock, rng = system.SystemClock(), system.rng()
    async with (
        beside(endpoint, "spot agent") as (client, supervisor, stop),
        # no proxy: the address is local to this machine
        aiohttp.ClientSession(trust_env=False) as session,
        contextlib.AsyncExitStack() as parts,
    ):
        await checked(client, "spot agent", notice_rights.needed_by_agent(node))

        def metadata(url: str) -> MetadataEndpoint:
            return MetadataEndpoint(metadata_url or url, session, clock=clock)

        if not provider:
            found = await client.get(NODES, node)
            provider = cloud_detection.by_provider_id((found.get("spec") or {}).get("providerID") or "")
        if not provider:
            provider = await cloud_detection.probed(metadata)
        asked = metadata(cloud_detection.URLS[provider])
        cloud = cloud_detection.cloud(provider, asked, clock=clock, boot=cloud_detection.boot_id())
        metrics = Metrics("spot_agent", process=True)
        announcer = Announcer(client, NodeSignals(), clock=clock, metrics=metrics)
        agent = Agent(announcer, cloud, node, clock=clock, rng=rng, every_s=every_s, metrics=metrics)
        supervisor.start("agent", agent.run)
        ready(f"Asking {asked.url} ({provider}) whether node {node} will be taken away. Ctrl-C stops it.")
        if http is not None:
            health = diagnostics.health(metrics, ready=lambda: agent.healthy)
            ready(f"Metrics at {await parts.enter_async_context(diagnostics.serving(health, http))}.")
        await stop.wait()
