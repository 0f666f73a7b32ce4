"""The cluster as an API server (Rota's or a stock one) or a dump shows it at one moment, for one-off commands.

Everything that decisions read is listed once. Kinds that the server does not have, or does not let the user read, are
left out and named; without nodes and pods there is no snapshot.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from rota.api import errors
from rota.client.paths import Target
from rota.client.pods import PODS
from rota.client.verbs import Client, Selection
from rota.columns.cluster import Cluster
from rota.columns.pod_interner import PodInterner
from rota.columns.pods import PodInfo
from rota.scheduler.framework.nominated_pods import Nominations
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.ingest import decoder, watched_kinds
from rota.scheduler.ingest.decoder import Document, NodeRecord, Unreadable
from rota.scheduler.status import object_references

_T = TypeVar("_T")

_NODES: Final = ("", "v1", "nodes")
_PRIORITY_CLASSES: Final = ("scheduling.k8s.io", "v1", "priorityclasses")
#: Pods that have ended use no resources of a node.
_LIVING: Final = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")
_PAGE: Final = 2000


@dataclass(slots=True)
class ClusterSnapshot:
    """A cluster that does not change; also the `ClusterReader` of extenders."""

    cluster: Cluster = field(default_factory=Cluster)
    interner: PodInterner = field(default_factory=PodInterner)
    #: Pods without a node.
    waiting: list[PodInfo] = field(default_factory=list)
    #: The nominated ones of them.
    nominations: dict[str, list[PodInfo]] = field(default_factory=dict)
    #: Kinds that could not be read.
    left_out: list[str] = field(default_factory=list)
    _raw_nodes: dict[str, bytes] = field(default_factory=dict)

    def node(self, name: str) -> msgspec.Raw | None:
        """See `ClusterReader.node`."""
        raw = self._raw_nodes.get(name)
        return None if raw is None else msgspec.Raw(raw)

    def pod(self, uid: str) -> Document | None:
        """See `ClusterReader.pod`; an explanation asks no extender about victims, so the name is enough."""
        known = self.cluster.pods.get(uid)
        return None if known is None else object_references.of_pod(known)

    def pods_on(self, node: str) -> Mapping[str, PodInfo] | None:
        """See `ClusterReader.pods_on`."""
        found = self.cluster.by_name.get(node)
        return None if found is None else found.pods

    def nominated(self) -> Nominations | None:
        """The nominations, if there are any."""
        return self.nominations or None

    def _add_node(self, node: NodeRecord) -> None:
        self.cluster.set_node(node.view)
        self._raw_nodes[node.view.metadata.name] = node.raw

    def _add_pod(self, pod: PodInfo) -> None:
        if pod.node_name:
            self.cluster.add_pod(pod)
            return
        self.waiting.append(pod)
        if pod.nominated_node:
            self.nominations.setdefault(pod.nominated_node, []).append(pod)


async def take(client: Client, frameworks: Iterable[Framework] = ()) -> ClusterSnapshot:
    """List everything, including the kinds that plugins of these profiles declare."""
    snapshot = ClusterSnapshot()
    nodes, pods = await asyncio.gather(
        _listed(client, _NODES, decoder.nodes), _listed(client, PODS, decoder.pods(snapshot.interner), _LIVING)
    )
    for node in nodes:
        snapshot._add_node(node)
    for pod in pods:
        if isinstance(pod, PodInfo):
            snapshot._add_pod(pod)
    watched = (*watched_kinds.BUILTIN.values(), *watched_kinds.declared(frameworks).values())
    for kind, target in (*((each.kind, each.target) for each in watched), ("PriorityClass", _PRIORITY_CLASSES)):
        try:
            for document in await _listed(client, target, decoder.others(kind)):
                snapshot.cluster.catalog.put(kind, document)
        except (errors.NotFound, errors.Forbidden):
            snapshot.left_out.append(kind)
    return snapshot


def of_documents(documents: Iterable[Mapping[str, Any]], frameworks: Iterable[Framework] = ()) -> ClusterSnapshot:
    """A snapshot of objects that were read elsewhere, such as those of a dump; ended pods are left out."""
    snapshot = ClusterSnapshot()
    read_pod = decoder.pods(snapshot.interner)
    watched = (*watched_kinds.BUILTIN.values(), *watched_kinds.declared(frameworks).values())
    others = {kind: decoder.others(kind) for kind in (*(each.kind for each in watched), "PriorityClass")}
    for document in documents:
        kind, raw = document.get("kind", ""), msgspec.json.encode(document)
        if kind == "Node":
            node = decoder.nodes(raw)
            if isinstance(node, NodeRecord):
                snapshot._add_node(node)
        elif kind == "Pod":
            pod = read_pod(raw)
            if isinstance(pod, PodInfo):
                snapshot._add_pod(pod)
        elif kind in others:
            other = others[kind](raw)
            if not isinstance(other, Unreadable):
                snapshot.cluster.catalog.put(kind, other)
    return snapshot


async def _listed(
    client: Client, target: Target, read: Callable[[bytes], _T | Unreadable], selection: Selection | None = None
) -> list[_T]:
    """All objects of a kind that can be decoded."""
    found: list[_T] = []
    async for page in client.pages(target, selection=selection or Selection(), limit=_PAGE):
        if page is None:
            found.clear()
            continue
        for raw in page.items:
            each: Any = read(raw)
            if not isinstance(each, Unreadable):
                found.append(each)
    return found
