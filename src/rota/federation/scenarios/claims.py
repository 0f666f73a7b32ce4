"""The categories `match`, `bind` and `usage`."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from rota.api import meta
from rota.federation import gates, quotas
from rota.federation.policies import claims, propagation

Object: TypeAlias = Mapping[str, Any]


def match(scenario: Object) -> dict[str, Any]:
    """Which policy claims a resource, and the binding that follows."""
    on = gates.from_names(scenario.get("featureGates"))
    resource: Object = scenario["object"]
    policies, cluster_policies = scenario.get("policies") or (), scenario.get("clusterPolicies") or ()
    if scenario.get("kind") == "preempt":
        challenger = scenario.get("challenger") or scenario["clusterChallenger"]
        marks = claims.preempted(claims.Marks.of(resource), challenger, policies, cluster_policies, on)
        return {"labels": dict(marks.labels), "annotations": dict(marks.annotations)}
    found = propagation.propagate(
        resource, policies, cluster_policies, on, by_control_plane=bool(scenario.get("changedByController"))
    )
    return {
        "labels": dict(found.marks.labels),
        "annotations": dict(found.marks.annotations),
        "bindings": [] if found.binding is None else [shown(found.binding)],
        "error": found.error,
    }


def shown(binding: Object) -> dict[str, Any]:
    """A binding as scenarios show it."""
    metadata = meta.metadata(binding)
    return {
        "kind": binding.get("kind"),
        "name": metadata.get("name"),
        "namespace": metadata.get("namespace") or "",
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "finalizers": metadata.get("finalizers"),
        "owners": [
            {"kind": owner.get("kind"), "name": owner.get("name"), "uid": owner.get("uid")}
            for owner in metadata.get("ownerReferences") or ()
        ],
        "spec": binding.get("spec"),
    }


def usage(scenario: Object) -> dict[str, Any]:
    """What a binding uses of a quota."""
    return {"usage": quotas.usage(scenario["binding"].get("spec") or {})}
