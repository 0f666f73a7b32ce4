"""Feature gates that decisions depend on, with upstream's defaults."""

from collections.abc import Mapping
from dataclasses import dataclass


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
}


def from_names(given: Mapping[str, bool] | None) -> Gates:
    """The gates by upstream's names; what is not named has its default, and names without a decision are ignored."""
    if not given:
        return DEFAULT
    return Gates(**{_NAMES[name]: bool(on) for name, on in given.items() if name in _NAMES})
