"""The types of groups, queues and related objects: the fields that sessions read, validated before use.

A mismatch is a `MalformedObjectError` that names the path. Fields that sessions do not read are not looked at.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from rota.api import quantities, re2_matcher, selectors
from rota.columns import objects
from rota.columns.objects import (
    Int32,
    Int64,
    LabelSelector,
    MalformedObjectError,
    ObjectMeta,
    View,
)
from rota.scheduler.batch import numa_topologies
from rota.scheduler.batch.times import seconds

# ruff: noqa: N815 - attribute names are the wire's

Quantities = dict[str, str | Int64 | float]


class Topology(View, frozen=True):
    """The network topology requirement of pods."""

    mode: Literal["", "hard", "soft"] | None = None
    highestTierAllowed: Int32 | None = None
    highestTierName: str | None = None


class SubGroupPolicy(View, frozen=True):
    """Which pods of a group form sub-groups."""

    name: str | None = None
    labelSelector: LabelSelector | None = None
    matchLabelKeys: list[str] | None = None
    subGroupSize: Int32 | None = None
    minSubGroups: Int32 | None = None
    networkTopology: Topology | None = None


class PodGroupSpec(View, frozen=True):
    """The spec of a group."""

    queue: str | None = None
    priorityClassName: str | None = None
    minMember: Int32 | None = None
    minTaskMember: dict[str, Int32] | None = None
    minResources: Quantities | None = None
    networkTopology: Topology | None = None
    subGroupPolicy: list[SubGroupPolicy] | None = None


class PodGroupStatus(View, frozen=True):
    """The status of a group."""

    phase: Literal["", "Pending", "Inqueue", "Running", "Unknown", "Completed"] | None = None


class PodGroup(View, frozen=True):
    """Pods that start together."""

    metadata: ObjectMeta
    spec: PodGroupSpec | None = None
    status: PodGroupStatus | None = None


class Guarantee(View, frozen=True):
    """The guaranteed resources of a queue."""

    resource: Quantities | None = None


class GroupTerms(View, frozen=True):
    """Required and preferred node groups of a queue."""

    requiredDuringSchedulingIgnoredDuringExecution: list[str] | None = None
    preferredDuringSchedulingIgnoredDuringExecution: list[str] | None = None


class QueueAffinity(View, frozen=True):
    """The groups of nodes of a queue."""

    nodeGroupAffinity: GroupTerms | None = None
    nodeGroupAntiAffinity: GroupTerms | None = None


class QueueSpec(View, frozen=True):
    """The spec of a queue."""

    weight: Int32 | None = None
    priority: Int32 | None = None
    parent: str | None = None
    reclaimable: bool | None = None
    dequeueStrategy: Literal["", "fifo", "traverse"] | None = None
    capability: Quantities | None = None
    deserved: Quantities | None = None
    guarantee: Guarantee | None = None
    affinity: QueueAffinity | None = None


class QueueStatus(View, frozen=True):
    """Whether a queue is open."""

    state: str | None = None


class Queue(View, frozen=True):
    """A queue of groups, and its share of the cluster."""

    metadata: ObjectMeta
    spec: QueueSpec | None = None
    status: QueueStatus | None = None


class PriorityClass(View, frozen=True):
    """A name for a priority."""

    metadata: ObjectMeta
    value: Int32 | None = None
    globalDefault: bool | None = None


class ExactMatch(View, frozen=True):
    """A member by name."""

    name: str | None = None


class RegexMatch(View, frozen=True):
    """Members whose names match a pattern."""

    pattern: str | None = None


class MemberSelector(View, frozen=True):
    """How members are found."""

    exactMatch: ExactMatch | None = None
    regexMatch: RegexMatch | None = None
    labelMatch: LabelSelector | None = None


class Member(View, frozen=True):
    """Nodes, or a domain, inside a domain."""

    type: Literal["Node", "HyperNode"]
    selector: MemberSelector | None = None


class HyperNodeSpec(View, frozen=True):
    """The members of a domain."""

    tier: Int32 | None = None
    tierName: str | None = None
    members: list[Member] | None = None


class HyperNode(View, frozen=True):
    """A network domain of nodes."""

    metadata: ObjectMeta
    spec: HyperNodeSpec | None = None


class QuotaStatus(View, frozen=True):
    """The limits and the usage of a namespace."""

    hard: Quantities | None = None
    used: Quantities | None = None


class ResourceQuota(View, frozen=True):
    """A limit of a namespace."""

    metadata: ObjectMeta
    status: QuotaStatus | None = None


class BudgetSpec(View, frozen=True):
    """The pods that a budget is about."""

    selector: LabelSelector | None = None


class BudgetStatus(View, frozen=True):
    """How many pods may be evicted, and which were already."""

    disruptionsAllowed: Int32 | None = None
    disruptedPods: dict[str, str] | None = None


class DisruptionBudget(View, frozen=True):
    """A limit to evictions."""

    metadata: ObjectMeta
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


class NodeMetrics(View, frozen=True):
    """The measured usage of a node."""

    metadata: ObjectMeta
    timestamp: str | None = None
    usage: Quantities | None = None


class CpuDetail(View, frozen=True):
    """Where a CPU is."""

    numa: Int32 | None = None


class NumaResource(View, frozen=True):
    """What is left of a resource of NUMA nodes."""

    allocatable: str | None = None


class NumaSpec(View, frozen=True):
    """Policies and CPUs."""

    policies: dict[str, str] | None = None
    numares: dict[str, NumaResource] | None = None
    cpuDetail: dict[str, CpuDetail] | None = None


class Numatopology(View, frozen=True):
    """The NUMA topology of the node of the same name."""

    metadata: ObjectMeta
    spec: NumaSpec | None = None


class NodeCondition(View, frozen=True):
    """A condition of a node."""

    type: str
    status: str


class NodeStatus(View, frozen=True):
    """What is known of a node beside what placement reads."""

    conditions: list[NodeCondition] | None = None
    allocatable: Quantities | None = None


class Node(View, frozen=True):
    """A node, as far as sessions read it beside what placement reads."""

    metadata: ObjectMeta
    status: NodeStatus | None = None


class PodSpec(View, frozen=True):
    """What sessions read of a pod beside what placement reads."""

    priorityClassName: str | None = None


class PodStatus(View, frozen=True):
    """When a pod started."""

    startTime: str | None = None


class Pod(View, frozen=True):
    """A pod, as far as sessions read it beside what placement reads."""

    metadata: ObjectMeta
    spec: PodSpec | None = None
    status: PodStatus | None = None


#: By section of a state.
KINDS: Final[Mapping[str, type[View]]] = {
    "nodes": Node,
    "pods": Pod,
    "podGroups": PodGroup,
    "queues": Queue,
    "priorityClasses": PriorityClass,
    "hyperNodes": HyperNode,
    "resourceQuotas": ResourceQuota,
    "pdbs": DisruptionBudget,
    "nodeMetrics": NodeMetrics,
    "numatopologies": Numatopology,
}
#: Fields that hold quantities, by section.
_QUANTITIES: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "nodes": (("status", "allocatable"),),
    "podGroups": (("spec", "minResources"),),
    "queues": (("spec", "capability"), ("spec", "deserved"), ("spec", "guarantee", "resource")),
    "resourceQuotas": (("status", "hard"), ("status", "used")),
    "nodeMetrics": (("usage",),),
}
_TIMES: Final = (
    ("metadata", "creationTimestamp"),
    ("metadata", "deletionTimestamp"),
    ("status", "startTime"),
    ("timestamp",),
)


def check(section: str, document: Mapping[str, Any], path: str) -> None:
    """Validate an object."""
    objects.read(document, KINDS[section], path=path)
    for fields in _QUANTITIES.get(section, ()):
        for name, quantity in (_at(document, fields) or {}).items():
            _readable(quantities.parse, str(quantity), ".".join((path, *fields, name)))
    for fields in _TIMES:
        if time := _at(document, fields):
            _readable(seconds, time, ".".join((path, *fields)))
    if section == "hyperNodes":
        for position, member in enumerate(_at(document, ("spec", "members")) or ()):
            place = f"{path}.spec.members[{position}].selector"
            pattern = _at(member, ("selector", "regexMatch", "pattern"))
            _readable(re2_matcher.compile_pattern, pattern or "", f"{place}.regexMatch.pattern")
            _readable(selectors.from_object, _at(member, ("selector", "labelMatch")) or {}, f"{place}.labelMatch")
    if section == "numatopologies":
        _readable(lambda _: numa_topologies.of_document(document), None, f"{path}.spec")
    if section == "pdbs":
        _readable(selectors.from_object, _at(document, ("spec", "selector")) or {}, f"{path}.spec.selector")
    if section == "podGroups":
        for position, policy in enumerate(_at(document, ("spec", "subGroupPolicy")) or ()):
            place = f"{path}.spec.subGroupPolicy[{position}].labelSelector"
            _readable(selectors.from_object, policy.get("labelSelector") or {}, place)


def _at(document: Mapping[str, Any], fields: tuple[str, ...]) -> Any:
    found: Any = document
    for field in fields:
        found = (found or {}).get(field)
    return found


def _readable(read: Callable[[Any], object], value: Any, path: str) -> None:
    try:
        read(value)
    except ValueError as error:
        raise MalformedObjectError(path, str(error)) from None
