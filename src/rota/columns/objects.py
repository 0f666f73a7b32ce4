"""The fields of pods, nodes and related objects that placement reads, as typed views.

A view is decoded from plain JSON data; other fields are dropped, which keeps a large cluster small in memory. Attribute
names are the wire's, so the library's full models may be used instead of these views. Types are checked deeper than the
models do (values of label maps, for example), because a wrong type inside a column would surface far from its cause. A
mismatch is a `MalformedObjectError` with the path.
"""

import re
from typing import Annotated, Any, TypeVar

import msgspec

# ruff: noqa: N815 - attribute names are the wire's, see above

T = TypeVar("T")

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
#: A quantity in JSON.
Amount = str | Int64 | float
Amounts = dict[str, Amount]
Labels = dict[str, str]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class MalformedObjectError(ValueError):
    """An object does not have the schema of its kind; the message names the field to fix."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        super().__init__(f"{path}: {message}")


class View(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A read-only view of a wire object."""


class OwnerReference(View, frozen=True):
    """An owner of the object."""

    kind: str
    name: str
    apiVersion: str = ""
    uid: str = ""
    controller: bool | None = None


#: Owners whose selectors say which pods belong together.
OWNERS_WITH_SELECTORS = frozenset(
    {("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")}
)


class ObjectMeta(View, frozen=True):
    """Identity, labels and owners."""

    name: str
    namespace: str | None = None
    uid: str | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    ownerReferences: list[OwnerReference] | None = None
    deletionTimestamp: str | None = None
    creationTimestamp: str | None = None


class LabelSelectorRequirement(View, frozen=True):
    """A test of one label of a pod."""

    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(View, frozen=True):
    """Tests of labels that must all hold."""

    matchLabels: Labels | None = None
    matchExpressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(View, frozen=True):
    """A test of one label or field of a node."""

    key: str
    operator: str
    values: list[str] | None = None


class NodeSelectorTerm(View, frozen=True):
    """Tests of a node that must all hold."""

    matchExpressions: list[NodeSelectorRequirement] | None = None
    matchFields: list[NodeSelectorRequirement] | None = None


class NodeSelector(View, frozen=True):
    """Terms of which one must hold."""

    nodeSelectorTerms: list[NodeSelectorTerm]


class PreferredSchedulingTerm(View, frozen=True):
    """A term and its weight."""

    weight: Int32
    preference: NodeSelectorTerm


class NodeAffinity(View, frozen=True):
    """Required and preferred nodes."""

    requiredDuringSchedulingIgnoredDuringExecution: NodeSelector | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(View, frozen=True):
    """Pods to be near to, or far from, and the topology."""

    topologyKey: str
    labelSelector: LabelSelector | None = None
    matchLabelKeys: list[str] | None = None
    mismatchLabelKeys: list[str] | None = None
    namespaceSelector: LabelSelector | None = None
    namespaces: list[str] | None = None


class WeightedPodAffinityTerm(View, frozen=True):
    """A term and its weight."""

    weight: Int32
    podAffinityTerm: PodAffinityTerm


class PodAffinity(View, frozen=True):
    """Affinity, or anti-affinity, to other pods."""

    requiredDuringSchedulingIgnoredDuringExecution: list[PodAffinityTerm] | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[WeightedPodAffinityTerm] | None = None


class Affinity(View, frozen=True):
    """All affinities of a pod."""

    nodeAffinity: NodeAffinity | None = None
    podAffinity: PodAffinity | None = None
    podAntiAffinity: PodAffinity | None = None


class TopologySpreadConstraint(View, frozen=True):
    """How evenly matching pods are spread over the values of a node label."""

    maxSkew: Int32
    topologyKey: str
    whenUnsatisfiable: str
    labelSelector: LabelSelector | None = None
    matchLabelKeys: list[str] | None = None
    minDomains: Int32 | None = None
    nodeAffinityPolicy: str | None = None
    nodeTaintsPolicy: str | None = None


class Toleration(View, frozen=True):
    """Taints that a pod tolerates."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    tolerationSeconds: Int64 | None = None


class ContainerPort(View, frozen=True):
    """A port of a container; only host ports matter here."""

    containerPort: Int32 = 0
    hostPort: Port | None = None
    hostIP: str | None = None
    protocol: str | None = None


class ResourceRequirements(View, frozen=True):
    """The requests and limits of a container or a whole pod."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class Container(View, frozen=True):
    """A container, with the fields for placement."""

    name: str = ""
    image: str | None = None
    ports: list[ContainerPort] | None = None
    resources: ResourceRequirements | None = None
    restartPolicy: str | None = None


class PodSchedulingGate(View, frozen=True):
    """A scheduling gate, which must be removed before the pod is scheduled."""

    name: str


class PodSpec(View, frozen=True):
    """The spec of a pod."""

    containers: list[Container]
    initContainers: list[Container] | None = None
    nodeName: str | None = None
    nodeSelector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topologySpreadConstraints: list[TopologySpreadConstraint] | None = None
    overhead: Amounts | None = None
    resources: ResourceRequirements | None = None
    priority: Int32 | None = None
    preemptionPolicy: str | None = None
    schedulerName: str | None = None
    schedulingGates: list[PodSchedulingGate] | None = None
    hostNetwork: bool | None = None
    volumes: list[dict[str, Any]] | None = None


class PodCondition(View, frozen=True):
    """A condition of a pod."""

    type: str
    status: str = ""
    reason: str | None = None


class ContainerStatus(View, frozen=True):
    """The allocated resources of a container (in-place resize)."""

    name: str = ""
    allocatedResources: Amounts | None = None
    resources: ResourceRequirements | None = None


class PodStatus(View, frozen=True):
    """The status of a pod."""

    phase: str | None = None
    startTime: str | None = None
    nominatedNodeName: str | None = None
    conditions: list[PodCondition] | None = None
    containerStatuses: list[ContainerStatus] | None = None
    initContainerStatuses: list[ContainerStatus] | None = None
    allocatedResources: Amounts | None = None
    resources: ResourceRequirements | None = None


class Pod(View, frozen=True):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec
    status: PodStatus = PodStatus()


class Taint(View, frozen=True):
    """A taint of a node."""

    key: str
    effect: str
    value: str | None = None


class NodeSpec(View, frozen=True):
    """The spec of a node."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None


class ContainerImage(View, frozen=True):
    """An image that a node has."""

    names: list[str] | None = None
    sizeBytes: Int64 | None = None


class NodeStatus(View, frozen=True):
    """The status of a node."""

    allocatable: Amounts | None = None
    capacity: Amounts | None = None
    images: list[ContainerImage] | None = None


class Node(View, frozen=True):
    """A node."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


def read(document: object, kind: type[T], *, path: str = "$") -> T:
    """Decode a view from plain JSON data."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `")
        where = _with_keys(where.rstrip("`").removeprefix("$"), document, message)
        if missing := _MISSING.fullmatch(message):
            where, message = f"{where}.{missing[1]}", "is required"
        raise MalformedObjectError(path + where, message.replace("`", "")) from None


_MISSING = re.compile(r"Object missing required field `(.*)`")
_STEP = re.compile(r"\.([^.[]+)|\[(\d+)\]")
_JSON_NAMES = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str", list: "array", dict: "object"}


def _with_keys(where: str, document: object, message: str) -> str:
    """Name the entry of a map that msgspec calls `[...]`: the first with the type in its message."""
    head, dots, tail = where.partition("[...]")
    found: Any = document
    for name, index in _STEP.findall(head) if dots else ():
        found = found[name] if name else found[int(index)]
    for key, value in found.items() if dots and isinstance(found, dict) else ():
        if f"got `{_JSON_NAMES.get(type(value))}`" in message:
            return f"{head}.{key}{tail}"
    return where
