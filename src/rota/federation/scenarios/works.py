"""The categories `override`, `work` and `collect`."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from rota.api import meta
from rota.federation import gates
from rota.federation.clusters import Cluster
from rota.federation.policies import overrides
from rota.federation.works import manifests, reports

Object: TypeAlias = Mapping[str, Any]


def override(scenario: Object) -> dict[str, Any]:
    """A resource as it is for one cluster."""
    try:
        found = overrides.override(
            scenario["object"],
            Cluster(scenario["cluster"]),
            scenario.get("overridePolicies") or (),
            scenario.get("clusterOverridePolicies") or (),
        )
    except overrides.CannotOverride:
        return {"error": True}
    return {
        "object": found.resource,
        "clusterOverrides": [rule.policy for rule in found.cluster_overrides],
        "overrides": [rule.policy for rule in found.overrides],
        "error": False,
    }


def work(scenario: Object) -> dict[str, Any]:
    """The Works of a binding."""
    found = manifests.render(
        scenario["object"],
        scenario.get("binding") or scenario["clusterBinding"],
        [Cluster(obj) for obj in scenario["clusters"]],
        manifests.Policies(scenario.get("overridePolicies") or (), scenario.get("clusterOverridePolicies") or ()),
        gates.from_names(scenario.get("featureGates")),
    )
    works = [
        {
            **{name: value for name, value in meta.metadata(one).items() if name != "kind"},
            "manifests": one["spec"]["workload"]["manifests"],
            "suspendDispatching": one["spec"]["suspendDispatching"],
            "preserveResourcesOnDeletion": one["spec"]["preserveResourcesOnDeletion"],
        }
        for one in found.works
    ]
    return {"works": sorted(works, key=lambda one: str(one["namespace"])), "error": bool(found.errors)}


def collect(scenario: Object) -> dict[str, Any]:
    """What members report about a binding."""
    spec: Object = scenario["binding"].get("spec") or {}
    items = reports.collect(scenario["works"], spec.get("resource") or {})
    applied = reports.fully_applied(spec, items)
    reason = (reports.FULLY_APPLIED if applied else reports.NOT_FULLY_APPLIED)[0]
    return {
        "aggregatedStatus": items,
        "fullyApplied": {"status": "True" if applied else "False", "reason": reason},
    }
