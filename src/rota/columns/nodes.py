"""A node in the scalar form of plugins: plain Python values, kept equal to the columns by `cluster.Cluster`.

`NodeInfo` is kube-scheduler's type of that name. The cluster owns and changes it; plugins read it. A what-if about one
node changes a `copy`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rota.api import gpu_devices, resources
from rota.api.gpu_devices import MILLI, Devices
from rota.api.resources import HostPort
from rota.columns import objects
from rota.columns.pods import PodInfo, PodShape

NO_LABELS: Mapping[str, str] = {}


class NodeInfo:
    """A node, the pods on it, and their sums."""

    __slots__ = (
        "allocatable",
        "allowed_pods",
        "gpu_free",
        "gpu_held",
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
        #: Thousandths that are free of each GPU device.
        self.gpu_free: list[int] = []
        #: The GPU devices of pods that have some, by uid. A pod that names none is counted on those that fit best.
        self.gpu_held: dict[str, Devices] = {}

    @property
    def pods_left(self) -> int:
        """How many more pods the node takes."""
        return self.allowed_pods - len(self.pods)

    def free(self, resource: str) -> int:
        """What is free of a resource; negative if more is requested than the node has."""
        return self.allocatable.get(resource, 0) - self.requested.get(resource, 0)

    def add_pod(self, pod: PodInfo, devices: Devices | None = None) -> None:
        """Add a pod, on these GPU devices if they are given; its uid must be new."""
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
        if self.gpu_free:
            self.hold_devices(pod, devices)

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
        if self.gpu_free:
            for pod in sorted(pods, key=lambda pod: not pod.gpu_devices):
                self.hold_devices(pod)

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
        if self.gpu_held:
            self.release_devices(pod)

    def hold_devices(self, pod: PodInfo, devices: Devices | None = None) -> None:
        """Count a pod on GPU devices: these (none, if empty), or its own, or those that fit best.

        Too few devices count nothing.
        """
        wanted = gpu_devices.demand(pod.shape.requests)
        if not wanted.gpus:
            return
        free = self.gpu_free
        chosen = (pod.gpu_devices or gpu_devices.best_fit(free, wanted)) if devices is None else devices
        if not chosen or chosen[-1] >= len(free):
            return
        self.gpu_held[pod.uid] = chosen
        for device in chosen:
            free[device] -= wanted.milli

    def release_devices(self, pod: PodInfo) -> None:
        """Take back `hold_devices`."""
        devices = self.gpu_held.pop(pod.uid, ())
        if devices:
            milli = gpu_devices.demand(pod.shape.requests).milli
            for device in devices:
                self.gpu_free[device] += milli

    def count_devices(self) -> None:
        """Count the GPU devices of all pods, after the node has changed; pods keep the devices that they had."""
        held = self.gpu_held
        self.gpu_free, self.gpu_held = [MILLI] * gpu_devices.number(self.allocatable), {}
        if not self.gpu_free:
            return
        pods = sorted(self.pods.values(), key=lambda pod: not (pod.gpu_devices or held.get(pod.uid)))
        for pod in pods:
            self.hold_devices(pod, pod.gpu_devices or held.get(pod.uid))

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
        twin.gpu_free = list(self.gpu_free)
        twin.gpu_held = dict(self.gpu_held)
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
    if gpu_devices.number(info.allocatable) != len(info.gpu_free):
        info.count_devices()
