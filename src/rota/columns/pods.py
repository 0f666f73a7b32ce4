"""A pod as placement sees it: an identity, and a shape that equal pods share.

Thousands of pods come from one template; everything that plugins read of them is computed once and kept in one
`PodShape`. Shapes, label groups and affinity terms are interned by a `pod_interner.PodInterner`: equal ones are the
same object, so they are compared and hashed by identity. All of it is immutable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import msgspec

from rota.api.gpu_devices import Devices
from rota.api.resources import HostPort
from rota.api.selectors import Selector
from rota.columns import objects
from rota.columns.members import GroupMember


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LabelGroup:
    """Pods of one namespace with the same labels: equal to every selector."""

    namespace: str
    labels: Mapping[str, str]
    #: Terminating pods are not counted by topology spreading.
    terminating: bool = False


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AffinityTerm:
    """A set of pods (by namespace and labels) and a topology key."""

    topology_key: str
    #: Namespaces by name; the pod's own if the term has none.
    namespaces: frozenset[str]
    #: Namespaces by their labels, in addition; None: by name only.
    namespace_selector: Selector | None
    selector: Selector

    def matches(self, group: LabelGroup, namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term selects the pods of a group; the labels are those of the group's namespace."""
        inside = group.namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)
        )
        return inside and self.selector.matches(group.labels)


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A preferred term and its weight."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, kw_only=True)
class PodShape:
    """Everything that plugins read of a pod, apart from its identity."""

    group: LabelGroup
    priority: int
    #: The pod's requests: cpu in millicores, everything else in units; resources without a request are absent.
    requests: Mapping[str, int]
    #: The same for scoring, where a container without a request counts as a small one: (cpu, memory).
    nonzero_requests: tuple[int, int]
    host_ports: tuple[HostPort, ...]
    #: Images of all containers and image volumes, normalised, with repetitions.
    images: tuple[str, ...]
    tolerations: tuple[objects.Toleration, ...]
    node_selector: Mapping[str, str]
    node_affinity: objects.NodeAffinity | None
    required_affinity: tuple[AffinityTerm, ...]
    required_anti_affinity: tuple[AffinityTerm, ...]
    preferred_affinity: tuple[WeightedTerm, ...]
    preferred_anti_affinity: tuple[WeightedTerm, ...]
    spread_constraints: tuple[objects.TopologySpreadConstraint, ...]
    #: "Never" keeps the pod from preempting others.
    preemption_policy: str
    scheduler_name: str
    scheduling_gates: tuple[str, ...]
    #: The controlling owner, if default spreading uses its selector.
    owner: objects.OwnerReference | None
    #: Volumes that may restrict the placement, as on the wire; config maps, secrets and the like are left out.
    volumes: tuple[Mapping[str, Any], ...]

    @property
    def has_affinity(self) -> bool:
        """Whether the pod has any inter-pod affinity term."""
        return bool(
            self.required_affinity
            or self.required_anti_affinity
            or self.preferred_affinity
            or self.preferred_anti_affinity
        )


class PodInfo(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """One pod: its identity, its node, and its shape."""

    uid: str
    name: str
    shape: PodShape
    #: Its node, or "" if it has none.
    node_name: str = ""
    nominated_node: str = ""
    #: RFC 3339, or "" before the pod was started.
    start_time: str = ""
    #: Whether a scheduler is evicting the pod (condition DisruptionTarget, PreemptionByScheduler).
    preempted: bool = False
    #: The GPU devices that it has on its node, by number; empty if nothing says which.
    gpu_devices: Devices = ()
    #: The whole object as plain JSON data or as JSON bytes, if it was kept.
    kept: Mapping[str, Any] | bytes | None = None
    #: Of a pod that names a group: what batch scheduling reads of it.
    member: GroupMember | None = None

    @property
    def manifest(self) -> Mapping[str, Any] | None:
        """The whole object as plain JSON data, if it was kept; decoded on each call if it is JSON bytes."""
        return msgspec.json.decode(self.kept) if isinstance(self.kept, bytes) else self.kept

    def with_devices(self, devices: Devices) -> "PodInfo":
        """The same pod on these GPU devices."""
        return msgspec.structs.replace(self, gpu_devices=devices)

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self.shape.group.namespace

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels."""
        return self.shape.group.labels

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.shape.group.namespace}/{self.name}"

    @property
    def priority(self) -> int:
        """The priority; higher goes first."""
        return self.shape.priority

    @property
    def terminating(self) -> bool:
        """Whether the pod is terminating."""
        return self.shape.group.terminating


@lru_cache(maxsize=4096)  # pods of one template are compared again and again
def equal_shapes(one: PodShape, other: PodShape) -> bool:
    """Whether two shapes are equal, though they come from objects that differ in irrelevant fields."""
    return all(getattr(one, name) == getattr(other, name) for name in _SHAPE_FIELDS)


_SHAPE_FIELDS = tuple(field.name for field in fields(PodShape))
