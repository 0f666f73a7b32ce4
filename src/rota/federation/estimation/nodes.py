"""The accurate estimator: the free capacity of a cluster's nodes, with their labels and taints."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from rota.api import meta, nodeselectors, resources, selectors
from rota.federation import tolerations
from rota.federation.estimation import amounts, simulation

Object: TypeAlias = Mapping[str, Any]

_UNSCHEDULABLE: Object = {"key": "node.kubernetes.io/unschedulable", "effect": tolerations.NO_SCHEDULE}


def rooms(nodes: Iterable[Object], pods: Iterable[Object]) -> list[simulation.Room]:
    """What is free on each node, in the order given."""
    used: dict[str, list[Object]] = {}
    for pod in pods:
        used.setdefault((pod.get("spec") or {}).get("nodeName") or "", []).append(pod)
    return [_room(node, used.get(meta.name(node), ())) for node in nodes]


def replicas(nodes: Sequence[simulation.Room], requirements: Object | None, assumed: Sequence[Object] = ()) -> int:
    """How many replicas fit all nodes together."""
    simulation.deduct(nodes, assumed)
    needed: Object = requirements or {}
    request, claim = amounts.read(needed.get("resourceRequest")), needed.get("nodeClaim")
    return sum(amounts.times_contained(room.free, request) for room in nodes if room.admits(claim))


def sets(
    nodes: Sequence[simulation.Room],
    components: Sequence[Object],
    assumed: Sequence[Object] = (),
    *,
    at_most: int = amounts.INT32_MAX,
) -> int:
    """How many complete sets of components fit, first fit; no more than `at_most` are tried."""
    simulation.deduct(nodes, assumed)
    return simulation.complete_sets(nodes, components, at_most)


def _room(node: Object, pods: Sequence[Object]) -> simulation.Room:
    free = amounts.read((node.get("status") or {}).get("allocatable"))
    for pod in pods:
        for name, wanted in resources.pod_requests(pod).items():
            if name in free and name != amounts.PODS:
                free[name] = max(free[name] - wanted, 0)
    free[amounts.PODS] = max(free.get(amounts.PODS, 0) - len(pods), 0)
    return room(meta.name(node), meta.labels(node), node.get("spec") or {}, free)


def room(name: str, labels: Mapping[str, str], spec: Object, free: amounts.Amounts) -> simulation.Room:
    """What is free on a node, for the claims that its labels and the taints of its spec admit."""
    taints = tuple(spec.get("taints") or ())

    def admits(claim: Object | None) -> bool:
        claim = claim or {}
        tolerated = claim.get("tolerations") or ()
        if spec.get("unschedulable") and not any(tolerations.tolerates(one, _UNSCHEDULABLE) for one in tolerated):
            return False
        if tolerations.first_untolerated(taints, tolerated, tolerations.keeps_out) is not None:
            return False
        if not selectors.from_labels(claim.get("nodeSelector")).matches(labels):
            return False
        hard = claim.get("hardNodeAffinity")
        return hard is None or nodeselectors.compile_selector(hard).matches(labels, name)

    return simulation.Room(free, admits)
