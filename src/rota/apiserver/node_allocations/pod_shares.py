"""The resources that a pod takes of a node, the sum over all pods, and whether one more fits. Pure.

A pod counts from its binding until it has finished (Succeeded, Failed) or is gone; a terminating pod still runs, and
counts. Requests and ports are those of `rota.api.resources`, GPU devices those of `rota.api.gpu_devices`, as for the
scheduler.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, Self

import msgspec

from rota.api import attachable_volumes, conflict_reasons, gangs, gpu_devices, resources
from rota.api.attachable_volumes import Attached
from rota.api.batch import kinds as batch_kinds
from rota.api.gpu_devices import Devices
from rota.apiserver.node_allocations import host_anti_affinity
from rota.apiserver.node_allocations.host_anti_affinity import HostTerm

FINISHED: Final = frozenset({"Succeeded", "Failed"})
#: What a stored pod has if it is a member of a group, or of a gang with a port; other pods are not decoded for it.
_GROUP_MARK: Final = b'/group-name"'
_PORT_MARK: Final = f'"{gangs.PORT_LABEL}"'.encode()


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim that a pod mounts: by its name, or an ephemeral one by the name of the pod's volume."""

    name: str
    ephemeral: bool = False

    def claim(self, pod: str) -> str:
        """The name of the claim of a pod."""
        return f"{pod}-{self.name}" if self.ephemeral else self.name


@dataclass(frozen=True, slots=True)
class PodAllocation:
    """What one pod takes of a node, besides one of the node's pods."""

    requests: Mapping[str, int]
    ports: tuple[resources.HostPort, ...] = ()
    #: The GPU devices that it has; none before its binding, and on nodes that do not share GPUs.
    devices: Devices = ()
    #: Pods that it excludes from its node.
    excluded: tuple[HostTerm, ...] = ()
    claims: tuple[ClaimUse, ...] = ()
    #: Volumes that it names itself, without a claim.
    disks: tuple[Attached, ...] = ()
    #: The name of its PodGroup; empty for an allocation that does not know the pod's metadata.
    group: str = ""


@dataclass(slots=True)
class NodeAllocation:
    """What all pods on a node take together."""

    pods: int = 0
    amounts: dict[str, int] = field(default_factory=dict)
    ports: Counter[resources.HostPort] = field(default_factory=Counter)
    #: Thousandths that are taken of each GPU device, by number.
    devices: Counter[int] = field(default_factory=Counter)
    #: Whole GPUs of pods that do not name their devices.
    unassigned: int = 0

    def add(self, share: PodAllocation, number: int = 1) -> None:
        """Add one pod, or several equal ones."""
        self._count(share, number)

    def remove(self, share: PodAllocation) -> None:
        """Remove one pod."""
        self._count(share, -1)

    def copy(self) -> Self:
        """A copy to add to."""
        return type(self)(self.pods, dict(self.amounts), self.ports.copy(), self.devices.copy(), self.unassigned)

    def _count(self, share: PodAllocation, number: int) -> None:
        self.pods += number
        for name, amount in share.requests.items():
            total = self.amounts.get(name, 0) + number * amount
            if total:
                self.amounts[name] = total
            else:
                self.amounts.pop(name, None)
        for port in share.ports:
            self.ports[port] += number
            if not self.ports[port]:
                del self.ports[port]
        wanted = gpu_devices.demand(share.requests)
        if wanted.gpus and not share.devices:
            self.unassigned += number * wanted.gpus
        for device in share.devices:
            self.devices[device] += number * wanted.milli
            if not self.devices[device]:
                del self.devices[device]


@dataclass(frozen=True, slots=True)
class Collision:
    """Why a pod cannot be bound: a resource or port that the node lacks, a pod there, a claim, a volume or a queue."""

    #: `InsufficientResource`, `PortConflict`, `AntiAffinityConflict`, `ClaimInUse`, `VolumeLimitExceeded` or
    #: `QueueLimitExceeded`, as a cause of a `Status`.
    kind: str
    #: The resource, the port as address/protocol/number, the pod or claim as namespace/name, the driver, the queue.
    what: str
    message: str
    #: Of `conflict_reasons`.
    reason: str


def free(allocatable: Mapping[str, int], usage: NodeAllocation) -> dict[str, int]:
    """The free resources of a node, the number of pods included."""
    left = resources.subtract(allocatable, usage.amounts)
    left[resources.PODS] = allocatable.get(resources.PODS, 0) - usage.pods
    return left


def collisions(share: PodAllocation, allocatable: Mapping[str, int], usage: NodeAllocation) -> list[Collision]:
    """Why one more pod does not fit; an empty list means that it does."""
    found = [
        Collision(
            "InsufficientResource",
            one.resource,
            f"{one.reason}: requested {resources.shown(one.resource, one.requested)}, "
            f"free {resources.shown(one.resource, one.free)}",
            conflict_reasons.CAPACITY,
        )
        for one in resources.fits(free(allocatable, usage), share.requests)
    ]
    for port in resources.conflicting_ports(share.ports, usage.ports):
        name = f"{port.address}/{port.protocol}/{port.port}"
        found.append(Collision("PortConflict", name, f"host port {name} is taken", conflict_reasons.PORT))
    wanted = gpu_devices.demand(share.requests)
    if found or not wanted.gpus or not gpu_devices.shareable(allocatable):
        return found
    why = _device_shortage(share, free_devices(allocatable, usage), wanted, usage.unassigned)
    return [Collision("InsufficientResource", wanted.resource, why, conflict_reasons.DEVICE)] if why else []


def free_devices(allocatable: Mapping[str, int], usage: NodeAllocation) -> list[int]:
    """Thousandths that are free of each GPU device of a node, by number."""
    return [gpu_devices.MILLI - usage.devices[each] for each in range(gpu_devices.number(allocatable))]


def _device_shortage(share: PodAllocation, free: list[int], wanted: gpu_devices.Demand, unassigned: int) -> str:
    if why := gpu_devices.contradictory(share.requests) or gpu_devices.shortage(free, wanted, share.devices):
        return why
    # Pods that name no devices have whole ones; the worker chose them.
    untouched = sum(left == gpu_devices.MILLI for number, left in enumerate(free) if number not in share.devices)
    if untouched < unassigned:
        return f"{unassigned} whole devices are taken by pods that name none, and {untouched} would be left for them"
    return ""


def with_devices(share: PodAllocation, allocatable: Mapping[str, int], usage: NodeAllocation) -> PodAllocation:
    """The allocation on this node: with the devices that fit best if GPUs are shared there and it names none."""
    wanted = gpu_devices.demand(share.requests)
    if not wanted.gpus or not gpu_devices.shareable(allocatable):
        return replace(share, devices=()) if share.devices else share
    if share.devices:
        return share
    return replace(share, devices=gpu_devices.best_fit(free_devices(allocatable, usage), wanted) or ())


def of_pod(pod: Mapping[str, Any]) -> PodAllocation:
    """The allocation of a pod, independent of its node."""
    annotations = (pod.get("metadata") or {}).get("annotations")
    return PodAllocation(
        resources.pod_requests(pod, use_status=True),
        resources.host_ports(pod),
        gpu_devices.of_annotations(annotations),
        _excluded((pod.get("spec") or {}).get("affinity")),
        *_volumes((pod.get("spec") or {}).get("volumes") or ()),
        group=_group(annotations or {}),
    )


def _excluded(affinity: Mapping[str, Any] | None) -> tuple[HostTerm, ...]:
    apart = (affinity or {}).get("podAntiAffinity") or {}
    return host_anti_affinity.terms(apart.get("requiredDuringSchedulingIgnoredDuringExecution") or ())


def _volumes(volumes: Iterable[Mapping[str, Any]]) -> tuple[tuple[ClaimUse, ...], tuple[Attached, ...]]:
    claims, disks = [], list[Attached]()
    for volume in volumes:
        if (source := volume.get("persistentVolumeClaim")) is not None:
            claims.append(ClaimUse(source.get("claimName") or ""))
        elif volume.get("ephemeral") is not None:
            claims.append(ClaimUse(volume.get("name") or "", ephemeral=True))
        else:
            disks += attachable_volumes.migrated(volume)
    return tuple(claims), tuple(disks)


def _group(annotations: Mapping[str, str]) -> str:
    return annotations.get(batch_kinds.GROUP_NAME) or annotations.get(batch_kinds.OWN_GROUP_NAME) or ""


# The fields of a stored pod that determine its allocation. Amounts and ports are decoded, and checked, by the caller.


class _Part(msgspec.Struct, gc=False, omit_defaults=True):
    """A container, or the status of one."""

    name: str | None = None
    ports: list[dict[str, Any]] | None = None
    resources: dict[str, Any] | None = None
    allocatedResources: dict[str, Any] | None = None  # noqa: N815 - the wire's name
    restartPolicy: str | None = None  # noqa: N815 - the wire's name


class _Condition(msgspec.Struct, gc=False, omit_defaults=True):
    type: str | None = None
    reason: str | None = None


class _AntiAffinity(msgspec.Struct, gc=False, omit_defaults=True):
    requiredDuringSchedulingIgnoredDuringExecution: list[dict[str, Any]] | None = None  # noqa: N815 - the wire's name


class _Affinity(msgspec.Struct, gc=False, omit_defaults=True):
    podAntiAffinity: _AntiAffinity | None = None  # noqa: N815 - the wire's name


class _Present(msgspec.Struct, gc=False):
    """A field whose content does not matter."""


class _Volume(msgspec.Struct, gc=False, omit_defaults=True):
    name: str | None = None
    persistentVolumeClaim: dict[str, Any] | None = None  # noqa: N815 - the wire's name
    ephemeral: _Present | None = None
    awsElasticBlockStore: dict[str, Any] | None = None  # noqa: N815 - the wire's name
    gcePersistentDisk: dict[str, Any] | None = None  # noqa: N815 - the wire's name
    azureDisk: dict[str, Any] | None = None  # noqa: N815 - the wire's name
    cinder: dict[str, Any] | None = None
    portworxVolume: dict[str, Any] | None = None  # noqa: N815 - the wire's name

    @property
    def counts(self) -> bool:
        """Whether it is one of those that claims and limits are about."""
        sources = (self.persistentVolumeClaim, self.ephemeral, self.awsElasticBlockStore, self.gcePersistentDisk)
        return any(one is not None for one in (*sources, self.azureDisk, self.cinder, self.portworxVolume))


class _Spec(msgspec.Struct, gc=False, omit_defaults=True):
    nodeName: str | None = None  # noqa: N815 - the wire's name
    affinity: _Affinity | None = None
    containers: list[_Part] | None = None
    initContainers: list[_Part] | None = None  # noqa: N815 - the wire's name
    overhead: dict[str, Any] | None = None
    resources: dict[str, Any] | None = None
    volumes: list[_Volume] | None = None


class _Status(msgspec.Struct, gc=False, omit_defaults=True):
    phase: str | None = None
    conditions: list[_Condition] | None = None
    containerStatuses: list[_Part] | None = None  # noqa: N815 - the wire's name
    initContainerStatuses: list[_Part] | None = None  # noqa: N815 - the wire's name
    allocatedResources: dict[str, Any] | None = None  # noqa: N815 - the wire's name
    resources: dict[str, Any] | None = None


class _Annotations(msgspec.Struct, gc=False, omit_defaults=True):
    devices: str | None = msgspec.field(default=None, name=gpu_devices.ANNOTATION)
    group: str | None = msgspec.field(default=None, name=batch_kinds.GROUP_NAME)
    own_group: str | None = msgspec.field(default=None, name=batch_kinds.OWN_GROUP_NAME)


class _Labels(msgspec.Struct, gc=False, omit_defaults=True):
    gang_port: str | None = msgspec.field(default=None, name=gangs.PORT_LABEL)
    index: str | None = msgspec.field(default=None, name=gangs.INDEX_LABEL)


class _Metadata(msgspec.Struct, gc=False, omit_defaults=True):
    annotations: _Annotations | None = None
    labels: _Labels | None = None


class _Pod(msgspec.Struct, gc=False, omit_defaults=True):
    metadata: _Metadata | None = None
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status | None = None


_glance: Final = msgspec.json.Decoder(_Pod).decode
_encode: Final = msgspec.msgpack.Encoder().encode


def of_stored(value: bytes) -> tuple[str, PodAllocation] | None:
    """The node and the allocation of a stored pod; None if it takes nothing. Pods of one template are computed once."""
    pod = _glance(value)
    node = pod.spec.nodeName
    if not node or (pod.status is not None and pod.status.phase in FINISHED):
        return None
    pod.spec.nodeName = None
    group = _take_group(pod)
    excerpt = _excerpt(pod)
    return node, _of_member(excerpt, group) if group else _of_excerpt(excerpt)


def wanted(value: bytes) -> PodAllocation:
    """The allocation that a stored pod takes on any node, without GPU devices."""
    pod = _glance(value)
    pod.spec.nodeName = None
    if pod.metadata is not None:
        pod.metadata.annotations = None
    return _of_excerpt(_excerpt(pod))


def of_member(share: PodAllocation, value: bytes) -> PodAllocation:
    """The allocation with the group of a stored pod, and the port that it takes as the first process of a gang."""
    if _PORT_MARK in value:
        share = wanted(value)
    if _GROUP_MARK not in value:
        return share
    group = _take_group(_glance(value))
    return replace(share, group=group) if group else share


def _take_group(pod: _Pod) -> str:
    """Remove the group from an excerpt, so that pods of one template in many groups are computed once."""
    annotations = pod.metadata.annotations if pod.metadata is not None else None
    if annotations is None or not (group := annotations.group or annotations.own_group or ""):
        return ""
    annotations.group, annotations.own_group = None, None
    return group


def _excerpt(pod: _Pod) -> bytes:
    labels = pod.metadata.labels if pod.metadata is not None else None
    if pod.metadata is not None and (labels is None or labels.gang_port is None or labels.index != "0"):
        # Only first processes of gangs take a port by their labels.
        pod.metadata = _Metadata(pod.metadata.annotations) if pod.metadata.annotations is not None else None
    if pod.spec.volumes is not None:
        # Nearly every pod has a volume with its token, which does not count, under a name of its own.
        pod.spec.volumes = [one for one in pod.spec.volumes if one.counts] or None
    return _encode(pod)


@lru_cache(maxsize=8192)
def _of_excerpt(excerpt: bytes) -> PodAllocation:
    return of_pod(msgspec.msgpack.decode(excerpt))


@lru_cache(maxsize=8192)
def _of_member(excerpt: bytes, group: str) -> PodAllocation:
    return replace(_of_excerpt(excerpt), group=group)


def total(found: Iterable[PodAllocation]) -> NodeAllocation:
    """The sum of several pods; pods of one template, which share one allocation object, are counted together."""
    usage, several = NodeAllocation(), list(found)
    kinds = {id(share): share for share in several}
    for kind, number in Counter(map(id, several)).items():
        usage.add(kinds[kind], number)
    return usage
