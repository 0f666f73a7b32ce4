"""Assembles the server: registry, kinds, pages and background tasks, on a store.

    async with assembly.server(store, clock=..., rng=...) as app:
        async with http_server.serve(app) as served: ...

Several servers may run on one store at once: all their state follows the store.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping
from ipaddress import IPv4Network

from rota.api import scheme
from rota.api.identifiers import GroupResource
from rota.apiserver.admission import chain
from rota.apiserver.admission.creation_by_update import CreationByUpdate
from rota.apiserver.admission.escalation import Escalation
from rota.apiserver.admission.fingerprint import AdmissionFingerprints
from rota.apiserver.admission.node_restriction import NodeRestriction
from rota.apiserver.admission.process_security import ProcessSecurity
from rota.apiserver.admission.service_addresses import NETWORK
from rota.apiserver.admission.signers import SignerRights
from rota.apiserver.admission.unenforced import Mode, Unenforced
from rota.apiserver.audit.auditor import Auditor
from rota.apiserver.authentication import authentication_config
from rota.apiserver.authentication.always_admin import AlwaysAdmin
from rota.apiserver.authentication.removals import RemovalRecords, Removals
from rota.apiserver.authentication.token_subjects import TokenSubjects
from rota.apiserver.authorization import reviews
from rota.apiserver.authorization.chain import Authorization
from rota.apiserver.authorization.policy import installer
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.crd.kind_catalog import CustomKindCatalog
from rota.apiserver.crd_controller import CrdController
from rota.apiserver.encryption.keyfile import KeyFile
from rota.apiserver.encryption.store import EncryptedStore
from rota.apiserver.flow_control.deadlines import Deadlines
from rota.apiserver.flow_control.flow_controller import FlowController
from rota.apiserver.flow_control.settings import Limits
from rota.apiserver.interfaces import Authenticator, Kinds, Registry, SubresourceHandler
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard
from rota.apiserver.node_allocations.pod_index import PodIndex
from rota.apiserver.registry.leader_fencing import LeaderRecords
from rota.apiserver.registry.objects import ObjectRegistry
from rota.apiserver.server import initial_objects
from rota.apiserver.server.app import App
from rota.apiserver.server.health import Health
from rota.apiserver.server.info_pages import InfoPages
from rota.apiserver.server.request_metrics import RequestMetrics
from rota.apiserver.strategies import lookup
from rota.apiserver.subresources import bindings, explain, table
from rota.apiserver.subresources import usage as usages
from rota.apiserver.subresources.explain import LateBoundExplainer
from rota.apiserver.subresources.logs import LogSource
from rota.apiserver.subresources.streaming import WorkerStreams
from rota.apiserver.subresources.usage import UsageSource
from rota.apiserver.verbs import status_batches
from rota.kit import tasks
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.store.store_interface import Store


@contextlib.asynccontextmanager
async def server(
    store: Store,
    *,
    clock: Clock,
    rng: random.Random,
    authenticator: Authenticator | None = None,
    signing_in: authentication_config.Settings | None = None,
    metrics: Metrics | None = None,
    conflict_check: bool = True,
    logs: LogSource | None = None,
    worker_streams: WorkerStreams | None = None,
    usage: UsageSource | None = None,
    encryption: KeyFile | None = None,
    limits: Limits | None = None,
    auditor: Auditor | None = None,
    explainer: LateBoundExplainer | None = None,
    unenforced: Mode = Mode.WARN,
    taint_nodes: bool = False,
    service_network: IPv4Network = NETWORK,
) -> AsyncIterator[App]:
    """A server on `store`, which its owner closes.

    Without `conflict_check`, bindings are not checked against the free resources of nodes, as in stock Kubernetes.
    `logs`, `wires` and `usage` reach the workers; without the last there is no group `metrics.k8s.io`. `signing_in`
    configures authentication; without it, and without an `authenticator`, every request is the administrator's.
    `encryption` has the keys of encryption at rest; without it nothing is encrypted. `limits` configure flow control,
    `auditor` writes the audit log. A scheduler that explains pods is set in `explainer` later. `unenforced` says how
    objects that promise protection and are not enforced are handled. With `taint_nodes`, new nodes are tainted until
    the node lifecycle controller sees them ready: only for servers with that controller. Services get addresses of
    `service_network`.
    """
    if encryption is not None:
        store = EncryptedStore(store, encryption)
    known = scheme.builtin() if explainer is None else explain.with_explain(scheme.builtin())
    known.add(bindings.BATCHES)
    known.add(status_batches.BATCHES)
    measured = {} if usage is None else usages.handlers(usage, clock)
    if measured:
        known.add(usages.NODE_METRICS)
        known.add(usages.POD_METRICS)
    catalog, index = CustomKindCatalog(known), PodIndex(store, clock)
    overcommit_guard = OvercommitGuard(store, index) if conflict_check else None
    copies = _copies(store, known, clock)
    entrance = authentication_config.AuthenticationConfig(
        signing_in or authentication_config.Settings(),
        TokenSubjects(store, known),
        clock=clock,
        removals=Removals(store, clock),
    )
    authorization = Authorization(store, known, clock)
    actions = {**entrance.handlers, **table.handlers(overcommit_guard, logs, explainer, worker_streams), **measured}
    kinds = _kinds(
        catalog,
        copies,
        overcommit_guard,
        actions,
        authorization,
        unenforced,
        RemovalRecords(clock),
        taint_nodes=taint_nodes,
        network=service_network,
    )
    registry = ObjectRegistry(store, scheme=known, kinds=kinds, clock=clock, rng=rng)
    metrics = metrics or Metrics("apiserver", process=True)
    request_metrics = RequestMetrics(metrics, clock)
    limits = limits or Limits()
    deadlines = Deadlines(clock, request_s=limits.request_s)
    app = App(
        registry,
        authenticator=authenticator or (entrance.authenticator if signing_in else AlwaysAdmin()),
        authorizer=authorization,
        pages=(Health(store, clock).page, request_metrics.page, entrance.page, InfoPages(known, registry.kinds).page),
        request_metrics=request_metrics,
        flow_controller=FlowController(limits, clock, metrics),
        deadlines=deadlines,
        auditor=auditor,
    )
    custom_kinds = CrdController(registry, catalog)
    await initial_objects.ensure(registry, service_network)
    await installer.install(registry, rng)
    await custom_kinds.sync()
    async with tasks.Supervisor("apiserver", clock=clock, rng=rng) as beside:
        beside.start("custom kinds", custom_kinds.run)
        beside.start("deadlines", deadlines.run)
        if encryption is not None:
            beside.start("encryption keys", encryption.run)
        if overcommit_guard is not None:
            beside.start("occupancy", index.run)
        for which, copy in copies.items():
            beside.start(f"copy of {which}", copy.run)
        authorization.start(beside, rng)
        for copy in copies.values():
            await copy.ready()
        await authorization.ready()
        try:
            yield app
        finally:
            app.close()


def _copies(store: Store, known: scheme.Scheme, clock: Clock) -> dict[GroupResource, WatchCache]:
    """The caches of kinds that rules read on every request."""
    resources = (known.preferred(which) for which in chain.FOLLOWED)
    return {one.group_resource: WatchCache(store, one, clock) for one in resources if one is not None}


def _kinds(
    catalog: CustomKindCatalog,
    copies: Mapping[GroupResource, WatchCache],
    overcommit_guard: OvercommitGuard | None,
    actions: Mapping[tuple[GroupResource, str], SubresourceHandler],
    authorization: Authorization,
    unenforced: Mode,
    removals: RemovalRecords,
    *,
    taint_nodes: bool,
    network: IPv4Network,
) -> Callable[[Registry], Kinds]:
    def make(registry: Registry) -> Kinds:
        restriction = NodeRestriction(registry, authorization)
        return Kinds(
            strategy=lookup.strategy,
            custom_schema=catalog.version,
            mutating=(
                restriction,
                *chain.mutating(registry, copies, overcommit_guard, network, taint_nodes=taint_nodes),
                Escalation(authorization),
                LeaderRecords(),
                removals,
            ),
            validating=(
                CreationByUpdate(authorization),
                SignerRights(authorization),
                Unenforced(unenforced),
                ProcessSecurity(),
            ),
            handlers={
                **reviews.handlers(authorization),
                **{which: restriction.handler(action) for which, action in actions.items()},
            },
            projections=table.projections(lambda resource: catalog.version(resource).scale),
            copies=copies,
            admission_fingerprint=AdmissionFingerprints(copies).of,
        )

    return make
