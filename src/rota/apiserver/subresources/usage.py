"""The group `metrics.k8s.io`: current usage of nodes and pods, for `kubectl top` and autoscalers.

Nothing is stored. A request queries all workers at once; a worker's response is cached for a few seconds, and
concurrent requests share one query. A worker that does not answer in time is left out, as are pods without running
containers.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from rota.api import errors, fieldselectors, selectors, times
from rota.api.fieldselectors import FieldSelector
from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver.interfaces import Object, Registry, Reply, Stored, SubresourceHandler, SubresourceRequest
from rota.apiserver.subresources import worker_addresses
from rota.apiserver.subresources.binder import NODES, PODS
from rota.apiserver.subresources.summaries import Disk, Network, Summary, Used
from rota.apiserver.subresources.worker_addresses import Address
from rota.kit import logs
from rota.kit.clock import Clock

log = logs.get(__name__)

_GROUP: Final = "metrics.k8s.io"
_API_VERSION: Final = f"{_GROUP}/v1beta1"
NODE_METRICS: Final = ResourceType(
    group=_GROUP,
    version="v1beta1",
    kind="NodeMetrics",
    plural="nodes",
    namespaced=False,
    verbs=("get", "list"),
    model="metrics_v1beta1.NodeMetrics",
)
POD_METRICS: Final = ResourceType(
    group=_GROUP,
    version="v1beta1",
    kind="PodMetrics",
    plural="pods",
    namespaced=True,
    verbs=("get", "list"),
    model="metrics_v1beta1.PodMetrics",
)
#: Reported besides cpu and memory: disk usage, and bytes received and sent since the interface came up.
STORAGE: Final = "ephemeral-storage"
RECEIVED: Final = "rota.dev/network-received"
SENT: Final = "rota.dev/network-sent"
#: How long a worker's response is cached.
_KEPT_S: Final = 10.0
_PATIENCE_S: Final = 5.0
#: How many workers are queried at a time.
_AT_ONCE: Final = 64
_SELECTABLE: Final = frozenset({"metadata.name", "metadata.namespace"})


class UsageSource(Protocol):
    """Queries workers for usage."""

    async def usage(self, node: str, address: Address | None, /) -> Summary:
        """The response of a node's worker; ApiError if it is not available."""
        ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """A worker's response, or the running query."""

    at: float
    answer: "asyncio.Task[Summary | None]"


class Usages:
    """The recent responses of workers."""

    def __init__(self, source: UsageSource, clock: Clock) -> None:
        self._source: Final = source
        self._clock: Final = clock
        self._known: Final[dict[str, _Asked]] = {}
        self._places: Final = asyncio.Semaphore(_AT_ONCE)

    async def of(self, nodes: Iterable[Object]) -> dict[str, Summary]:
        """The responses of the workers of some nodes, by node name, without those that failed."""
        now = self._clock.monotonic()
        for name in [name for name, asked in self._known.items() if now - asked.at > _KEPT_S and asked.answer.done()]:
            del self._known[name]
        asked = {}
        for node in nodes:
            name = node["metadata"]["name"]
            if name not in self._known:
                asking = asyncio.create_task(self._ask(name, worker_addresses.of_node(node)))
                self._known[name] = _Asked(now, asking)
            asked[name] = self._known[name].answer
        # The query continues if one of its waiters is cancelled.
        answers = await asyncio.gather(*(asyncio.shield(one) for one in asked.values()))
        return {name: answer for name, answer in zip(asked, answers, strict=True) if answer is not None}

    async def _ask(self, node: str, address: Address | None) -> Summary | None:
        try:
            async with self._places:
                return await self._clock.wait_for(self._source.usage(node, address), _PATIENCE_S)
        except (errors.ApiError, TimeoutError) as problem:
            log.info("cannot read the usage of a node", node=node, error=str(problem) or "no answer in time")
            return None


class NodeMetrics:
    """GET of one node's usage, or of all."""

    def __init__(self, usages: Usages) -> None:
        self._usages: Final = usages

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """The known usage."""
        resource = registry.resource(NODES)
        if request.at.name:
            found: Sequence[Stored] = [await registry.read(resource, "", request.at.name)]
        else:
            found = await _selected(registry, resource, None, request.query)
        nodes = [one.object for one in found]
        said = await self._usages.of(nodes)
        items = [
            {
                **_head(node, "NodeMetrics", summary, at=request.at.now),
                "usage": usage | _beside(summary.node.disk, summary.node.network),
            }
            for node in nodes
            if (summary := said.get(node["metadata"]["name"])) is not None
            and (usage := _usage(summary.node)) is not None
        ]
        return _reply(request, NODE_METRICS, items)


class PodMetrics:
    """GET of one pod's usage, or of those of a namespace, or of all."""

    def __init__(self, usages: Usages) -> None:
        self._usages: Final = usages

    async def handle(self, request: SubresourceRequest, registry: Registry, /) -> Reply:
        """The known usage."""
        resource, at = registry.resource(PODS), request.at
        if at.name:
            found: Sequence[Stored] = [await registry.read(resource, at.namespace, at.name)]
        else:
            found = await _selected(registry, resource, at.namespace or None, request.query)
        placed = [one.object for one in found if one.object["spec"].get("nodeName")]
        wanted = {pod["spec"]["nodeName"] for pod in placed}
        if len(wanted) == 1:
            node = await registry.find(registry.resource(NODES), "", *wanted)
            nodes = [] if node is None else [node.object]
        else:
            every = await registry.list(registry.resource(NODES)) if wanted else ()
            nodes = [one.object for one in every if one.object["metadata"]["name"] in wanted]
        said = await self._usages.of(nodes)
        # Only a pod's own node reports it.
        known = {(node, pod.pod.uid): pod for node, summary in said.items() for pod in summary.pods}
        items = []
        for pod in placed:
            node_name = pod["spec"]["nodeName"]
            reported = known.get((node_name, pod["metadata"]["uid"]))
            used = [
                {"name": one.name, "usage": usage}
                for one in (reported.containers if reported is not None else ())
                if (usage := _usage(one)) is not None
            ]
            if reported is not None and used:
                head = _head(pod, "PodMetrics", said[node_name], at=at.now)
                items.append({**head, "containers": used, "usage": _beside(reported.disk, reported.network)})
        return _reply(request, POD_METRICS, items)


def handlers(source: UsageSource, clock: Clock) -> dict[tuple[GroupResource, str], SubresourceHandler]:
    """By resource."""
    usages = Usages(source, clock)
    return {
        (NODE_METRICS.group_resource, ""): NodeMetrics(usages),
        (POD_METRICS.group_resource, ""): PodMetrics(usages),
    }


async def _selected(
    registry: Registry, resource: ResourceType, namespace: str | None, query: Mapping[str, str]
) -> list[Stored]:
    try:
        labels = selectors.parse(query.get("labelSelector", ""))
        fields = fieldselectors.parse(query.get("fieldSelector", ""))
    except (selectors.SelectorError, fieldselectors.FieldSelectorError) as error:
        raise errors.bad_request(str(error)) from None
    _refuse_others(fields)
    return [
        one
        for one in await registry.list(resource, namespace)
        if labels.matches(one.object["metadata"].get("labels") or {})
        and fields.matches({name: one.object["metadata"].get(name[9:], "") for name in _SELECTABLE})
    ]


def _refuse_others(fields: FieldSelector) -> None:
    for term in fields.terms:
        if term.field not in _SELECTABLE:
            raise errors.bad_request(f"field label not supported: {term.field}")


def _head(about: Object, kind: str, summary: Summary, *, at: float) -> Object:
    metadata = about["metadata"]
    shown = {name: metadata[name] for name in ("name", "namespace", "labels") if metadata.get(name)}
    return {
        "kind": kind,
        "apiVersion": _API_VERSION,
        "metadata": {**shown, "creationTimestamp": times.format_time(at)},
        "timestamp": summary.node.cpu.time,
        "window": f"{summary.window:.3f}s",
    }


def _usage(used: Used) -> dict[str, str] | None:
    """As quantities; None if one of them is unknown."""
    cpu, memory = used.cpu.nanocores, used.memory.working_set
    if cpu is None or memory is None:
        return None
    return {"cpu": f"{cpu}n", "memory": f"{memory // 1024}Ki"}


def _beside(disk: Disk, network: Network) -> dict[str, str]:
    """Other known values, in bytes."""
    amounts = {STORAGE: disk.used, RECEIVED: network.received, SENT: network.sent}
    return {name: str(amount) for name, amount in amounts.items() if amount is not None}


def _reply(request: SubresourceRequest, resource: ResourceType, items: list[Object]) -> Reply:
    if request.at.name:
        if not items:
            raise errors.not_found(resource.group_resource, request.at.name)
        return Reply(object=items[0])
    listed = {"kind": resource.list_kind, "apiVersion": _API_VERSION, "metadata": {}, "items": items}
    return Reply(object=listed)
