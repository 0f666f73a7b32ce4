"""One master: the API server behind TLS, and around it the components that call it (`master_components`), and workers.

`Settings` has the operator's options; `running` starts the master from them.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

import msgspec

from rota import embedded, master_components, worker_process
from rota.api import users
from rota.api.identifiers import GroupResource
from rota.apiserver.admission import pod_security_config
from rota.apiserver.admission.pod_security import NOTHING_CONFIGURED
from rota.apiserver.admission.pod_security import Configuration as PodSecurityConfiguration
from rota.apiserver.aggregation import front_proxy
from rota.apiserver.aggregation.front_proxy import FrontProxySettings
from rota.apiserver.audit import policy
from rota.apiserver.audit.auditor import Auditor
from rota.apiserver.audit.log import AuditLog
from rota.apiserver.authentication import authentication_config, static_tokens
from rota.apiserver.authentication.oidc_provider import Provider
from rota.apiserver.encryption import configuration, key_setup
from rota.apiserver.encryption.keyfile import KeyFile
from rota.apiserver.encryption.store import EncryptedStore
from rota.apiserver.flow_control.settings import Limits
from rota.apiserver.interfaces import Admission, SubresourceHandler
from rota.apiserver.server import assembly, cluster_ca, http_server, tls
from rota.apiserver.server.app import App
from rota.apiserver.server.assembly import ServerSettings
from rota.apiserver.server.cluster_ca import ClusterCa
from rota.apiserver.server.http_server import Served
from rota.apiserver.subresources.explain import LateBoundExplainer
from rota.apiserver.subresources.what_if import LateBoundWhatIf
from rota.apiserver.subresources.workers import Workers
from rota.client import kubeconfig
from rota.client.endpoints import Endpoint
from rota.controllers import controller_registry
from rota.eager_dispatch import EagerDispatch
from rota.embedded import Listening, LocalWorkers
from rota.kit import errors, instance_lock, levels, system, tasks
from rota.kit.metrics import Metrics
from rota.kit.tasks import Supervisor
from rota.master_components import MasterComponents
from rota.pki import contexts, files, keys
from rota.pki.authorities import YEAR_S, Authority, Purpose
from rota.pki.certificates import Identity, IpAddress, Names, Subject
from rota.pki.renewal import Renewal
from rota.scheduler.batch_profile.settings import LiveBatchSettings
from rota.scheduler.binding import dispatch_mode
from rota.scheduler.plugin_registry.configuration_source import ConfigurationSource, LiveConfiguration
from rota.scheduler_process import Start
from rota.store.roles import FencedStore
from rota.store.store_interface import Store
from rota.web import serving as web_serving
from rota.web.application import Dashboard
from rota.worker import host_resources, identities
from rota.worker.worker_assembly import Settings as WorkerSettings
from rota.worker_process import Member, WorkerProcess

#: Upstream's port. If none is configured and it is in use, the next free one is taken.
DEFAULT_PORT: Final = 6443
_PORTS: Final = 100
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - to compare with, not to bind
_ADMINISTRATOR: Final = Subject(common_name="rota-admin", organizations=(users.MASTERS,))
_ADMINISTRATOR_S: Final = YEAR_S
#: The user as which API servers call workers; upstream's name.
_TO_WORKERS: Final = Subject(common_name="kube-apiserver-kubelet-client", organizations=(users.MASTERS,))
_SCHEDULER: Final = Subject(common_name="rota:scheduler")
#: How long controllers wait for the scheduler to read the cluster before they start.
_SCHEDULER_FIRST_S: Final = 30.0
SERVICE_NETWORK: Final = IPv4Network("127.64.0.0/10")
KUBECONFIG: Final = "kubeconfig"
ENCRYPTION_KEYS: Final = "encryption-keys.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of an operator."""

    #: The folder of this master's own files: the administrator's kubeconfig, and the encryption keys if not elsewhere.
    data: Path
    host: str = "127.0.0.1"
    #: Names and addresses by which clients reach this master; the first is advertised. Empty to derive them from
    #: `host`.
    advertise: tuple[str, ...] = ()
    #: None for the default port, or the next free one.
    port: int | None = None
    #: Also serve without TLS on this loopback port, where every request is the administrator's.
    http_port: int | None = None
    #: Also serve the dashboard on the first free one of these loopback ports, where browsers need no certificate; empty
    #: for none.
    dashboard_ports: Sequence[int] = ()
    conflict_check: bool = True
    #: The network of service addresses. On loopback, every worker can listen at them without privileges.
    service_network: IPv4Network = SERVICE_NETWORK
    encryption_keys: Path | None = None
    #: A folder with the operator's CA: `ca.crt` and `ca.key`, and optionally `sa.key` for tokens.
    authority: Path | None = None
    token_file: Path | None = None
    providers: tuple[Provider, ...] = field(default_factory=tuple)
    limits: Limits = field(default_factory=Limits)
    #: The audit log; its policy is in upstream's format, `policy.default` without one.
    audit_log: Path | None = None
    audit_policy: Path | None = None
    #: The configuration of Pod Security admission, in upstream's format.
    admission_config: Path | None = None
    #: How many workers to run, and the prefix of their names; None for a unique one.
    workers: int = 0
    #: The default dispatch mode of bound pods: `push` or `pull`.
    dispatch: str = dispatch_mode.PUSH
    worker_prefix: str | None = None
    #: The user of their tasks, `USER[:GROUP]`; if empty, `identities.chosen` decides.
    run_as: str = ""
    #: Whether their pods may run as any user of the machine, including root.
    allow_root: bool = False
    #: Which controllers to run, in the syntax of `roster.chosen`.
    controllers: str = "*"
    #: Whether this master runs a scheduler.
    scheduler: bool = True
    #: The configuration of the scheduler, and of the controllers that use its decisions.
    scheduler_config: ConfigurationSource = field(default_factory=ConfigurationSource)
    #: Whether the scheduler runs in a separate process, which needs a second core to be useful.
    scheduler_apart: bool = False
    #: How many schedulers share the pods. With more than one, each runs in a separate process, and no scheduler is
    #: elected: those of all masters work at the same time.
    schedulers: int = 1
    #: Whether the workers run in one separate process, for the same reason.
    workers_apart: bool = False
    #: Whether no other master shares the store: then there is no standby, and a master that got no processor time
    #: for some seconds need not give up its lease.
    alone: bool = False
    #: The metrics registry of this process.
    metrics: Metrics | None = None
    #: Subresources of custom kinds that pass requests on to other servers.
    connecting: Mapping[tuple[GroupResource, str], SubresourceHandler] = field(default_factory=dict)
    #: Admission plugins besides those of every API server.
    admission: tuple[Admission, ...] = ()
    #: Starts further components that call the API in this process; they end before it does.
    beside: Callable[[contextlib.AsyncExitStack, App], Awaitable[None]] | None = None


@contextlib.asynccontextmanager
async def running(store: Store, settings: Settings) -> AsyncIterator[Mapping[str, str]]:
    """Run all components on a store; yields the addresses for display."""
    clock, rng = system.SystemClock(), system.rng()
    metrics, explainer = (
        (settings.metrics or Metrics("process", process=True)).beside("apiserver"),
        LateBoundExplainer(),
    )
    what_if = LateBoundWhatIf() if settings.scheduler else None
    configuration = LiveConfiguration(settings.scheduler_config, clock=clock)
    batch = LiveBatchSettings(settings.scheduler_config.batch, clock=clock)
    controllers = controller_registry.chosen(
        settings.controllers, beside=master_components.deciding_controllers(configuration, metrics)
    )
    async with contextlib.AsyncExitStack() as parts:
        await asyncio.to_thread(files.make_private_folder, settings.data)
        identity = parts.enter_context(instance_lock.held(settings.data / "master.lock"))
        away = await _begun_workers(parts, settings)
        encryption = await key_setup.open_keys(
            store, settings.encryption_keys or settings.data / ENCRYPTION_KEYS, clock
        )
        provided = await cluster_ca.read_provided_ca(settings.authority) if settings.authority is not None else None
        shared = await cluster_ca.ensure(EncryptedStore(store, encryption), now=clock.now(), provided=provided)
        metrics.gauge("ca_not_after_seconds", "When the cluster's CA expires, in seconds since the epoch.").set(
            shared.authority.not_after
        )
        supervisor = await parts.enter_async_context(tasks.Supervisor("control plane", clock=clock, rng=rng))
        calling = _calling(shared.authority, supervisor)
        beyond = Workers(calling)
        parts.push_async_callback(beyond.close)
        workers = LocalWorkers(beyond=beyond)
        app = await parts.enter_async_context(
            assembly.server(
                store,
                ServerSettings(
                    signing_in=_signing_in(settings, shared),
                    conflict_check=settings.conflict_check,
                    encryption=encryption,
                    metrics=metrics,
                    limits=settings.limits,
                    auditor=await _auditor(parts, settings, encryption, metrics),
                    explainer=explainer,
                    what_if=what_if,
                    pod_security=_pod_security(settings),
                    taint_nodes="node-lifecycle" in controllers,
                    service_network=settings.service_network,
                    logs=workers,
                    worker_streams=workers,
                    usage=workers,
                    batch_kinds=True,
                    connecting=settings.connecting,
                    admission=settings.admission,
                    front_proxy=FrontProxySettings(
                        authority=await front_proxy.ensure(EncryptedStore(store, encryption), now=clock.now()),
                        client_authorities=shared.authority.certificate_pem,
                    ),
                ),
                clock=clock,
                rng=rng,
            )
        )
        known_as = settings.advertise or await asyncio.to_thread(_own_names, settings.host)
        dashboard = await parts.enter_async_context(
            web_serving.dashboard(
                app,
                secret=keys.to_pem(shared.account_key),
                names=(settings.host, socket.gethostname(), *known_as),
                clock=clock,
                rng=rng,
                provider=next(iter(settings.providers), None),
            )
        )
        served = await _serve(parts, dashboard, shared.authority, settings, known_as, supervisor)
        url = _url(known_as[0], served)
        path = _keep_kubeconfig(settings.data / KUBECONFIG, url, shared.authority, supervisor)
        facts = {"api": url, "config": str(path), "dashboard": f"{url}/dashboard/"}
        if settings.dashboard_ports:
            dashboard.loopback_url = await _serve_dashboard(parts, dashboard, settings.dashboard_ports)
            facts["dashboard"] = dashboard.loopback_url
        if settings.http_port is not None:
            facts["http"] = (await _serve_plainly(parts, app, settings.http_port)).url
        listening = Listening(
            host=settings.host,
            address=await asyncio.to_thread(_own_address, known_as),
            authority=shared.authority,
            beside=supervisor,
        )
        push = EagerDispatch(default_mode=settings.dispatch, local=away or workers, tls=calling, clock=clock)
        parts.push_async_callback(push.close)
        components = MasterComponents(
            app=app,
            authority=shared.authority,
            identity=identity,
            address=url,
            reserved=await asyncio.to_thread(_not_of_this_machine, known_as),
            controllers=controllers,
            configuration=configuration,
            configuration_source=settings.scheduler_config,
            batch=batch,
            scheduler=settings.scheduler,
            scheduler_process=(
                _for_scheduler(url, shared.authority, settings)
                if settings.scheduler_apart or settings.schedulers > 1
                else None
            ),
            schedulers=settings.schedulers,
            explainer=explainer,
            what_if=what_if,
            dispatcher=push,
            alone=settings.alone,
            level=lambda: store.level if isinstance(store, FencedStore) else levels.FIRST,
            metrics=metrics,
        )
        await master_components.start(parts, components)
        if settings.workers:
            shares = _shares(url, settings, listening)
            if away is None:
                await parts.enter_async_context(workers.running(app, shares, listening=listening))
            else:
                # Entered after the components that workers call, so that workers end first.
                beside = await parts.enter_async_context(tasks.Supervisor("workers", clock=clock, rng=rng))
                beside.start("process", lambda: away.run(_for_workers(url, listening, shares)))
                await away.wait_ready()
            facts["workers"] = ", ".join(one.node for one in shares)
        if settings.beside is not None:
            await settings.beside(parts, app)
        yield facts


def _shares(url: str, settings: Settings, listening: Listening) -> list[WorkerSettings]:
    """The settings of the workers of this machine."""
    host, port = url.removeprefix("https://").rsplit(":", 1)
    elsewhere = (settings.encryption_keys, settings.authority, settings.token_file)
    own = tuple(one.absolute() for one in (settings.data, *elsewhere) if one is not None)
    found = embedded.shares(
        settings.workers,
        folder=settings.data / "workers",
        prefix=settings.worker_prefix,
        api_server=(host, port),
        address=listening.address,
    )
    user = identities.tasks(settings.run_as, allow_root=settings.allow_root, own=own)
    return [msgspec.structs.replace(one, **user) for one in found]


async def _begun_workers(parts: contextlib.AsyncExitStack, settings: Settings) -> WorkerProcess | None:
    """Start the worker process, if configured: it imports its modules while the API server starts."""
    if not settings.workers or not settings.workers_apart:
        return None
    begun = WorkerProcess(clock=system.SystemClock(), anew_after_s=embedded.LIFETIME_S / 2)
    parts.push_async_callback(begun.close)
    await begun.begin()
    return begun


def _for_workers(
    url: str, listening: Listening, shares: Sequence[WorkerSettings]
) -> Callable[[], worker_process.Start]:
    """The start message of a worker process, with new certificates for each start."""

    def start() -> worker_process.Start:
        return worker_process.Start(
            server=url,
            certificate_authority=listening.authority.certificate_pem,
            host=listening.host,
            members=tuple(
                Member(settings=one, client=listening.client(one.node), serving=listening.serving(one.node))
                for one in shares
            ),
        )

    return start


def _pod_security(settings: Settings) -> PodSecurityConfiguration:
    given = settings.admission_config
    return NOTHING_CONFIGURED if given is None else pod_security_config.load(given)


async def _auditor(
    parts: contextlib.AsyncExitStack, settings: Settings, keys: KeyFile, metrics: Metrics
) -> Auditor | None:
    if settings.audit_log is None:
        return None
    clock = system.SystemClock()
    rules = policy.default() if settings.audit_policy is None else policy.load(settings.audit_policy)
    log = await parts.enter_async_context(AuditLog(settings.audit_log, clock=clock, metrics=metrics))
    encrypted = filter(None, map(configuration.resource, keys.vault.prefixes))
    return Auditor(rules, log, clock, secret=tuple(encrypted))


def _signing_in(settings: Settings, shared: ClusterCa) -> authentication_config.Settings:
    tokens = static_tokens.read(settings.token_file) if settings.token_file is not None else {}
    return authentication_config.Settings(
        signing_key=shared.account_key, static_tokens=tokens, providers=settings.providers
    )


def _own_names(host: str) -> tuple[str, ...]:
    """The names by which clients reach a master that listens on `host`: on all interfaces, it advertises an own
    address."""
    if host not in _EVERYWHERE:
        return (host,)
    return (host_resources.own_address(),)


def _url(host: str, served: Served) -> str:
    port = served.url.rsplit(":", 1)[1]
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _own_address(known_as: tuple[str, ...]) -> str:
    """The address by which other masters reach this machine."""
    known = (str(one) for one in Names.of(known_as).addresses)
    return next(filter(host_resources.has_address, known), "") or host_resources.own_address()


def _not_of_this_machine(known_as: tuple[str, ...]) -> tuple[IpAddress, ...]:
    """Advertised addresses that are not of this machine, such as a load balancer's."""
    return tuple(one for one in Names.of(known_as).addresses if not host_resources.has_address(str(one)))


async def _serve(
    parts: contextlib.AsyncExitStack,
    app: Dashboard,
    authority: Authority,
    settings: Settings,
    known_as: tuple[str, ...],
    supervisor: Supervisor,
) -> Served:
    clock = system.SystemClock()
    chosen = settings.port
    for port in [chosen] if chosen is not None else range(DEFAULT_PORT, DEFAULT_PORT + _PORTS):
        listening = tls.serve(
            app, authority, beside=supervisor, clock=clock, host=settings.host, port=port, known_as=known_as
        )
        try:
            return await parts.enter_async_context(listening)
        except OSError as problem:
            if chosen is not None or problem.errno != errno.EADDRINUSE:
                raise _cannot_listen(port, problem) from problem
    raise errors.UserError(
        f"no port from {DEFAULT_PORT} to {DEFAULT_PORT + _PORTS - 1} is free", "choose one with --port, or 0"
    )


async def _serve_dashboard(parts: contextlib.AsyncExitStack, dashboard: Dashboard, ports: Sequence[int]) -> str:
    """Serve on loopback without TLS, to users who sign in; returns the address."""
    for port in ports:
        try:
            served = await parts.enter_async_context(http_server.serve(dashboard, port=port))
        except OSError as problem:
            if port == ports[-1] or problem.errno != errno.EADDRINUSE:
                raise _cannot_listen(port, problem) from problem
        else:
            return f"{served.url}/dashboard/"
    raise AssertionError("the last port is served or refused")


async def _serve_plainly(parts: contextlib.AsyncExitStack, app: App, port: int) -> Served:
    try:
        return await parts.enter_async_context(http_server.serve(app, port=port, acting_as=users.ADMINISTRATOR))
    except OSError as problem:
        raise _cannot_listen(port, problem) from problem


def _cannot_listen(port: int, problem: OSError) -> errors.UserError:
    return errors.UserError(f"cannot listen on port {port}: {problem.strerror}", "choose another, or 0 for a free one")


def _calling(authority: Authority, supervisor: Supervisor) -> ssl.SSLContext:
    """The TLS context for calls to workers, with a certificate that is renewed."""
    clock = system.SystemClock()

    def issue() -> Identity:
        return authority.issue(_TO_WORKERS, purpose=Purpose.CLIENT, now=clock.now(), lifetime_s=tls.LIFETIME_S)

    first = issue()
    context = contexts.client(first, server_authorities=authority.certificate_pem)
    renewal = Renewal("to workers", first, issue=issue, install=lambda one: contexts.use(context, one), clock=clock)
    supervisor.start("certificate to workers", renewal.run)
    return context


def _keep_kubeconfig(path: Path, url: str, authority: Authority, supervisor: Supervisor) -> Path:
    """Write the administrator's kubeconfig, and renew its certificate."""
    clock = system.SystemClock()

    def issue() -> Identity:
        return authority.issue(_ADMINISTRATOR, purpose=Purpose.CLIENT, now=clock.now(), lifetime_s=_ADMINISTRATOR_S)

    def install(identity: Identity) -> None:
        endpoint = Endpoint(
            server=url,
            certificate_authority=authority.certificate_pem,
            client_certificate=identity.certificate,
            client_key=identity.key,
        )
        files.write_private(path, kubeconfig.render(endpoint))

    first = issue()
    install(first)
    supervisor.start("kubeconfig", Renewal("administrator", first, issue=issue, install=install, clock=clock).run)
    return path


def _for_scheduler(url: str, authority: Authority, settings: Settings) -> Callable[[], Start]:
    """The start message of a scheduler process, with new certificates for each start."""

    source = settings.scheduler_config

    def start() -> Start:
        now = system.SystemClock().now()
        own = authority.issue(_SCHEDULER, purpose=Purpose.CLIENT, now=now, lifetime_s=YEAR_S)
        calling = authority.issue(_TO_WORKERS, purpose=Purpose.CLIENT, now=now, lifetime_s=YEAR_S)
        return Start(
            server=url,
            certificate_authority=authority.certificate_pem,
            client=own,
            to_workers=calling,
            dispatch=settings.dispatch,
            scheduler_config=str(source.file.absolute()) if source.file is not None else "",
            plugins=tuple(str(path.absolute()) for path in source.plugins),
            batch_config=str(source.batch.absolute()) if source.batch is not None else "",
        )

    return start
