"""What a Cluster's status says of a member: its APIs, nodes and resources. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

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


def nodes(listed: Iterable[Object]) -> dict[str, int]:
    """How many nodes there are, and how many are ready."""
    ready = [meta.is_condition_true(node, "Ready") for node in listed]
    return {"totalNum": len(ready), "readyNum": sum(ready)}


def resources_of(listed: Iterable[Object], pods: Iterable[Object]) -> dict[str, dict[str, str]]:
    """What ready nodes can give, what pods on nodes have, and what pods without one ask for."""
    allocatable: dict[str, int] = {}
    for node in listed:
        if meta.is_condition_true(node, "Ready") and not (node.get("spec") or {}).get("unschedulable"):
            _add(allocatable, resources.node_allocatable(node))
    allocated: dict[str, int] = {}
    allocating: dict[str, int] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        held = allocated if (pod.get("spec") or {}).get("nodeName") else allocating
        _add(held, {**resources.pod_requests(pod), resources.PODS: 1})
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
