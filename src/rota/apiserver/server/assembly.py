"""Assembles the server: registry, kinds, pages and background tasks, on a store.

    async with assembly.server(store, clock=..., rng=...) as app:
        async with http_server.serve(app) as served: ...

Several servers may run on one store at once: all their state follows the store.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network

from rota.api import scheme
from rota.api.identifiers import GroupResource
from rota.apiserver.admission import chain
from rota.apiserver.admission.chain import AdmissionContext
from rota.apiserver.admission.fingerprint import AdmissionFingerprints
from rota.apiserver.admission.mutating_policies import MutatingPolicies
from rota.apiserver.admission.namespace_lifecycle import NAMESPACES
from rota.apiserver.admission.node_restriction import NodeRestriction
from rota.apiserver.admission.pod_security import NOTHING_CONFIGURED
from rota.apiserver.admission.pod_security import Configuration as PodSecurityConfiguration
from rota.apiserver.admission.reviewed_request import ReviewContext
from rota.apiserver.admission.service_addresses import NETWORK
from rota.apiserver.admission.subresource_reviews import SubresourceReviews
from rota.apiserver.admission.validating_policies import ValidatingPolicies
from rota.apiserver.admission.webhook_client import WebhookClient
from rota.apiserver.admission.webhook_table import MUTATING, VALIDATING
from rota.apiserver.admission.webhooks import MutatingWebhooks, ValidatingWebhooks
from rota.apiserver.aggregation.aggregator import Aggregator
from rota.apiserver.aggregation.front_proxy import FrontProxySettings
from rota.apiserver.audit.auditor import Auditor
from rota.apiserver.authentication import authentication_config
from rota.apiserver.authentication.always_admin import AlwaysAdmin
from rota.apiserver.authentication.removals import Removals
from rota.apiserver.authentication.token_subjects import TokenSubjects
from rota.apiserver.authorization import reviews as access_reviews
from rota.apiserver.authorization.chain import Authorization
from rota.apiserver.authorization.policy import installer
from rota.apiserver.cache.watch_cache import WatchCache
from rota.apiserver.conversion_webhooks.conversion_calls import ConversionWebhooks
from rota.apiserver.crd.kind_catalog import CustomKindCatalog
from rota.apiserver.crd_controller import CrdController
from rota.apiserver.discovery import NO_GROUPS
from rota.apiserver.encryption.keyfile import KeyFile
from rota.apiserver.encryption.store import EncryptedStore
from rota.apiserver.flow_control.authentication_gate import AuthenticationGate
from rota.apiserver.flow_control.deadlines import Deadlines
from rota.apiserver.flow_control.flow_controller import FlowController
from rota.apiserver.flow_control.settings import Limits
from rota.apiserver.interfaces import Admission, Authenticator, Kinds, Registry, SubresourceHandler
from rota.apiserver.node_allocations.overcommit_guard import OvercommitGuard
from rota.apiserver.node_allocations.pod_index import PodIndex
from rota.apiserver.node_allocations.queue_index import QueueIndex
from rota.apiserver.registry.objects import ObjectRegistry
from rota.apiserver.server import initial_objects
from rota.apiserver.server.app import App
from rota.apiserver.server.health import Health
from rota.apiserver.server.info_pages import InfoPages
from rota.apiserver.server.request_metrics import RequestMetrics
from rota.apiserver.service_endpoints import ServiceEndpoints
from rota.apiserver.strategies import lookup
from rota.apiserver.subresources import bindings, explain, table, what_if
from rota.apiserver.subresources import usage as usages
from rota.apiserver.subresources.explain import LateBoundExplainer
from rota.apiserver.subresources.logs import LogSource
from rota.apiserver.subresources.streaming import WorkerStreams
from rota.apiserver.subresources.usage import UsageSource
from rota.apiserver.subresources.what_if import LateBoundWhatIf, WhatIfs
from rota.apiserver.verbs import status_batches
from rota.kit import tasks
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.store.store_interface import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The options of a server and the parts around it; the defaults are a server for trusted clients only."""

    #: Without it, bindings are not checked against the free resources of nodes, as in stock Kubernetes.
    conflict_check: bool = True
    #: Configures authentication; without it, and without an `authenticator`, every request is the administrator's.
    signing_in: authentication_config.Settings | None = None
    authenticator: Authenticator | None = None
    #: The keys of encryption at rest; without them nothing is encrypted.
    encryption: KeyFile | None = None
    #: Flow control.
    limits: Limits = field(default_factory=Limits)
    #: Taint new nodes until the node lifecycle controller sees them ready: only for servers with that controller.
    taint_nodes: bool = False
    #: Levels of namespaces without labels, and exemptions from them.
    pod_security: PodSecurityConfiguration = NOTHING_CONFIGURED
    #: Services get addresses of this network.
    service_network: IPv4Network = NETWORK
    #: Writes the audit log.
    auditor: Auditor | None = None
    #: A scheduler that explains pods is set in it later.
    explainer: LateBoundExplainer | None = None
    #: What answers WhatIf objects is set in it later; without it there is no such kind.
    what_if: LateBoundWhatIf | None = None
    #: These reach the workers; without `usage` there is no group `metrics.k8s.io`.
    logs: LogSource | None = None
    worker_streams: WorkerStreams | None = None
    usage: UsageSource | None = None
    #: Serve Volcano's kinds, and have the default queue.
    batch_kinds: bool = False
    #: Subresources of custom kinds that pass requests on to other servers.
    connecting: Mapping[tuple[GroupResource, str], SubresourceHandler] = field(default_factory=dict)
    #: Admission plugins of another package.
    admission: tuple[Admission, ...] = ()
    #: Signs requests to the servers of APIServices; without it they are not served.
    front_proxy: FrontProxySettings | None = None
    metrics: Metrics | None = None


@contextlib.asynccontextmanager
async def server(
    store: Store, settings: ServerSettings | None = None, *, clock: Clock, rng: random.Random
) -> AsyncIterator[App]:
    """A server on `store`, which its owner closes."""
    settings, closing = settings or ServerSettings(), contextlib.AsyncExitStack()
    encryption, explainer = settings.encryption, settings.explainer
    if encryption is not None:
        store = EncryptedStore(store, encryption)
    known = scheme.builtin() if explainer is None else explain.with_explain(scheme.builtin())
    known.add(bindings.BATCHES)
    known.add(status_batches.BATCHES)
    asked = {} if settings.what_if is None else {(what_if.WHAT_IFS.group_resource, ""): WhatIfs(settings.what_if)}
    if asked:
        known.add(what_if.WHAT_IFS)
    measured = {} if settings.usage is None else usages.handlers(settings.usage, clock)
    if measured:
        known.add(usages.NODE_METRICS)
        known.add(usages.POD_METRICS)
    catalog = CustomKindCatalog(known, tuple(settings.connecting))
    index, queues = PodIndex(store, clock), QueueIndex(store, clock)
    overcommit_guard = OvercommitGuard(store, index, queues) if settings.conflict_check else None
    copies = _copies(store, known, clock)
    entrance = authentication_config.AuthenticationConfig(
        settings.signing_in or authentication_config.Settings(),
        TokenSubjects(store, known),
        clock=clock,
        removals=Removals(store, clock),
    )
    authorization = Authorization(store, known, clock)
    actions = {
        **entrance.handlers,
        **table.handlers(overcommit_guard, settings.logs, explainer, settings.worker_streams),
        **asked,
        **measured,
        **settings.connecting,
    }
    context = AdmissionContext(
        copies=copies,
        authorization=authorization,
        clock=clock,
        network=settings.service_network,
        overcommit_guard=overcommit_guard,
        taint_nodes=settings.taint_nodes,
        pod_security=settings.pod_security,
        further=settings.admission,
    )
    endpoints = ServiceEndpoints(rng)
    kinds = _kinds(catalog, actions, context, endpoints, closing)
    registry = ObjectRegistry(store, scheme=known, kinds=kinds, clock=clock, rng=rng)
    metrics = settings.metrics or Metrics("apiserver", process=True)
    request_metrics = RequestMetrics(metrics, clock)
    aggregator = _aggregator(settings, registry, endpoints, rng, closing)
    deadlines = Deadlines(clock, request_s=settings.limits.request_s)
    app = App(
        registry,
        authenticator=settings.authenticator or (entrance.authenticator if settings.signing_in else AlwaysAdmin()),
        authorizer=authorization,
        pages=(
            Health(store, clock).page,
            request_metrics.page,
            entrance.page,
            InfoPages(known, registry.kinds, aggregator or NO_GROUPS).page,
        ),
        request_metrics=request_metrics,
        authentication_gate=AuthenticationGate(settings.limits, clock, metrics),
        flow_controller=FlowController(settings.limits, clock, metrics),
        deadlines=deadlines,
        auditor=settings.auditor,
        aggregator=aggregator,
    )
    custom_kinds = CrdController(registry, catalog)
    await initial_objects.ensure(registry, settings.service_network)
    await installer.install(registry, rng)
    if settings.batch_kinds:
        await initial_objects.ensure_batch_kinds(registry)
    await custom_kinds.sync()
    if settings.batch_kinds:
        # The first reading accepts the names of new definitions; a kind is served once that is written.
        await custom_kinds.sync()
        await initial_objects.ensure_queues(registry)
    async with closing, tasks.Supervisor("apiserver", clock=clock, rng=rng) as beside:
        beside.start("custom kinds", custom_kinds.run)
        beside.start("deadlines", deadlines.run)
        if encryption is not None:
            beside.start("encryption keys", encryption.run)
        if overcommit_guard is not None:
            beside.start("occupancy", index.run)
            beside.start("queues", queues.run)
        for which, copy in copies.items():
            beside.start(f"copy of {which}", copy.run)
        authorization.start(beside, rng)
        for copy in copies.values():
            await copy.ready()
        await authorization.ready()
        if aggregator is not None:
            await aggregator.start(beside)
        try:
            yield app
        finally:
            app.close()


def _aggregator(
    settings: ServerSettings,
    registry: ObjectRegistry,
    endpoints: ServiceEndpoints,
    rng: random.Random,
    closing: contextlib.AsyncExitStack,
) -> Aggregator | None:
    if settings.front_proxy is None:
        return None
    aggregator = Aggregator(registry, settings.front_proxy, endpoints, rng)
    closing.push_async_callback(aggregator.close)
    return aggregator


def _copies(store: Store, known: scheme.Scheme, clock: Clock) -> dict[GroupResource, WatchCache]:
    """The caches of kinds that rules read on every request."""
    resources = (known.preferred(which) for which in chain.FOLLOWED)
    return {one.group_resource: WatchCache(store, one, clock) for one in resources if one is not None}


def _kinds(
    catalog: CustomKindCatalog,
    actions: Mapping[tuple[GroupResource, str], SubresourceHandler],
    context: AdmissionContext,
    endpoints: ServiceEndpoints,
    closing: contextlib.AsyncExitStack,
) -> Callable[[Registry], Kinds]:
    """`closing` closes what the kinds open."""

    def make(registry: Registry) -> Kinds:
        copies = context.copies
        restriction = NodeRestriction(registry, context.authorization)
        projections = table.projections(lambda resource: catalog.version(resource).scale)
        client = WebhookClient(registry, endpoints)
        closing.push_async_callback(client.close)
        conversions = ConversionWebhooks(catalog, client)
        review_context = ReviewContext(
            registry=registry,
            namespaces=copies[NAMESPACES],
            authorization=context.authorization,
            strategy=lookup.strategy,
            custom_schema=catalog.version,
            projections=projections,
            conversion=conversions.of,
        )
        reviews = chain.Reviews(
            context=review_context,
            policies=ValidatingPolicies(review_context, copies),
            mutators=(MutatingPolicies(registry, copies), MutatingWebhooks(copies[MUTATING], client)),
            webhooks=ValidatingWebhooks(review_context, copies[VALIDATING], client),
        )
        rounds = chain.rounds(context, registry, restriction, reviews)
        mutating = chain.mutating(context, registry, rounds, reviews)
        validating = chain.validating(context, registry, reviews)
        subresource_reviews = SubresourceReviews(review_context, rounds, reviews.policies, reviews.webhooks)
        handlers = {
            **access_reviews.handlers(context.authorization),
            **{which: restriction.handler(action) for which, action in actions.items()},
        }
        batches = (bindings.BATCHES.group_resource, "")
        return Kinds(
            strategy=lookup.strategy,
            custom_schema=catalog.version,
            conversion=conversions.of,
            mutating=mutating,
            validating=validating,
            handlers={
                **{which: subresource_reviews.handler(handler) for which, handler in handlers.items()},
                batches: subresource_reviews.batches(handlers[batches]),
            },
            projections=projections,
            copies=copies,
            admission_fingerprint=AdmissionFingerprints(
                copies,
                (*rounds.plugins, *mutating, *validating),
                subresource_reviews.concerns,
                context.pod_security.usernames,
            ).of,
            has_policies=lambda: subresource_reviews.concerns("pods", "status"),
        )

    return make
