"""The kinds of a federation: their resources, and the definitions that make an API server serve them.

`definitions.json` has the fields, defaults and bounds of Karmada 1.18's own definitions; Cluster, which upstream serves
from an API server of its own, is a definition here, too. `failover_definitions.json` has WorkloadRebalancer and our own
FailbackPolicy, `queue_definitions.json` has FederatedQueue, `service_definitions.json` has MultiClusterService, and
`report_definitions.json` has MemberReport.
"""

import functools
from importlib import resources
from typing import Any, Final, TypeAlias

import msgspec

Target: TypeAlias = tuple[str, str, str]

_POLICY: Final = ("policy.karmada.io", "v1alpha1")
POLICIES: Final[Target] = (*_POLICY, "propagationpolicies")
CLUSTER_POLICIES: Final[Target] = (*_POLICY, "clusterpropagationpolicies")
OVERRIDES: Final[Target] = (*_POLICY, "overridepolicies")
CLUSTER_OVERRIDES: Final[Target] = (*_POLICY, "clusteroverridepolicies")
TAINT_POLICIES: Final[Target] = (*_POLICY, "clustertaintpolicies")
BINDINGS: Final[Target] = ("work.karmada.io", "v1alpha2", "resourcebindings")
CLUSTER_BINDINGS: Final[Target] = ("work.karmada.io", "v1alpha2", "clusterresourcebindings")
WORKS: Final[Target] = ("work.karmada.io", "v1alpha1", "works")
CLUSTERS: Final[Target] = ("cluster.karmada.io", "v1alpha1", "clusters")
CUSTOMIZATIONS: Final[Target] = ("config.karmada.io", "v1alpha1", "resourceinterpretercustomizations")
INTERPRETER_WEBHOOKS: Final[Target] = ("config.karmada.io", "v1alpha1", "resourceinterpreterwebhookconfigurations")
CAPACITY_SOURCES: Final[Target] = ("federation.rota.dev", "v1alpha1", "capacitysources")
QUOTAS: Final[Target] = (*_POLICY, "federatedresourcequotas")
FEDERATED_HPAS: Final[Target] = ("autoscaling.karmada.io", "v1alpha1", "federatedhpas")
CRON_HPAS: Final[Target] = ("autoscaling.karmada.io", "v1alpha1", "cronfederatedhpas")
REBALANCERS: Final[Target] = ("apps.karmada.io", "v1alpha1", "workloadrebalancers")
FAILBACK_POLICIES: Final[Target] = ("federation.rota.dev", "v1alpha1", "failbackpolicies")
MEMBER_REPORTS: Final[Target] = ("federation.rota.dev", "v1alpha1", "memberreports")
QUEUES: Final[Target] = ("federation.rota.dev", "v1alpha1", "federatedqueues")
SERVICES: Final[Target] = ("", "v1", "services")
MULTI_CLUSTER_SERVICES: Final[Target] = ("networking.karmada.io", "v1alpha1", "multiclusterservices")
DEFINITIONS: Final[Target] = ("apiextensions.k8s.io", "v1", "customresourcedefinitions")
NAMESPACES: Final[Target] = ("", "v1", "namespaces")
SECRETS: Final[Target] = ("", "v1", "secrets")
SERVICE_ACCOUNTS: Final[Target] = ("", "v1", "serviceaccounts")
LEASES: Final[Target] = ("coordination.k8s.io", "v1", "leases")

#: The namespace of members' credentials and leases.
CLUSTER_NAMESPACE: Final = "karmada-cluster"


@functools.cache
def definitions() -> tuple[dict[str, Any], ...]:
    """The CustomResourceDefinitions."""
    folder = resources.files(__package__)
    files = (
        "definitions.json",
        "failover_definitions.json",
        "queue_definitions.json",
        "service_definitions.json",
        "report_definitions.json",
    )
    return tuple(one for file in files for one in msgspec.json.decode((folder / file).read_bytes()))


def bindings_of(namespace: str) -> Target:
    """Where bindings of resources of a namespace are; without one, of cluster-scoped resources."""
    return BINDINGS if namespace else CLUSTER_BINDINGS
