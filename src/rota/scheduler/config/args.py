"""The arguments of kube-scheduler's plugins: one struct per plugin, with defaults and validation.

The struct of a plugin is named `<Plugin>Args`, as its `kind` in a configuration file. `faults()` lists invalid values,
with paths relative to the arguments. Structs of third-party plugins follow the same pattern; `faults` is optional.
Scoring shapes map utilisation 0..100 to 0..10, which plugins scale to 0..100.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from rota.api import fields, names, nodeselectors
from rota.columns.objects import NodeAffinity, TopologySpreadConstraint
from rota.scheduler.config.durations import Duration
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import Int32, Int64, WireStruct

MAX_SHAPE_SCORE = 10
WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
INCLUSION_POLICIES = ("Honor", "Ignore")
SCORING_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


@runtime_checkable
class Checked(Protocol):
    """Arguments that validate themselves."""

    def faults(self) -> Iterator[Fault]:
        """List what is wrong, with paths relative to the arguments."""


@runtime_checkable
class DependsOnProfile(Protocol):
    """Arguments that name other plugins of the profile."""

    def profile_faults(self, scoring: Collection[str]) -> Iterator[Fault]:
        """List what is wrong, given the plugins that score."""


class ResourceSpec(WireStruct, frozen=True):
    """A resource that counts in a score; weight 0 or none means 1."""

    name: str
    weight: Int64 = 1

    def __post_init__(self) -> None:
        if self.weight == 0:
            msgspec.structs.force_setattr(self, "weight", 1)


class UtilizationShapePoint(WireStruct, frozen=True):
    """One corner of a piecewise linear function of utilisation."""

    utilization: Int32
    score: Int32


DEFAULT_RESOURCES = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class RequestedToCapacityRatioParam(WireStruct, frozen=True):
    """The function that the strategy of this name applies."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(WireStruct, frozen=True):
    """How NodeResourcesFit turns free resources into a score."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    def __post_init__(self) -> None:
        if not self.resources:
            msgspec.structs.force_setattr(self, "resources", DEFAULT_RESOURCES)

    def faults(self) -> Iterator[Fault]:
        """Check the type, the weights and that a shape is there exactly when it is used."""
        if self.type not in SCORING_STRATEGIES:
            yield Fault("type", _not_one_of(self.type, SCORING_STRATEGIES))
        for position, resource in enumerate(self.resources):
            if not 0 < resource.weight <= 100:
                yield Fault(f"resources[{position}].weight", f"{resource.weight} is not in 1..100")
        ratio = self.requested_to_capacity_ratio
        if self.type == "RequestedToCapacityRatio":
            if ratio is None:
                yield Fault("requestedToCapacityRatio", "is required when type is RequestedToCapacityRatio")
            else:
                yield from (fault.below("requestedToCapacityRatio.shape") for fault in shape_faults(ratio.shape))
        elif ratio is not None:
            yield Fault("requestedToCapacityRatio", "must be absent unless type is RequestedToCapacityRatio")


class NodeResourcesFitArgs(WireStruct, frozen=True):
    """Arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = msgspec.field(default_factory=lambda: ScoringStrategy(type="LeastAllocated"))

    def faults(self) -> Iterator[Fault]:
        """Check the names that are ignored and the strategy."""
        for position, name in enumerate(self.ignored_resources):
            for message in names.check_label_key(name):
                yield Fault(f"ignoredResources[{position}]", message)
        for position, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield Fault(f"ignoredResourceGroups[{position}]", f'"{group}" must not contain "/"')
            for message in names.check_label_key(group):
                yield Fault(f"ignoredResourceGroups[{position}]", message)
        yield from (fault.below("scoringStrategy") for fault in self.scoring_strategy.faults())


class NodeResourcesBalancedAllocationArgs(WireStruct, frozen=True):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: tuple[ResourceSpec, ...] = ()

    def __post_init__(self) -> None:
        if not self.resources:
            msgspec.structs.force_setattr(self, "resources", DEFAULT_RESOURCES)

    def faults(self) -> Iterator[Fault]:
        """Check that each resource comes once and weighs 1."""
        seen: set[str] = set()
        for position, resource in enumerate(self.resources):
            if resource.name in seen:
                yield Fault(f"resources[{position}].name", f'"{resource.name}" is listed twice')
            seen.add(resource.name)
            if resource.weight != 1:
                yield Fault(f"resources[{position}].weight", f"{resource.weight} must be 1")


class NodeAffinityArgs(WireStruct, frozen=True):
    """Arguments of NodeAffinity: an affinity that every pod of the profile gets on top of its own."""

    added_affinity: NodeAffinity | None = None

    def faults(self) -> Iterator[Fault]:
        """Check the terms."""
        if self.added_affinity is not None:
            yield from (fault.below("addedAffinity") for fault in _affinity_faults(self.added_affinity))


class PodTopologySpreadArgs(WireStruct, frozen=True):
    """Arguments of PodTopologySpread: the constraints of pods that bring none."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"

    def __post_init__(self) -> None:
        if not self.defaulting_type:
            msgspec.structs.force_setattr(self, "defaulting_type", "System")

    def faults(self) -> Iterator[Fault]:
        """Check each constraint, and that no two say the same."""
        if self.defaulting_type not in ("System", "List"):
            yield Fault("defaultingType", _not_one_of(self.defaulting_type, ("System", "List")))
        elif self.defaulting_type == "System" and self.default_constraints:
            yield Fault("defaultingType", 'must be "List" when defaultConstraints has entries')
        seen: set[tuple[str, str]] = set()
        for position, constraint in enumerate(self.default_constraints):
            path = f"defaultConstraints[{position}]"
            yield from (fault.below(path) for fault in _constraint_faults(constraint))
            identity = (constraint.topologyKey, constraint.whenUnsatisfiable)
            if identity in seen:
                yield Fault(path, f"repeats the constraint on {identity[0]} with {identity[1]}")
            seen.add(identity)


class InterPodAffinityArgs(WireStruct, frozen=True):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def faults(self) -> Iterator[Fault]:
        """Check the weight."""
        if not 0 <= self.hard_pod_affinity_weight <= 100:
            yield Fault("hardPodAffinityWeight", f"{self.hard_pod_affinity_weight} is not in 0..100")


class DefaultPreemptionArgs(WireStruct, frozen=True):
    """Arguments of DefaultPreemption: how many nodes are looked at, as a share and as a number."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def faults(self) -> Iterator[Fault]:
        """Check the ranges, and that not both are 0."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if not 0 <= percentage <= 100:
            yield Fault("minCandidateNodesPercentage", f"{percentage} is not in 0..100")
        if absolute < 0:
            yield Fault("minCandidateNodesAbsolute", f"{absolute} must not be negative")
        if percentage == 0 and absolute == 0:
            yield Fault("minCandidateNodesPercentage", "must not be 0 while minCandidateNodesAbsolute is 0")
            yield Fault("minCandidateNodesAbsolute", "must not be 0 while minCandidateNodesPercentage is 0")


class VolumeBindingArgs(WireStruct, frozen=True):
    """Arguments of VolumeBinding: how long a binding may take, and how the fill of storage is scored."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] = ()

    def __post_init__(self) -> None:
        if not self.shape:
            falling = (
                UtilizationShapePoint(utilization=0, score=MAX_SHAPE_SCORE),
                UtilizationShapePoint(utilization=100, score=0),
            )
            msgspec.structs.force_setattr(self, "shape", falling)

    def faults(self) -> Iterator[Fault]:
        """Check the time-out and the shape."""
        if self.bind_timeout_seconds < 0:
            yield Fault("bindTimeoutSeconds", f"{self.bind_timeout_seconds} must not be negative")
        yield from (fault.below("shape") for fault in shape_faults(self.shape))


class DynamicResourcesArgs(WireStruct, frozen=True):
    """Arguments of DynamicResources."""

    filter_timeout: Duration = Duration(seconds=10)
    binding_timeout: Duration = Duration(seconds=600)

    def faults(self) -> Iterator[Fault]:
        """Check the time-outs; a filter time-out of 0 means none."""
        if self.filter_timeout < Duration():
            yield Fault("filterTimeout", "must not be negative")
        if self.binding_timeout < Duration(seconds=1):
            yield Fault("bindingTimeout", "must be at least 1s")


def shape_faults(shape: Sequence[UtilizationShapePoint]) -> Iterator[Fault]:
    """Check a scoring function: a point or more, utilisation strictly rising in 0..100, scores in 0..10."""
    if not shape:
        yield Fault("", "needs at least one point")
    for position in range(1, len(shape)):
        if shape[position - 1].utilization >= shape[position].utilization:
            yield Fault(f"[{position}].utilization", "must be greater than that of the point before")
            break
    for position, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield Fault(f"[{position}].utilization", f"{point.utilization} is not in 0..100")
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield Fault(f"[{position}].score", f"{point.score} is not in 0..{MAX_SHAPE_SCORE}")


def _affinity_faults(affinity: NodeAffinity) -> Iterator[Fault]:
    """Check every term that takes part in matching; a preference of weight 0 does not."""
    terms = []
    if (required := affinity.requiredDuringSchedulingIgnoredDuringExecution) is not None:
        path = fields.Path("requiredDuringSchedulingIgnoredDuringExecution").child("nodeSelectorTerms")
        terms += [(term, path.index(position)) for position, term in enumerate(required.nodeSelectorTerms)]
    path = fields.Path("preferredDuringSchedulingIgnoredDuringExecution")
    for position, preferred in enumerate(affinity.preferredDuringSchedulingIgnoredDuringExecution or ()):
        if preferred.weight != 0:
            terms.append((preferred.preference, path.index(position).child("preference")))
    for term, place in terms:
        compiled = nodeselectors.compile_term(term, path=place)
        for error in compiled.errors if compiled is not None else ():
            where, _, what = error.partition(": ")
            yield Fault(where, what)


def _constraint_faults(constraint: TopologySpreadConstraint) -> Iterator[Fault]:
    """Check a constraint that is meant for every pod, and hence has no selector of its own."""
    if constraint.maxSkew <= 0:
        yield Fault("maxSkew", f"{constraint.maxSkew} must be greater than 0")
    if not constraint.topologyKey:
        yield Fault("topologyKey", "must not be empty")
    else:
        yield from (Fault("topologyKey", message) for message in names.check_label_key(constraint.topologyKey))
    if constraint.whenUnsatisfiable not in WHEN_UNSATISFIABLE:
        yield Fault("whenUnsatisfiable", _not_one_of(constraint.whenUnsatisfiable, WHEN_UNSATISFIABLE))
    if constraint.labelSelector is not None:
        yield Fault("labelSelector", "must be absent: each pod's services and owners give the selector")
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = getattr(constraint, name)
        if policy is not None and policy not in INCLUSION_POLICIES:
            yield Fault(name, _not_one_of(policy, INCLUSION_POLICIES))


def _not_one_of(value: str, allowed: Sequence[str]) -> str:
    return f'"{value}" is not one of {", ".join(allowed)}'


#: Plugins that kube-scheduler has arguments for. Rota has no DynamicResources plugin, but its arguments are validated
#: and then ignored, as those of any plugin that no profile enables.
UPSTREAM: dict[str, type[WireStruct]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
