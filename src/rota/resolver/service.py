"""The resolver as a service: it follows the cluster, and answers the reviews of bindings while it leads.

One process answers at a time, because approvals are kept in memory; others stand by. A process that takes over does not
know what its predecessor approved last, so it refuses all bindings until the API server can no longer write them
(`SETTLE_S`, the server's request timeout). After a clean stop that is not necessary: the predecessor has waited for its
approvals. While no process answers, the API server refuses bindings (`failurePolicy: Fail`): there is no hole.
"""

import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from rota.api import errors
from rota.apiserver.node_allocations import pod_shares
from rota.client import admission_reviews
from rota.client.elections.elector import LEASES, STEADY, Election, LeaderElector, LeadershipLost
from rota.client.elections.lease_claims import Term
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.paths import Target
from rota.client.pods import PODS
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.kit import logs
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics
from rota.kit.tasks import Supervisor
from rota.resolver.binding_ledger import BindingLedger, Refusal
from rota.resolver.limiting_objects import LimitingObjects

log = logs.get(__name__)

LEASE: Final = "rota-resolver"
#: The API server gives up a request after this time (its --request-timeout).
SETTLE_S: Final = 60.0
VALIDATING: Final[Target] = ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
_NODES: Final = ("", "v1", "nodes")
_NAME: Final = "rota-resolver"
_CONFLICT: Final = 409
#: How often old approvals are looked at.
_LOOK_S: Final = 5.0
_ENDING_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of an operator."""

    address: tuple[str, int]
    tls: ssl.SSLContext | None
    #: The URL under which the API server reaches the resolver and the CA of its certificate, to register it.
    registered: tuple[str, bytes] | None = None
    lease_namespace: str = "kube-system"
    settle_s: float = SETTLE_S


class Resolver:
    """Answers the reviews of one process."""

    def __init__(self, client: Client, settings: Settings, *, identity: str, clock: Clock, rng: Rng) -> None:
        self._client: Final = client
        self._settings: Final = settings
        self._clock: Final = clock
        self._rng: Final = rng
        self._election: Final = Election(name=LEASE, namespace=settings.lease_namespace, identity=identity, pace=STEADY)
        self.metrics: Final = Metrics("resolver", process=True, prefix="resolver_")
        reviews = self.metrics.counter("reviews_total", "Reviews of bindings, by outcome.", ("outcome",))
        self._reviews: Final = reviews
        self._limiting: Final = LimitingObjects(client, clock=clock, rng=rng, metrics=self.metrics)
        self.ledger: Final = BindingLedger(self._limiting, self._limiting.queues)
        self.metrics.gauge("approved_bindings", "Approved bindings that may still arrive.").set_function(
            lambda: len(self.ledger)
        )
        self._pods: Final = self._informer(PODS)
        self._nodes: Final = self._informer(_NODES)
        self._pods.add_handler(self._pod_changed)
        self._nodes.add_handler(self._node_changed)
        #: Whether this process answers, and from when on it approves.
        self.leading = False
        self._approves_from = 0.0

    def _informer(self, target: Target) -> Informer[Object]:
        source = Source(client=self._client, target=target)
        return Informer(source, decode=msgspec.json.decode, clock=self._clock, rng=self._rng, metrics=self.metrics)

    def _pod_changed(self, _: Key, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self.ledger.set_pod(old["metadata"]["uid"], None)
        if new is not None:
            self.ledger.set_pod(new["metadata"]["uid"], new)

    def _node_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        self.ledger.set_node(key.name, new)

    async def run(self) -> None:
        """Follow the cluster, and answer while leading, until cancelled."""
        async with Supervisor("resolver", clock=self._clock, rng=self._rng) as supervisor:
            supervisor.start("nodes", self._nodes.run)
            supervisor.start("pods", self._pods.run)
            for name, informer in self._limiting.informers:
                supervisor.start(name, informer.run)
            await self._nodes.wait_synced()
            await self._pods.wait_synced()
            await self._limiting.wait_synced()
            supervisor.start("election", self._campaign)
            await supervisor.wait()

    async def _campaign(self) -> None:
        while True:
            elector = LeaderElector(self._client, self._election, clock=self._clock, rng=self._rng)
            clean_from = await self._released()
            try:
                await elector.run(partial(self._answer, clean_from=clean_from))
            except LeadershipLost as lost:
                log.warning("another resolver answers", error=lost)

    async def _released(self) -> int | None:
        """The transitions of the Lease if its holder released it, -1 if there is no Lease, None if it has a holder."""
        try:
            lease = await self._client.get(LEASES, LEASE, namespace=self._settings.lease_namespace)
        except errors.NotFound:
            return -1
        except (errors.ApiError, TransportError):
            return None
        spec = lease.get("spec") or {}
        return None if spec.get("holderIdentity") else int(spec.get("leaseTransitions") or 0)

    async def _answer(self, term: Term, clean_from: int | None) -> None:
        """Answer reviews until cancelled; then wait until the approved bindings have arrived."""
        # Clean only if no other process led between the look at the Lease and this term.
        clean = clean_from is not None and term.transitions <= clean_from + 1
        self._approves_from = self._clock.monotonic() + (0.0 if clean else self._settings.settle_s)
        if not clean:
            log.warning("took over; bindings are refused until former ones have settled", s=self._settings.settle_s)
        self.leading = True
        try:
            while True:
                await self._clock.sleep(_LOOK_S)
                await self._look_at_old_approvals()
        finally:
            self.leading = False
            until = self._clock.monotonic() + STEADY.renew_deadline_s / 2
            while self.ledger and self._clock.monotonic() < until:
                await self._clock.sleep(_ENDING_S)

    async def _look_at_old_approvals(self) -> None:
        before = self._clock.monotonic() - self._settings.settle_s
        for namespace, name in self.ledger.overdue(before):
            try:
                pod = await self._client.get(PODS, name, namespace=namespace)
            except (errors.ApiError, TransportError) as error:
                log.info("pod of an approved binding not read", pod=f"{namespace}/{name}", error=error)
                continue
            if not (pod.get("spec") or {}).get("nodeName"):
                self.ledger.release(pod["metadata"]["uid"], before)

    async def review(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The response to a review of a binding."""
        refusal = await self._refusal(asked)
        self._reviews.labels("approved" if refusal is None else refusal.reason).inc()
        if refusal is None:
            return {"uid": asked["uid"], "allowed": True}
        log.info("binding refused", reason=refusal.reason, message=refusal.message)
        status = {
            "code": _CONFLICT,
            "reason": "Conflict",
            "message": refusal.message,
            "details": {"causes": [{"reason": "ConflictReason", "message": refusal.reason}]},
        }
        return {"uid": asked["uid"], "allowed": False, "status": status}

    async def _refusal(self, asked: Mapping[str, Any]) -> Refusal | None:
        binding = asked.get("object") or {}
        node = (binding.get("target") or {}).get("name") or ""
        name = asked.get("name") or (binding.get("metadata") or {}).get("name") or ""
        namespace = asked.get("namespace") or ""
        now = self._clock.monotonic()
        if not self.leading:
            return Refusal("no-leader", "this resolver does not lead; try again in a moment")
        if now < self._approves_from:
            left = round(self._approves_from - now, 1)
            return Refusal("settling", f"the resolver has just taken over; try again in {left} s")
        pod = self._pods.cache.get(name, namespace)
        if pod is None:
            try:
                pod = await self._client.get(PODS, name, namespace=namespace)
            except errors.NotFound:
                return None  # the API server says so itself
        await self._limiting.learn(namespace, pod_shares.of_pod(pod))
        # From here on nothing is awaited: a second review sees what this one approves.
        return self.ledger.approve(pod, node, self._clock.monotonic(), dry_run=bool(asked.get("dryRun")))

    def application(self) -> web.Application:
        """The HTTP application."""
        app = web.Application(client_max_size=1024 * 1024)
        app.router.add_post("/bindings", self._post)
        app.router.add_get("/readyz", self._ready)
        return app

    async def _post(self, request: web.Request) -> web.Response:
        return admission_reviews.answer(await self.review(await admission_reviews.asked(request)))

    async def _ready(self, _: web.Request) -> web.Response:
        # Services send reviews only to ready pods: to the one that leads.
        return web.Response(text="ok\n") if self.leading else web.Response(status=503, text="stands by\n")

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve the webhook; yields its URL."""
        runner = web.AppRunner(self.application(), access_log=None)
        await runner.setup()
        try:
            host, port = self._settings.address
            await web.TCPSite(runner, host, port, ssl_context=self._settings.tls).start()
            yield f"{'https' if self._settings.tls is not None else 'http'}://{host}:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def register(self) -> None:
        """Have the API server ask for every binding, from now on."""
        if self._settings.registered is None:
            return
        url, authority = self._settings.registered
        configuration = webhook_configuration(url, authority, exempt=(self._settings.lease_namespace,))
        await self._client.apply(VALIDATING, configuration, field_manager="rota-resolver", force=True)


def webhook_configuration(url: str, authority: bytes, *, exempt: Sequence[str]) -> dict[str, Any]:
    """What makes an API server ask the resolver at a URL, which has a certificate of this CA.

    Bindings in the exempt namespaces are not checked; the watch shows them to the resolver afterwards.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": _NAME},
        "webhooks": [
            {
                "name": "bindings.resolver.rota.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "NoneOnDryRun",
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
                "matchPolicy": "Equivalent",
                # The resolver's own pods are bound without it, or a cluster could never start one.
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(exempt)}
                    ]
                },
                "clientConfig": {
                    "url": f"{url.rstrip('/')}/bindings",
                    "caBundle": base64.b64encode(authority).decode(),
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods/binding", "bindings"],
                        "scope": "Namespaced",
                    }
                ],
            }
        ],
    }
