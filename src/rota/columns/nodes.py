"""A node in the scalar form of plugins: plain Python values, kept equal to the columns by `cluster.Cluster`.

`NodeInfo` is kube-scheduler's type of that name. The cluster owns and changes it; plugins read it. A what-if about one
node changes a `copy`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rota.api import resources
from rota.api.resources import HostPort
from rota.columns import objects
from rota.columns.pods import PodInfo, PodShape

NO_LABELS: Mapping[str, str] = {}


class NodeInfo:
    """A node, the pods on it, and their sums."""

    __slots__ = (
        "allocatable",
        "allowed_pods",
        "images",
        "labels",
        "name",
        "nonzero_cpu",
        "nonzero_memory",
        "pods",
        "ports",
        "requested",
        "row",
        "taints",
        "unschedulable",
    )

    def __init__(self, name: str, row: int) -> None:
        self.name = name
        #: The node's row in every column.
        self.row = row
        self.labels: Mapping[str, str] = NO_LABELS
        self.taints: tuple[objects.Taint, ...] = ()
        self.unschedulable = False
        #: By resource name; cpu in millicores, everything else in units.
        self.allocatable: dict[str, int] = {}
        self.allowed_pods = 0
        #: Sizes in bytes by normalised image name.
        self.images: dict[str, int] = {}
        #: By uid, in order of arrival.
        self.pods: dict[str, PodInfo] = {}
        #: Sums over `pods`; never negative.
        self.requested: dict[str, int] = {}
        self.nonzero_cpu = 0
        self.nonzero_memory = 0
        #: How many pods use each host port.
        self.ports: dict[HostPort, int] = {}

    def add_pod(self, pod: PodInfo) -> None:
        """Add a pod; its uid must be new."""
        shape = pod.shape
        self.pods[pod.uid] = pod
        requested = self.requested
        for resource, amount in shape.requests.items():
            requested[resource] = requested.get(resource, 0) + amount
        cpu, memory = shape.nonzero_requests
        self.nonzero_cpu += cpu
        self.nonzero_memory += memory
        for port in shape.host_ports:
            self.ports[port] = self.ports.get(port, 0) + 1

    def add_pods(self, pods: Iterable[PodInfo], shapes: Mapping[PodShape, int]) -> None:
        """Add many pods, whose uids must be new; `shapes` has the number of pods of each shape."""
        self.pods.update((pod.uid, pod) for pod in pods)
        requested = self.requested
        for shape, number in shapes.items():
            for resource, amount in shape.requests.items():
                requested[resource] = requested.get(resource, 0) + number * amount
            cpu, memory = shape.nonzero_requests
            self.nonzero_cpu += number * cpu
            self.nonzero_memory += number * memory
            for port in shape.host_ports:
                self.ports[port] = self.ports.get(port, 0) + number

    def remove_pod(self, pod: PodInfo) -> None:
        """Remove a pod; it must be the one that was added."""
        shape = self.pods.pop(pod.uid).shape
        requested = self.requested
        for resource, amount in shape.requests.items():
            requested[resource] -= amount
        cpu, memory = shape.nonzero_requests
        self.nonzero_cpu -= cpu
        self.nonzero_memory -= memory
        for port in shape.host_ports:
            if (left := self.ports[port] - 1) > 0:
                self.ports[port] = left
            else:
                del self.ports[port]

    def copy(self) -> "NodeInfo":
        """A copy that can be changed independently; the description of the machine is shared."""
        twin = NodeInfo(self.name, self.row)
        twin.labels = self.labels
        twin.taints = self.taints
        twin.unschedulable = self.unschedulable
        twin.allocatable = self.allocatable
        twin.allowed_pods = self.allowed_pods
        twin.images = self.images
        twin.pods = dict(self.pods)
        twin.requested = dict(self.requested)
        twin.nonzero_cpu = self.nonzero_cpu
        twin.nonzero_memory = self.nonzero_memory
        twin.ports = dict(self.ports)
        return twin


class _Description(NamedTuple):
    """The fields of a node object that describe the machine."""

    labels: Mapping[str, str]
    taints: tuple[objects.Taint, ...]
    unschedulable: bool
    allocatable: dict[str, int]
    allowed_pods: int
    images: dict[str, int]


def _described(node: objects.Node) -> _Description:
    amounts = resources.node_allocatable({"status": {"allocatable": node.status.allocatable}})
    if node.status.allocatable is None:
        amounts = resources.node_allocatable({"status": {"capacity": node.status.capacity}})
    images = {name: image.sizeBytes or 0 for image in node.status.images or () for name in image.names or ()}
    return _Description(
        labels=node.metadata.labels or NO_LABELS,
        taints=tuple(node.spec.taints or ()),
        unschedulable=bool(node.spec.unschedulable),
        allowed_pods=amounts.pop(resources.PODS, 0),
        allocatable=amounts,
        images=images,
    )


def differs(info: NodeInfo, node: objects.Node) -> bool:
    """Whether a node object has a change that placement depends on; heartbeats do not."""
    return any(getattr(info, name) != value for name, value in _described(node)._asdict().items())


def describe(info: NodeInfo, node: objects.Node) -> None:
    """Apply a node object."""
    for name, value in _described(node)._asdict().items():
        setattr(info, name, value)
