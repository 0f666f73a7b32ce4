"""The views that a tab can subscribe to, the collections that each one reads, and how an object is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api.batch import kinds as batch
from rota.client.masters import LEASES
from rota.client.paths import Target
from rota.client.rights import Right
from rota.web.views import forecasts, moves, nodes, objects, overview, pods
from rota.web.views.view import View

Read: TypeAlias = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Collection:
    """Objects of one kind, and what is kept of each."""

    target: tuple[str, str, str]
    read: Read


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewKind:
    """A view that can be subscribed to."""

    collections: tuple[str, ...]
    #: Makes the view of a namespace, or of all.
    make: Callable[[str], View]
    #: Whether it can be limited to a namespace.
    namespaced: bool = False
    #: The shortest time between two deltas.
    every_s: float = 0.25
    #: Whether it is kept when no tab is open, because it has a history.
    kept: bool = False


def _objects(target: Target) -> Collection:
    assert isinstance(target, tuple), "kinds are named by group, version and plural here"
    return Collection(target, objects.read)


COLLECTIONS: Final[Mapping[str, Collection]] = {
    "pods": Collection(("", "v1", "pods"), pods.read),
    "nodes": Collection(("", "v1", "nodes"), nodes.read),
    "leases": Collection(LEASES, overview.read_lease),
    "namespaces": _objects(("", "v1", "namespaces")),
    "pipelines": _objects(("rota.dev", "v1alpha1", "pipelines")),
    "pipelineruns": _objects(("rota.dev", "v1alpha1", "pipelineruns")),
    "stepruns": _objects(("rota.dev", "v1alpha1", "stepruns")),
    "schedulers": _objects(("rota.dev", "v1alpha1", "schedulerinstances")),
    "shardmaps": _objects(("rota.dev", "v1alpha1", "shardmaps")),
    "queues": _objects(batch.QUEUES),
    "podgroups": _objects(batch.POD_GROUPS),
    "batchjobs": _objects(batch.JOBS),
    "jobs": _objects(("batch", "v1", "jobs")),
    "deployments": _objects(("apps", "v1", "deployments")),
    "statefulsets": _objects(("apps", "v1", "statefulsets")),
    "daemonsets": _objects(("apps", "v1", "daemonsets")),
    "forecasts": Collection(("rota.dev", "v1alpha1", "nodeforecasts"), forecasts.read),
    "clusters": _objects(("cluster.karmada.io", "v1alpha1", "clusters")),
    "bindings": _objects(("work.karmada.io", "v1alpha2", "resourcebindings")),
}
_CLUSTER_WIDE: Final = frozenset({"nodes", "namespaces", "queues", "clusters", "schedulers", "shardmaps"})

VIEWS: Final[Mapping[str, ViewKind]] = {
    "overview": ViewKind(
        collections=("nodes", "pods", "leases"), make=lambda _: overview.Overview(), every_s=0.5, kept=True
    ),
    "nodes": ViewKind(collections=("nodes", "pods"), make=lambda _: nodes.NodeTable()),
    "pods": ViewKind(collections=("pods",), make=pods.PodTable, namespaced=True),
    "moves": ViewKind(collections=("bindings", "clusters"), make=lambda _: moves.MoveTable(), kept=True),
    "forecasts": ViewKind(collections=("forecasts",), make=forecasts.ForecastTable, every_s=1.0),
    **{
        name: ViewKind(collections=(name,), make=objects.ObjectTable, namespaced=name not in _CLUSTER_WIDE)
        for name, one in COLLECTIONS.items()
        if one.read is objects.read
    },
}


def rights(view: ViewKind, namespace: str) -> tuple[Right, ...]:
    """What a user must be allowed to, to see a view."""
    return tuple(
        Right(verb=verb, group=group, resource=plural, namespace=namespace)
        for group, _, plural in (COLLECTIONS[one].target for one in view.collections)
        for verb in ("list", "watch")
    )
