"""A pod as placement sees it: an identity, and a shape that it shares with all pods that look alike.

Thousands of pods come from one template; everything that plugins read of them is worked out once and kept in one
`PodShape`. Shapes, label groups and affinity terms are interned by a `vocabulary.PodInterner`: equal ones are the same
object, so they are compared and hashed by identity. All of it is immutable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import msgspec

from rota.api.resources import HostPort
from rota.api.selectors import Selector
from rota.columns import objects


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LabelGroup:
    """Pods of one namespace with the same labels: to every selector they are all the same."""

    namespace: str
    labels: Mapping[str, str]
    #: Pods on their way out are not counted by topology spreading.
    terminating: bool = False


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class AffinityTerm:
    """A set of pods (by namespace and labels) and the topology that nearness to them is measured in."""

    topology_key: str
    #: Namespaces by name; the pod's own if the term says nothing.
    namespaces: frozenset[str]
    #: Namespaces by their labels, in addition; None: by name only.
    namespace_selector: Selector | None
    selector: Selector

    def matches(self, group: LabelGroup, namespace_labels: Mapping[str, str]) -> bool:
        """Whether pods of the group are meant; the labels are those of the group's namespace."""
        inside = group.namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)
        )
        return inside and self.selector.matches(group.labels)


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A term of a preference and what it is worth."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, kw_only=True)
class PodShape:
    """Everything about a pod that plugins read, apart from who it is."""

    group: LabelGroup
    priority: int
    #: What the pod takes of a node: cpu in thousandths, all else in units; resources it does not ask for are absent.
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
    #: "Never" keeps the pod from evicting others.
    preemption_policy: str
    scheduler_name: str
    scheduling_gates: tuple[str, ...]
    #: The controlling owner, if default spreading uses its selector.
    owner: objects.OwnerReference | None
    #: Volumes that may bind a pod to nodes, as on the wire; config maps, secrets and the like are left out.
    volumes: tuple[Mapping[str, Any], ...]

    @property
    def has_affinity(self) -> bool:
        """Whether the pod has any term about other pods."""
        return bool(
            self.required_affinity
            or self.required_anti_affinity
            or self.preferred_affinity
            or self.preferred_anti_affinity
        )


class PodInfo(msgspec.Struct, frozen=True, eq=False, kw_only=True, gc=False):
    """One pod: who it is, where it is, and its shape."""

    uid: str
    name: str
    shape: PodShape
    #: Where it runs, or "" while it has no node.
    node_name: str = ""
    nominated_node: str = ""
    #: RFC 3339, or "" before the pod was started.
    start_time: str = ""
    #: Whether the pod is being evicted by a scheduler (condition DisruptionTarget, PreemptionByScheduler).
    preempted: bool = False
    #: The whole object as plain JSON data or as JSON, where whoever read the pod chose to keep it.
    kept: Mapping[str, Any] | bytes | None = None

    @property
    def manifest(self) -> Mapping[str, Any] | None:
        """The whole object as plain JSON data, if it was kept; decoded anew if it was kept as JSON."""
        return msgspec.json.decode(self.kept) if isinstance(self.kept, bytes) else self.kept

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
        """Whether the pod is on its way out."""
        return self.shape.group.terminating


@lru_cache(maxsize=4096)  # pods of one template are compared again and again
def equal_shapes(one: PodShape, other: PodShape) -> bool:
    """Whether two shapes say the same, though they were read from objects that differ in what nobody counts."""
    return all(getattr(one, name) == getattr(other, name) for name in _SHAPE_FIELDS)


_SHAPE_FIELDS = tuple(field.name for field in fields(PodShape))
