"""What runs where: nodes, and the requests of pods by node, zone and owner, kept up to date change by change. Pure.

`cluster_state` sums it up. A change costs the same in a large cluster as in a small one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from rota.api import meta, pod_owners, resources
from rota.api.pod_owners import Workload
from rota.api.resources import PODS

Object = Mapping[str, Any]
Amounts = Mapping[str, int]

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
POWER_LABEL: Final = "rota.dev/power-model"
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
#: The taints of a node that is cordoned or not ready; those are counted as such, not as tainted.
_OF_STATES: Final = frozenset(f"node.kubernetes.io/{state}" for state in ("not-ready", "unreachable", "unschedulable"))
#: The owner of pods that no controller manages.
UNOWNED: Final = Workload("", "")


class Owner(NamedTuple):
    """A workload of a namespace."""

    namespace: str
    workload: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a node declares."""

    labels: Mapping[str, str]
    capacity: Amounts
    allocatable: Amounts
    #: The status of its condition Ready: True, False or Unknown; empty if it has none.
    condition: str
    cordoned: bool
    tainted: bool

    @property
    def ready(self) -> bool:
        """Whether the node is ready."""
        return self.condition == "True"

    @property
    def zone(self) -> str:
        """The zone of the node; empty if it has none."""
        return self.labels.get(ZONE_LABEL, "")


@dataclass(slots=True)
class Sum:
    """Pods, and what they request together."""

    pods: int = 0
    requests: dict[str, int] = field(default_factory=dict)

    def add(self, requests: Amounts, sign: int = 1) -> None:
        """Add a pod, or take it away with `sign` -1."""
        self.pods += sign
        for name, amount in requests.items():
            self.requests[name] = self.requests.get(name, 0) + sign * amount

    def merge(self, other: "Sum") -> None:
        """Add all pods of another sum."""
        self.pods += other.pods
        for name, amount in other.requests.items():
            self.requests[name] = self.requests.get(name, 0) + amount


class _Pod(NamedTuple):
    node: str
    owner: Owner
    requests: Amounts
    #: What owner and requests follow from, to see cheaply that they are the same: most changes are of the status.
    basis: tuple[Any, ...]


class ClusterLayout:
    """The nodes and the pods of a cluster."""

    def __init__(self) -> None:
        self.machines: Final[dict[str, Machine]] = {}
        #: The pods of each node; pods without a node are under the empty name.
        self.placed: Final[dict[str, Sum]] = {}
        self._pods: Final[dict[tuple[str, str], _Pod]] = {}
        self._owners: Final[dict[Owner, dict[str, Sum]]] = {}

    def set_node(self, name: str, node: Object | None) -> None:
        """Take the present state of a node; None if it is gone."""
        if node is None:
            self.machines.pop(name, None)
            return
        spec, status = node.get("spec") or {}, node.get("status") or {}
        allocatable = resources.node_allocatable(node)
        capacity = {key: resources.amount(key, quantity) for key, quantity in (status.get("capacity") or {}).items()}
        self.machines[name] = Machine(
            labels=meta.labels(node),
            capacity=capacity or allocatable,
            allocatable=allocatable,
            condition=str((meta.condition(node, "Ready") or {}).get("status") or ""),
            cordoned=bool(spec.get("unschedulable")),
            tainted=any(
                taint.get("effect") in _BLOCKING and taint.get("key") not in _OF_STATES
                for taint in spec.get("taints") or ()
            ),
        )

    def set_pod(self, namespace: str, name: str, pod: Object | None) -> None:
        """Take the present state of a pod; None if it is gone. Ended pods need nothing."""
        before = self._pods.get((namespace, name))
        if pod is None or (pod.get("status") or {}).get("phase") in _ENDED:
            if before is not None:
                del self._pods[namespace, name]
                self._count(before, -1)
            return
        present = _pod(pod, before)
        if before is not None:
            if present is before:
                return
            self._count(before, -1)
        self._pods[namespace, name] = present
        self._count(present, 1)

    def owners(self) -> Iterator[tuple[Owner, Mapping[str, Sum]]]:
        """Every workload, with its pods by node."""
        yield from self._owners.items()

    def _count(self, pod: _Pod, sign: int) -> None:
        nodes = self._owners.setdefault(pod.owner, {})
        for sums in (self.placed, nodes):
            found = sums.setdefault(pod.node, Sum())
            found.add(pod.requests, sign)
            if not found.pods:
                del sums[pod.node]
        if not nodes:
            del self._owners[pod.owner]


def _pod(pod: Object, before: _Pod | None) -> _Pod:
    spec = pod.get("spec") or {}
    node = spec.get("nodeName") or ""
    basis = (
        *(spec.get(key) for key in ("containers", "initContainers", "overhead", "resources")),
        meta.owner_references(pod),
    )
    if before is not None and before.basis == basis:
        return before if before.node == node else before._replace(node=node)
    workload = next(iter(pod_owners.workloads(pod)), UNOWNED)
    return _Pod(node, Owner(meta.namespace(pod), workload), resources.pod_requests(pod), basis)


def free(machine: Machine, placed: Sum) -> dict[str, int]:
    """What a node has left, its places for pods included; never below zero."""
    taken = {**placed.requests, PODS: placed.pods}
    return {name: max(amount - taken.get(name, 0), 0) for name, amount in machine.allocatable.items()}
