"""Compares the scheduler's cache with the API server and lists every difference.

The cache always lags a little, so a single comparison of a busy cluster proves little. A difference that two
comparisons some seconds apart have in common is a fault (`set(first) & set(second)`). An assumed pod that the API
server shows without a node is not a difference.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rota.columns import cluster as clusters
from rota.columns import objects, pods
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.objects import MalformedObjectError
from rota.columns.pod_interner import read_node
from rota.columns.pods import PodInfo
from rota.scheduler.cache.scheduler_cache import SchedulerCache, node_snapshot

Document = Mapping[str, Any]
_DESCRIPTION = ("labels", "taints", "unschedulable", "allocatable", "allowed_pods", "images")


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """One difference between the cache and the API server."""

    kind: str
    #: namespace/name, or the name alone.
    object: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The objects of the API server as plain JSON, without pods that have ended."""

    nodes: Iterable[Document]
    pods: Iterable[Document]
    #: By kind; kinds that are absent are not compared.
    others: Mapping[str, Iterable[Document]]


def compare(
    cache: SchedulerCache, truth: Truth, *, waiting: Collection[str], profiles: Collection[str]
) -> list[Difference]:
    """Compare everything; `waiting` holds the uids of queued pods, `profiles` the names that this scheduler serves.

    Objects that cannot be decoded are in no cache and are not compared.
    """
    nodes = list(_read_nodes(truth.nodes))
    found = list(_read_pods(cache, truth.pods))
    return sorted(
        {
            *_nodes(cache, nodes),
            *_placed(cache, found),
            *_unplaced(cache, found, waiting=waiting, profiles=profiles),
            *_figures(cache, nodes, found),
            *_others(cache, truth.others),
        }
    )


def _read_nodes(documents: Iterable[Document]) -> Iterator[objects.Node]:
    for document in documents:
        try:
            yield read_node(document)
        except MalformedObjectError:
            continue


def _read_pods(cache: SchedulerCache, documents: Iterable[Document]) -> Iterator[PodInfo]:
    for document in documents:
        try:
            yield cache.interner.pod(document)
        except MalformedObjectError:
            continue


def _nodes(cache: SchedulerCache, nodes: Iterable[objects.Node]) -> Iterator[Difference]:
    fresh = clusters.of(nodes)
    cached = cache.cluster.by_name
    for name in fresh.by_name.keys() - cached.keys():
        yield Difference("Node", name, "is not in the cache")
    for name in cached.keys() - fresh.by_name.keys():
        yield Difference("Node", name, "is in the cache and does not exist")
    for name in cached.keys() & fresh.by_name.keys():
        old, new = node_snapshot(cached[name]), node_snapshot(fresh.by_name[name])
        for field in _DESCRIPTION:
            if getattr(old, field) != getattr(new, field):
                yield Difference(
                    "Node", name, f"{field} in the cache: {getattr(old, field)}, is: {getattr(new, field)}"
                )


def _placed(cache: SchedulerCache, found: Iterable[PodInfo]) -> Iterator[Difference]:
    """Compare pods that have a node in the cache or on the API server."""
    exist = {pod.uid: pod for pod in found}
    for pod in cache.pods():
        if pod.uid not in exist:
            kind = "assumed" if cache.is_assumed(pod.uid) else "in the cache"
            yield Difference("Pod", pod.key, f"is {kind} on {pod.node_name} and does not exist")
    for pod in exist.values():
        known = cache.cluster.pods.get(pod.uid)
        if known is None:
            if pod.node_name:
                yield Difference("Pod", pod.key, f"is on {pod.node_name} and not in the cache")
        elif pod.node_name and known.node_name != pod.node_name:
            yield Difference("Pod", pod.key, f"is on {pod.node_name} and in the cache on {known.node_name}")
        elif pod.node_name and cache.is_assumed(pod.uid):
            yield Difference("Pod", pod.key, f"is on {pod.node_name} and in the cache only assumed there")
        elif not pod.node_name and not cache.is_assumed(pod.uid):
            yield Difference("Pod", pod.key, f"is on no node and in the cache on {known.node_name}")
        elif pod.node_name and not pods.equal_shapes(known.shape, pod.shape):
            yield Difference("Pod", pod.key, "has changed since the cache heard of it")


def _unplaced(
    cache: SchedulerCache, found: Iterable[PodInfo], *, waiting: Collection[str], profiles: Collection[str]
) -> Iterator[Difference]:
    """Compare pods that wait for this scheduler with the queue."""
    unplaced = {pod.uid: pod for pod in found if not pod.node_name and pod.shape.scheduler_name in profiles}
    for uid, pod in unplaced.items():
        if uid not in waiting and not cache.is_assumed(uid):
            yield Difference("Pod", pod.key, "wants a node and is not in the queue")
    for uid in set(waiting) - unplaced.keys():
        yield Difference("Pod", uid, "is in the queue and wants no node, or does not exist")


def _figures(cache: SchedulerCache, nodes: Iterable[objects.Node], found: Iterable[PodInfo]) -> Iterator[Difference]:
    """Compute all sums anew and compare them for the nodes that both sides know."""
    fresh = clusters.of(nodes, (pod for pod in found if pod.node_name))
    for uid in cache.assumed:
        if uid not in fresh.pods:
            fresh.add_pod(cache.cluster.pods[uid])
    for name, ours in cache.cluster.by_name.items():
        theirs = fresh.by_name.get(name)
        if theirs is None:
            continue
        counted, expected = _sums(cache.cluster, ours), _sums(fresh, theirs)
        for figure in sorted(counted.keys() | expected.keys()):
            if counted.get(figure, 0) != expected.get(figure, 0):
                problem = f"{figure}: counted {counted.get(figure, 0)}, should be {expected.get(figure, 0)}"
                yield Difference("Node", name, problem)


def _sums(cluster: Cluster, node: NodeInfo) -> dict[str, int]:
    """The sums of a node from both of its representations, scalar and columns; a difference between these shows too."""
    row = node.row
    sums = {f"requested {name}": int(cluster.requested[index, row]) for name, index in cluster.resources.items()}
    sums |= {f"requested {name} (node)": amount for name, amount in node.requested.items() if amount}
    sums |= {
        "pods": int(cluster.pod_count[row]),
        "pods (node)": len(node.pods),
        "counted cpu": int(cluster.nonzero_requested[0, row]),
        "counted memory": int(cluster.nonzero_requested[1, row]),
    }
    return {name: amount for name, amount in sums.items() if amount} | {
        f"host port {'/'.join(map(str, port))}": count for port, count in node.ports.items()
    }


def _others(cache: SchedulerCache, others: Mapping[str, Iterable[Document]]) -> Iterator[Difference]:
    for kind, documents in others.items():
        exist = {_key(document): document for document in documents}
        known = {_key(document): document for document in cache.cluster.catalog.list(kind)}
        for key in exist.keys() - known.keys():
            yield Difference(kind, key, "is not in the cache")
        for key in known.keys() - exist.keys():
            yield Difference(kind, key, "is in the cache and does not exist")
        for key in exist.keys() & known.keys():
            if exist[key] != known[key]:
                yield Difference(kind, key, "has changed since the cache heard of it")


def _key(document: Document) -> str:
    meta = document["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
