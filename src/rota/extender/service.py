"""The extender as an HTTP service: watches the cluster and answers the stock kube-scheduler.

`POST /filter`, `/prioritize`, `/preempt` and `/bind` are the extender protocol; `/healthz`, `/readyz` and `/metrics`
are for operators. It is ready when its caches are synced, and answers 503 before: a scheduler that treats it as
ignorable then continues without it, and any other retries.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from aiohttp import web

from rota.api import codec, errors, quantities
from rota.client.informers.cache import Key
from rota.client.informers.informer import Informer
from rota.client.informers.reflector import Source
from rota.client.pods import PODS, Binding, bind
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Object
from rota.extender import messages
from rota.extender.answers import Adviser
from rota.extender.columns import Named
from rota.extender.facts import NodeFacts
from rota.extender.messages import Args, MalformedRequest
from rota.extender.view import Placed, View, read_pod
from rota.kit import diagnostics, logs, tasks
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.kit.metrics import Metrics
from rota.spot.node_readings import Capacity, Reading
from rota.spot.policies import PolicyError

_T = TypeVar("_T")

log = logs.get(__name__)

NODES: Final = ("", "v1", "nodes")
#: Thousands of whole nodes are some tens of megabytes.
_MOST_BYTES: Final = 128 * 1024 * 1024
_JSON: Final = "application/json"

_Answer: TypeAlias = Callable[[bytes], Awaitable[bytes]]


class Extender:
    """The state of the service and its handlers."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, view: View, binds: bool = False) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._rng: Final = rng
        self._view: Final = view
        self._adviser: Final = Adviser(view)
        self._binds: Final = binds
        self.metrics: Final = Metrics("extender", process=True)
        self._requests: Final = self.metrics.counter("requests_total", "Requests answered.", ("verb", "code"))
        self._durations: Final = self.metrics.histogram("request_seconds", "How long answers took.", ("verb",))
        ending = self.metrics.gauge("nodes_about_to_end", "Nodes that a notice keeps out.")
        ending.set_function(lambda: sum(one.reading.notice is not None for one in view.nodes.values()))
        self._informers: Final[Sequence[Informer[Any]]] = [
            self._informer(NODES, codec.decode, self._node_changed),
            self._informer(PODS, lambda raw: read_pod(codec.decode(raw)), self._pod_changed),
        ]

    @property
    def synced(self) -> bool:
        """Whether the caches are synced."""
        return all(one.synced for one in self._informers)

    async def run(self) -> None:
        """Watch the cluster until cancelled."""
        async with tasks.Supervisor("extender", clock=self._clock, rng=self._rng) as supervisor:
            for name, informer in zip(("nodes", "pods"), self._informers, strict=True):
                supervisor.start(name, informer.run)
            await supervisor.wait()

    def application(self) -> web.Application:
        """The HTTP application."""
        app = web.Application(client_max_size=_MOST_BYTES)
        verbs: dict[str, _Answer] = {
            "filter": self.filter,
            "prioritize": self.prioritize,
            "preempt": self.preempt,
            **({"bind": self.bind} if self._binds else {}),
        }
        for verb, answer in verbs.items():
            app.router.add_post(f"/{verb}", self._page(verb, answer))
        for path, page in self.health().items():
            app.router.add_get(path, page)
        return app

    def health(self) -> dict[str, diagnostics.Page]:
        """The pages for operators, who may have no client certificate of the schedulers' port."""
        return diagnostics.health(self.metrics, ready=lambda: self.synced)

    async def filter(self, body: bytes) -> bytes:
        """Filter nodes for a pod, in the form of the request."""
        asked = messages.args(body)
        now = self._clock.now()
        try:
            if asked.nodes is None:
                found = self._adviser.filter_named(asked.pod, self._named(asked), now=now)
                return messages.filter_result(names=found.passed, failed=found.failed, unresolvable=found.unresolvable)
            found = self._adviser.filter(asked.pod, self._sent(asked.nodes), now=now)
        except PolicyError as problem:
            # the attempt fails with this message in the pod's event
            return messages.filter_result(error=str(problem))
        passed = set(found.passed)
        whole = [node for node in asked.nodes if node["metadata"]["name"] in passed]
        return messages.filter_result(nodes=whole, failed=found.failed, unresolvable=found.unresolvable)

    async def prioritize(self, body: bytes) -> bytes:
        """Score nodes for a pod."""
        asked = messages.args(body)
        now = self._clock.now()
        if asked.nodes is None:
            named = self._named(asked)
            try:
                scores = self._adviser.prioritize_named(asked.pod, named, now=now)
            except PolicyError:
                scores = [0] * len(named.names)  # filter has reported the error
            return messages.host_priorities_of(named.entries, scores)
        sent = self._sent(asked.nodes)
        try:
            scores = self._adviser.prioritize(asked.pod, sent, now=now)
        except PolicyError:
            scores = [0] * len(sent)
        return messages.host_priorities((one.name, score) for one, score in zip(sent, scores, strict=True))

    async def preempt(self, body: bytes) -> bytes:
        """The nodes on which pods may be preempted for a pod."""
        asked = messages.preemption_args(body)
        candidates = [self._known(name) for name in asked.victims]
        try:
            kept = self._adviser.worth_preempting(asked.pod, candidates)
        except PolicyError:
            kept = []
        return messages.preemption_result(kept, asked)

    async def bind(self, body: bytes) -> bytes:
        """Bind a pod, unless its node is about to end by now."""
        asked = messages.binding_args(body)
        if self._known(asked.node).reading.notice is not None:
            return messages.binding_result(f"node {asked.node} is about to end")
        try:
            await bind(self._client, Binding(namespace=asked.namespace, pod=asked.name, node=asked.node, uid=asked.uid))
        except (errors.ApiError, TransportError) as problem:
            return messages.binding_result(str(problem))
        return messages.binding_result()

    def _named(self, asked: Args) -> Named:
        return self._view.columns.named(asked.node_names or b"[]", messages.names)

    def _sent(self, nodes: Sequence[Mapping[str, Any]]) -> list[NodeFacts]:
        try:
            sent = [self._view.read(node, now=self._clock.now()) for node in nodes]
        except quantities.QuantityError as problem:
            raise MalformedRequest(str(problem)) from None
        for one in sent:
            known = self._view.nodes.get(one.name)
            if known is not None:
                one.used = known.used
        return sent

    def _known(self, name: str) -> NodeFacts:
        """The facts about a node; a node that is too new to be known is not refused."""
        known = self._view.nodes.get(name)
        if known is not None:
            return known
        reading = Reading(capacity=Capacity.UNKNOWN, notice=None, risky="", pool="")
        return NodeFacts(name=name, reading=reading, price=None, zone="", region="", allocatable={})

    def _page(self, verb: str, answer: _Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def page(request: web.Request) -> web.Response:
            begun = self._clock.monotonic()
            code, body = await self._answered(answer, request)
            self._requests.labels(verb, str(code)).inc()
            self._durations.labels(verb).observe(self._clock.monotonic() - begun)
            return web.Response(status=code, body=body, content_type=_JSON if code == 200 else "text/plain")

        return page

    async def _answered(self, answer: _Answer, request: web.Request) -> tuple[int, bytes]:
        if not self.synced:
            return 503, b"the cluster is not known yet"
        try:
            return 200, await answer(await request.read())
        except MalformedRequest as problem:
            return 400, str(problem).encode()

    def _informer(
        self,
        target: tuple[str, str, str],
        decode: Callable[[bytes], _T],
        changed: Callable[[Key, _T | None, _T | None], None],
    ) -> Informer[_T]:
        informer = Informer[_T](
            Source(client=self._client, target=target),
            decode=decode,
            clock=self._clock,
            rng=self._rng,
            metrics=self.metrics,
        )
        informer.add_handler(changed)
        return informer

    def _node_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is None:
            self._view.remove_node(key.name, now=self._clock.now())
        else:
            self._view.put_node(new, now=self._clock.now())

    def _pod_changed(self, _: Key, old: Placed | None, new: Placed | None) -> None:
        if new is not None:
            self._view.put_pod(new)
        elif old is not None:
            self._view.remove_pod(old)


@contextlib.asynccontextmanager
async def serving(extender: Extender, *, host: str, port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve until the block is left; yields the address. Port 0 takes a free one."""
    runner = web.AppRunner(extender.application(), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port, ssl_context=tls).start()
        except OSError as problem:
            why = f"cannot listen on {host}:{port}: {problem.strerror}"
            raise UserError(why, "choose another address with --listen, or port 0 for a free one") from problem
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://{host}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
