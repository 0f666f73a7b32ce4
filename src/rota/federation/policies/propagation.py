"""From a resource and the policies there are to its claim and its binding: what the detector decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rota.api import meta
from rota.federation import object_names
from rota.federation.gates import DEFAULT, Gates
from rota.federation.interpreters import native
from rota.federation.policies import claims, resource_selectors

Object: TypeAlias = Mapping[str, Any]

BINDING_FINALIZER: Final = "karmada.io/binding-controller"
CLUSTER_BINDING_FINALIZER: Final = "karmada.io/cluster-resource-binding-controller"
CLAIMED_BY: Final = "resourcetemplate.karmada.io/claimed-by"
_COPIED: Final = ("propagateDeps", "schedulerName", "failover", "conflictResolution", "preserveResourcesOnDeletion")


class NotPropagated(ValueError):
    """The resource has no binding for now; the message says what it waits for."""


@dataclass(frozen=True, slots=True)
class Propagation:
    """What becomes of a resource."""

    marks: claims.Marks
    binding: dict[str, Any] | None = None
    error: str | None = None
    #: The policy of the binding.
    policy: Object | None = None


def propagate(
    resource: Object,
    policies: Sequence[Object],
    cluster_policies: Sequence[Object],
    gates: Gates = DEFAULT,
    *,
    by_control_plane: bool = False,
    size: Object | None = None,
) -> Propagation:
    """Find the policy of a resource, claim it, and build its binding.

    `by_control_plane` says that the change came from the control plane itself: a lazy policy then only claims. `size`
    are the members of the binding's spec that an interpreter has read; without it, the native kinds are read.
    """
    marks = claims.Marks.of(resource)
    if marks.labels.get(CLAIMED_BY):
        return Propagation(marks)
    claim = claims.present(marks)
    if claim is not None:
        holders = cluster_policies if claim.cluster_wide else policies
        policy = _policy(holders, claim)
        if policy is None:
            return Propagation(marks.cluster_unclaimed() if claim.cluster_wide else marks.unclaimed())
        if meta.is_deleting(policy):
            label = f"cluster policy({claim.name})" if claim.cluster_wide else f"policy({claim.namespace}/{claim.name})"
            return Propagation(marks, error=f"{label} is being deleted")
        if not resource_selectors.selects(policy, resource):
            return Propagation(marks)
    else:
        found = _matched(resource, policies, cluster_policies)
        if found is None:
            return Propagation(marks, error="no matched propagation policy")
        policy = found
    marks = claims.claimed(marks, policy)
    if by_control_plane and (policy.get("spec") or {}).get("activationPreference") == "Lazy":
        return Propagation(marks)
    return Propagation(marks, binding_of(resource, marks, policy, gates, size), policy=policy)


def _policy(holders: Sequence[Object], claim: claims.Claim) -> Object | None:
    named = (
        policy for policy in holders if meta.name(policy) == claim.name and meta.namespace(policy) == claim.namespace
    )
    return next(named, None)


def _matched(resource: Object, policies: Sequence[Object], cluster_policies: Sequence[Object]) -> Object | None:
    namespace = meta.namespace(resource)
    if namespace:
        found = resource_selectors.best(
            resource, (policy for policy in policies if meta.namespace(policy) == namespace)
        )
        if found is not None:
            return found
    return resource_selectors.best(resource, cluster_policies)


def binding_of(
    resource: Object, marks: claims.Marks, policy: Object, gates: Gates = DEFAULT, size: Object | None = None
) -> dict[str, Any]:
    """The binding of a resource by a policy; see `propagate`."""
    spec: Object = policy.get("spec") or {}
    name, namespace = meta.name(resource), meta.namespace(resource)
    api_version, kind = native.kind_of(resource)
    metadata: dict[str, Any] = {
        "name": object_names.binding(kind, name),
        "labels": {},
        "annotations": {},
        "finalizers": [BINDING_FINALIZER if namespace else CLUSTER_BINDING_FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": api_version,
                "kind": kind,
                "name": name,
                "uid": meta.uid(resource),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    claim = claims.claimed(claims.Marks({}, {}), policy)
    metadata["labels"], metadata["annotations"] = dict(claim.labels), dict(claim.annotations)
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "uid": meta.uid(resource),
        "resourceVersion": meta.metadata(resource).get("resourceVersion"),
    }
    found: dict[str, Any] = {
        "resource": {member: value for member, value in reference.items() if value},
        "placement": spec.get("placement") or {},
    }
    # Empty text and false mean absence, but for the one member that knows three states.
    found |= {
        member: spec[member]
        for member in _COPIED
        if spec.get(member) or member == "preserveResourcesOnDeletion" in spec
    }
    if spec.get("suspension") is not None:
        found["suspension"] = dict(spec["suspension"])
    if namespace:
        metadata["namespace"] = namespace
        if gates.workload_affinity:
            groups = _groups(marks, (spec.get("placement") or {}).get("workloadAffinity"))
            if groups:
                found["workloadAffinityGroups"] = groups
    found |= _native_size(resource, gates) if size is None else size
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding" if namespace else "ClusterResourceBinding",
        "metadata": metadata,
        "spec": found,
    }


def _native_size(resource: Object, gates: Gates) -> dict[str, Any]:
    read = native.REPLICAS.get(native.kind_of(resource))
    return size_of(None if read is None else read(resource), meta.namespace(resource), gates)


def size_of(read: tuple[int, dict[str, Any] | None] | None, namespace: str, gates: Gates = DEFAULT) -> dict[str, Any]:
    """Replicas and requirements as members of a binding's spec."""
    if read is None:
        return {}
    count, needed = read
    found: dict[str, Any] = {"replicas": count} if count else {}
    if needed is not None:
        if gates.resource_quota_estimate:
            needed = {**needed, "namespace": namespace}
        found["replicaRequirements"] = needed
    return found


def _groups(marks: claims.Marks, affinity: Object | None) -> dict[str, str]:
    """The groups that a workload's labels put it into."""
    found = {}
    for term, member in (("affinity", "affinityGroup"), ("antiAffinity", "antiAffinityGroup")):
        key = ((affinity or {}).get(term) or {}).get("groupByLabelKey")
        if key is not None and key in marks.labels:
            found[member] = f"{key}={marks.labels[key]}"
    return found
