"""Claims: the marks by which a policy has a resource, and when another policy may take it over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.federation.gates import Gates
from rota.federation.policies import resource_selectors

Object: TypeAlias = Mapping[str, Any]

ID: Final = "propagationpolicy.karmada.io/permanent-id"
NAMESPACE: Final = "propagationpolicy.karmada.io/namespace"
NAME: Final = "propagationpolicy.karmada.io/name"
CLUSTER_ID: Final = "clusterpropagationpolicy.karmada.io/permanent-id"
CLUSTER_NAME: Final = "clusterpropagationpolicy.karmada.io/name"


@dataclass(frozen=True, slots=True)
class Marks:
    """Labels and annotations of a resource."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @classmethod
    def of(cls, resource: Object) -> "Marks":
        """The marks of a resource as it is."""
        return cls(meta.labels(resource), meta.annotations(resource))

    def without(self, labels: Sequence[str], annotations: Sequence[str]) -> "Marks":
        """The marks without some."""
        return Marks(
            {name: value for name, value in self.labels.items() if name not in labels},
            {name: value for name, value in self.annotations.items() if name not in annotations},
        )

    def changes(self, resource: Object) -> dict[str, dict[str, str | None]]:
        """A merge patch of a resource's metadata that gives it these marks; empty if it has them."""
        return {
            part: change
            for part, change in (
                ("labels", _difference(meta.labels(resource), self.labels)),
                ("annotations", _difference(meta.annotations(resource), self.annotations)),
            )
            if change
        }

    def unclaimed(self) -> "Marks":
        """The marks without the claim of a namespaced policy."""
        return self.without((ID,), (NAMESPACE, NAME))

    def cluster_unclaimed(self) -> "Marks":
        """The marks without the claim of a cluster-wide policy."""
        return self.without((CLUSTER_ID,), (CLUSTER_NAME,))


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """A merge patch from one map to the other."""
    gone: dict[str, str | None] = {name: None for name in before if name not in after}
    return gone | {name: value for name, value in after.items() if before.get(name) != value}


@dataclass(frozen=True, slots=True)
class Claim:
    """Which policy has a resource, by its marks."""

    name: str
    #: Empty for cluster-wide policies.
    namespace: str
    cluster_wide: bool


def policy_id(policy: Object) -> str:
    """The permanent id of a policy."""
    return meta.labels(policy).get(CLUSTER_ID if is_cluster_wide(policy) else ID) or ""


def is_cluster_wide(policy: Object) -> bool:
    """Whether a policy is for resources of all namespaces."""
    return policy.get("kind") == "ClusterPropagationPolicy"


def present(marks: Marks) -> Claim | None:
    """The claim on a resource, if it is complete."""
    labels, annotations = marks.labels, marks.annotations
    if annotations.get(NAMESPACE) and annotations.get(NAME) and labels.get(ID):
        return Claim(annotations[NAME], annotations[NAMESPACE], cluster_wide=False)
    if annotations.get(CLUSTER_NAME) and labels.get(CLUSTER_ID):
        return Claim(annotations[CLUSTER_NAME], "", cluster_wide=True)
    return None


def claimed(marks: Marks, policy: Object) -> Marks:
    """The marks after a policy has claimed a resource; a namespaced policy removes the claim of a cluster-wide one."""
    identity = policy_id(policy)
    if is_cluster_wide(policy):
        if marks.labels.get(CLUSTER_ID, "") == identity:
            return marks
        return _with(marks, CLUSTER_ID, identity, {CLUSTER_NAME: meta.name(policy)})
    cleared = marks.cluster_unclaimed() if CLUSTER_ID in marks.labels else marks
    if marks.labels and cleared is marks and marks.labels.get(ID, "") == identity:
        return marks
    return _with(cleared, ID, identity, {NAMESPACE: meta.namespace(policy), NAME: meta.name(policy)})


def _with(marks: Marks, label: str, identity: str, annotations: Mapping[str, str]) -> Marks:
    return Marks({**marks.labels, label: identity}, {**marks.annotations, **annotations})


def preempted(
    marks: Marks, challenger: Object, policies: Sequence[Object], cluster_policies: Sequence[Object], gates: Gates
) -> Marks:
    """The marks after a policy has tried to take a resource over from the policy that has it.

    It must be allowed to (`preemption: Always`, and the gate), and needs a higher explicit priority; a namespaced
    policy takes from a cluster-wide one in any case. `KeyError` if the policy that has the resource is gone.
    """
    spec: Object = challenger.get("spec") or {}
    if not gates.propagation_policy_preemption or spec.get("preemption") != "Always":
        return marks
    annotations = marks.annotations
    if is_cluster_wide(challenger):
        holder = annotations.get(CLUSTER_NAME) or ""
        if not holder or holder == meta.name(challenger):
            return marks
        return _taken_if_higher(marks, challenger, _find(cluster_policies, "", holder))
    name, namespace = annotations.get(NAME) or "", annotations.get(NAMESPACE) or ""
    if name and namespace and (namespace, name) != (meta.namespace(challenger), meta.name(challenger)):
        marks = _taken_if_higher(marks, challenger, _find(policies, namespace, name))
    return claimed(marks, challenger) if marks.annotations.get(CLUSTER_NAME) else marks


def contested(resource: Object, policies: Sequence[Object], cluster_policies: Sequence[Object], gates: Gates) -> Object:
    """The resource after every policy that may preempt has tried to take it over, the highest priority last."""
    marks = Marks.of(resource)
    if not gates.propagation_policy_preemption or present(marks) is None:
        return resource
    own = [one for one in policies if meta.namespace(one) == meta.namespace(resource)]
    challengers = [one for one in (*cluster_policies, *own) if resource_selectors.selects(one, resource)]
    for challenger in sorted(challengers, key=resource_selectors.priority):
        try:
            marks = preempted(marks, challenger, policies, cluster_policies, gates)
        except KeyError:
            continue  # the policy that has it is gone, which is noticed next
    metadata = {**meta.metadata(resource), "labels": dict(marks.labels), "annotations": dict(marks.annotations)}
    return {**resource, "metadata": metadata}


def _taken_if_higher(marks: Marks, challenger: Object, holder: Object) -> Marks:
    higher = resource_selectors.priority(challenger) > resource_selectors.priority(holder)
    return claimed(marks, challenger) if higher else marks


def _find(policies: Sequence[Object], namespace: str, name: str) -> Object:
    for policy in policies:
        if meta.name(policy) == name and meta.namespace(policy) == namespace:
            return policy
    raise KeyError(name)
