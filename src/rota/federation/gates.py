"""Feature gates that decisions depend on, with upstream's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass

from rota.kit.errors import UserError


@dataclass(frozen=True, slots=True)
class Gates:
    """Which optional behaviours are on."""

    customized_cluster_resource_modeling: bool = True
    multiple_pod_templates_scheduling: bool = False
    propagation_policy_preemption: bool = False
    resource_quota_estimate: bool = False
    scheduling_overcommit_protection: bool = False
    stateful_failover_injection: bool = False
    workload_affinity: bool = False
    priority_based_scheduling: bool = True
    federated_quota_enforcement: bool = False
    multi_cluster_service: bool = False
    #: Of our own: placement also counts what fits on single nodes, as upstream's scheduler estimator.
    accurate_estimator: bool = False
    #: Of our own: kinds without a rule are read by scale subresource and conditions.
    generic_interpretation: bool = False
    #: Of our own: spread constraints over zones, providers and labels choose clusters.
    spread_by_every_field: bool = False
    #: Of our own: statuses of StatefulSets, Pods and claims are kept in full.
    detailed_status: bool = False


DEFAULT = Gates()

_NAMES = {
    "CustomizedClusterResourceModeling": "customized_cluster_resource_modeling",
    "MultiplePodTemplatesScheduling": "multiple_pod_templates_scheduling",
    "PropagationPolicyPreemption": "propagation_policy_preemption",
    "ResourceQuotaEstimate": "resource_quota_estimate",
    "SchedulingOvercommitProtection": "scheduling_overcommit_protection",
    "StatefulFailoverInjection": "stateful_failover_injection",
    "WorkloadAffinity": "workload_affinity",
    "PriorityBasedScheduling": "priority_based_scheduling",
    "FederatedQuotaEnforcement": "federated_quota_enforcement",
    "MultiClusterService": "multi_cluster_service",
    "AccurateEstimator": "accurate_estimator",
    "GenericInterpretation": "generic_interpretation",
    "SpreadByEveryField": "spread_by_every_field",
    "DetailedStatus": "detailed_status",
}


def from_names(given: Mapping[str, bool] | None) -> Gates:
    """The gates by upstream's names; what is not named has its default, and names without a decision are ignored."""
    if not given:
        return DEFAULT
    return Gates(**{_NAMES[name]: bool(on) for name, on in given.items() if name in _NAMES})


def parse(text: str) -> Gates:
    """The gates of `NAME=true,NAME=false`; a name that decides nothing here is refused."""
    given: dict[str, bool] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, _, value = part.partition("=")
        if name not in _NAMES:
            raise UserError(f"{name} is no feature gate", f"use {', '.join(sorted(_NAMES))}")
        if value not in ("true", "false"):
            raise UserError(f"{part!r} is no setting of a gate", f"write {name}=true or {name}=false")
        given[name] = value == "true"
    return from_names(given)
