"""What a Cluster's status says of a member: its APIs, nodes and resources. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from rota.api import meta, quantities, resources
from rota.api.kinds import ResourceType
from rota.federation.estimation.member_nodes import NodeCapacity

Object: TypeAlias = Mapping[str, Any]

_BINARY: Final = frozenset({resources.MEMORY, resources.EPHEMERAL_STORAGE})
_ENDED: Final = frozenset({"Succeeded", "Failed"})


def enablements(types: Iterable[ResourceType]) -> list[dict[str, Any]]:
    """The APIs that a member serves, by group and version."""
    found: dict[str, list[dict[str, str]]] = {}
    for one in types:
        found.setdefault(one.api_version, []).append({"name": one.plural, "kind": one.kind})
    return [
        {"groupVersion": version, "resources": sorted(found[version], key=lambda one: one["name"])}
        for version in sorted(found)
    ]


class NodeShare(NamedTuple):
    """What summaries and estimates count of a node."""

    is_ready: bool
    #: Nothing, if the node takes no pods.
    allocatable: Mapping[str, int]
    node: NodeCapacity


class PodShare(NamedTuple):
    """What summaries and estimates count of a pod that has not ended."""

    #: The name of its node; empty if it has none.
    node: str
    requests: Mapping[str, int]


def node_share(node: Object) -> NodeShare:
    """What counts of a node; ValueError if its labels or taints are none."""
    is_ready = meta.is_condition_true(node, "Ready")
    spec: Object = node.get("spec") or {}
    unschedulable = bool(spec.get("unschedulable"))
    total = resources.node_allocatable(node)
    # A member may be hostile, and placement reads these of all members.
    labels = msgspec.convert(meta.labels(node), dict[str, str])
    taints = msgspec.convert(spec.get("taints") or (), tuple[dict[str, str | None], ...])
    capacity = NodeCapacity(str(meta.name(node)), labels, taints, unschedulable, total)
    return NodeShare(is_ready, total if is_ready and not unschedulable else {}, capacity)


def pod_share(pod: Object) -> PodShare | None:
    """What counts of a pod; None if it has ended."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return None
    return PodShare((pod.get("spec") or {}).get("nodeName") or "", {**resources.pod_requests(pod), resources.PODS: 1})


def nodes(shares: Iterable[NodeShare]) -> dict[str, int]:
    """How many nodes there are, and how many are ready."""
    ready = [share.is_ready for share in shares]
    return {"totalNum": len(ready), "readyNum": sum(ready)}


def resources_of(of_nodes: Iterable[NodeShare], of_pods: Iterable[PodShare]) -> dict[str, dict[str, str]]:
    """What ready nodes can give, what pods on nodes have, and what pods without one ask for."""
    allocatable: dict[str, int] = {}
    for node in of_nodes:
        _add(allocatable, node.allocatable)
    allocated: dict[str, int] = {}
    allocating: dict[str, int] = {}
    for pod in of_pods:
        _add(allocated if pod.node else allocating, pod.requests)
    return {
        "allocatable": _written(allocatable),
        "allocated": _written(allocated),
        "allocating": _written(allocating),
    }


def capacities(of_nodes: Iterable[NodeShare], of_pods: Iterable[PodShare]) -> tuple[NodeCapacity, ...]:
    """What the pods of each node leave free there."""
    used: dict[str, dict[str, int]] = {}
    for pod in of_pods:
        if pod.node:
            _add(used.setdefault(pod.node, {}), pod.requests)
    return tuple(
        share.node._replace(
            free={
                name: max(amount - used.get(share.node.name, {}).get(name, 0), 0)
                for name, amount in share.node.free.items()
            }
        )
        for share in of_nodes
    )


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _written(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: _quantity(name, amount) for name, amount in sorted(amounts.items())}


def _quantity(name: str, amount: int) -> str:
    if name == resources.CPU:
        return str(quantities.from_milli(amount))
    notation = quantities.Format.BINARY_SI if name in _BINARY else quantities.Format.DECIMAL_SI
    return str(quantities.from_value(amount, notation))
