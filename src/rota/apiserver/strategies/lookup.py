"""The strategy of each kind.

A kind with its own strategy is registered in `SPECIAL` by its group and plural; all its versions share the strategy.
"""

from collections.abc import Mapping
from typing import Final

from rota.api.identifiers import GroupResource
from rota.api.kinds import ResourceType
from rota.apiserver.interfaces import Strategy
from rota.apiserver.strategies.admission_policies import (
    MutatingPolicyBindingStrategy,
    MutatingPolicyStrategy,
    PolicyBindingStrategy,
    PolicyStrategy,
)
from rota.apiserver.strategies.api_services import ApiServiceStrategy
from rota.apiserver.strategies.autoscalers import AutoscalerStrategy
from rota.apiserver.strategies.batch import CronJobStrategy, JobStrategy
from rota.apiserver.strategies.certificate_requests import CertificateRequestStrategy
from rota.apiserver.strategies.cluster_states import ClusterStateStrategy
from rota.apiserver.strategies.config import ConfigMapStrategy, SecretStrategy
from rota.apiserver.strategies.crds import DefinitionStrategy
from rota.apiserver.strategies.custom_objects import CustomStrategy
from rota.apiserver.strategies.drivers import AttachmentStrategy, DriverNodeStrategy, DriverStrategy
from rota.apiserver.strategies.generic import GenerationStrategy, GenericStrategy
from rota.apiserver.strategies.leases_and_events import (
    EventStrategy,
    LeaseStrategy,
    PodTemplateStrategy,
    RevisionStrategy,
)
from rota.apiserver.strategies.limits import LimitRangeStrategy, QuotaStrategy
from rota.apiserver.strategies.namespaces import NamespaceStrategy
from rota.apiserver.strategies.networks import (
    EndpointSliceStrategy,
    EndpointsStrategy,
    IngressClassStrategy,
    IngressStrategy,
    NetworkPolicyStrategy,
)
from rota.apiserver.strategies.nodes import NodeStrategy
from rota.apiserver.strategies.pipelines import PipelineStrategy, RunStrategy, StepRunStrategy
from rota.apiserver.strategies.pods import PodStrategy
from rota.apiserver.strategies.policy import DisruptionBudgetStrategy, PriorityClassStrategy
from rota.apiserver.strategies.rbac_kinds import RoleBindingStrategy, RoleStrategy
from rota.apiserver.strategies.rebalancing import RebalancePolicyStrategy
from rota.apiserver.strategies.scheduler_shards import SchedulerInstanceStrategy, ShardMapStrategy
from rota.apiserver.strategies.services import ServiceStrategy
from rota.apiserver.strategies.storage import ClaimStrategy, StorageClassStrategy, VolumeStrategy
from rota.apiserver.strategies.tuning import TuningProposalStrategy
from rota.apiserver.strategies.webhooks import WebhookStrategy
from rota.apiserver.strategies.workloads import (
    DaemonSetStrategy,
    DeploymentStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
    StatefulSetStrategy,
)

_ADMISSION: Final = "admissionregistration.k8s.io"
_APPS: Final = "apps"
_NETWORKING: Final = "networking.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"

SPECIAL: Final[Mapping[GroupResource, Strategy]] = {
    GroupResource("", "pods"): PodStrategy(),
    GroupResource("", "nodes"): NodeStrategy(),
    GroupResource("", "namespaces"): NamespaceStrategy(),
    GroupResource("", "services"): ServiceStrategy(),
    GroupResource("", "configmaps"): ConfigMapStrategy(),
    GroupResource("", "secrets"): SecretStrategy(),
    GroupResource("", "events"): EventStrategy(),
    GroupResource("events.k8s.io", "events"): EventStrategy(),
    GroupResource("", "persistentvolumeclaims"): ClaimStrategy(),
    GroupResource("", "persistentvolumes"): VolumeStrategy(),
    GroupResource("storage.k8s.io", "storageclasses"): StorageClassStrategy(),
    GroupResource("", "resourcequotas"): QuotaStrategy(),
    GroupResource("", "limitranges"): LimitRangeStrategy(),
    GroupResource("", "replicationcontrollers"): ReplicationControllerStrategy(),
    GroupResource(_APPS, "deployments"): DeploymentStrategy(),
    GroupResource(_APPS, "replicasets"): ReplicaSetStrategy(),
    GroupResource(_APPS, "statefulsets"): StatefulSetStrategy(),
    GroupResource(_APPS, "daemonsets"): DaemonSetStrategy(),
    GroupResource("batch", "jobs"): JobStrategy(),
    GroupResource("batch", "cronjobs"): CronJobStrategy(),
    GroupResource("policy", "poddisruptionbudgets"): DisruptionBudgetStrategy(),
    GroupResource("scheduling.k8s.io", "priorityclasses"): PriorityClassStrategy(),
    GroupResource("coordination.k8s.io", "leases"): LeaseStrategy(),
    GroupResource("", "podtemplates"): PodTemplateStrategy(),
    GroupResource(_APPS, "controllerrevisions"): RevisionStrategy(),
    GroupResource("", "endpoints"): EndpointsStrategy(),
    GroupResource("discovery.k8s.io", "endpointslices"): EndpointSliceStrategy(),
    GroupResource(_NETWORKING, "ingresses"): IngressStrategy(),
    GroupResource(_NETWORKING, "ingressclasses"): IngressClassStrategy(),
    GroupResource(_NETWORKING, "networkpolicies"): NetworkPolicyStrategy(),
    GroupResource("storage.k8s.io", "csidrivers"): DriverStrategy(),
    GroupResource("storage.k8s.io", "csinodes"): DriverNodeStrategy(),
    GroupResource("storage.k8s.io", "volumeattachments"): AttachmentStrategy(),
    GroupResource("autoscaling", "horizontalpodautoscalers"): AutoscalerStrategy(),
    GroupResource(_ADMISSION, "mutatingwebhookconfigurations"): WebhookStrategy(mutating=True),
    GroupResource(_ADMISSION, "validatingwebhookconfigurations"): WebhookStrategy(mutating=False),
    GroupResource(_RBAC, "roles"): RoleStrategy(namespaced=True),
    GroupResource(_RBAC, "clusterroles"): RoleStrategy(namespaced=False),
    GroupResource(_RBAC, "rolebindings"): RoleBindingStrategy(namespaced=True),
    GroupResource(_RBAC, "clusterrolebindings"): RoleBindingStrategy(namespaced=False),
    GroupResource("certificates.k8s.io", "certificatesigningrequests"): CertificateRequestStrategy(),
    GroupResource("rota.dev", "pipelines"): PipelineStrategy(),
    GroupResource("rota.dev", "pipelineruns"): RunStrategy(),
    GroupResource("rota.dev", "clusterstates"): ClusterStateStrategy(),
    GroupResource("rota.dev", "rebalancepolicies"): RebalancePolicyStrategy(),
    GroupResource("rota.dev", "tuningproposals"): TuningProposalStrategy(),
    GroupResource("rota.dev", "schedulerinstances"): SchedulerInstanceStrategy(),
    GroupResource("rota.dev", "shardmaps"): ShardMapStrategy(),
    GroupResource("rota.dev", "stepruns"): StepRunStrategy(),
    GroupResource("apiextensions.k8s.io", "customresourcedefinitions"): DefinitionStrategy(),
    GroupResource("apiregistration.k8s.io", "apiservices"): ApiServiceStrategy(),
    GroupResource(_ADMISSION, "mutatingadmissionpolicies"): MutatingPolicyStrategy(),
    GroupResource(_ADMISSION, "mutatingadmissionpolicybindings"): MutatingPolicyBindingStrategy(),
    GroupResource(_ADMISSION, "validatingadmissionpolicies"): PolicyStrategy(),
    GroupResource(_ADMISSION, "validatingadmissionpolicybindings"): PolicyBindingStrategy(),
}

#: Kinds with generic rules and a generation.
_COUNTED: Final = frozenset(
    {
        GroupResource("flowcontrol.apiserver.k8s.io", "flowschemas"),
        GroupResource("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
        GroupResource("resource.k8s.io", "deviceclasses"),
        GroupResource("resource.k8s.io", "devicetaintrules"),
        GroupResource("resource.k8s.io", "resourceslices"),
        GroupResource("scheduling.k8s.io", "podgroups"),
        GroupResource("scheduling.k8s.io", "workloads"),
    }
)
_GENERIC: Final = GenericStrategy()
_COUNTING: Final = GenerationStrategy()
_CUSTOM: Final = CustomStrategy()


def strategy(resource: ResourceType) -> Strategy:
    """The strategy of a kind."""
    special = SPECIAL.get(resource.group_resource)
    if special is not None:
        return special
    if resource.custom:
        return _CUSTOM
    return _COUNTING if resource.group_resource in _COUNTED else _GENERIC
