"""What a Cluster's status says of a member: its APIs, nodes and resources. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from rota.api import meta, quantities, resources
from rota.api.kinds import ResourceType

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
    """What a summary counts of a node; nothing is allocatable on one that takes no pods."""

    is_ready: bool
    allocatable: Mapping[str, int]


class PodShare(NamedTuple):
    """What a summary counts of a pod that has not ended."""

    has_node: bool
    requests: Mapping[str, int]


def node_share(node: Object) -> NodeShare:
    """What counts of a node."""
    is_ready = meta.is_condition_true(node, "Ready")
    is_usable = is_ready and not (node.get("spec") or {}).get("unschedulable")
    return NodeShare(is_ready, resources.node_allocatable(node) if is_usable else {})


def pod_share(pod: Object) -> PodShare | None:
    """What counts of a pod; None if it has ended."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return None
    return PodShare(bool((pod.get("spec") or {}).get("nodeName")), {**resources.pod_requests(pod), resources.PODS: 1})


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
        _add(allocated if pod.has_node else allocating, pod.requests)
    return {
        "allocatable": _written(allocatable),
        "allocated": _written(allocated),
        "allocating": _written(allocating),
    }


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
