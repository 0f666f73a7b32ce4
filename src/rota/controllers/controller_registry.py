"""Every controller that a leading master runs, by name.

A controller calls the API as the user `rota:controller:<name>`; its permissions are in
`rota.apiserver.authorization.policy.own`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from rota.client.verbs import Client
from rota.controllers.account_secrets import AccountSecretController
from rota.controllers.autoscaling.controller import AutoscalingController
from rota.controllers.batch.cron_jobs import BatchCronJobController
from rota.controllers.batch.flows import JobFlowController
from rota.controllers.batch.hyper_nodes import HyperNodeController
from rota.controllers.batch.jobs import BatchJobController
from rota.controllers.batch.pod_groups import PodGroupController
from rota.controllers.batch.queues import QueueController
from rota.controllers.certificates import CertificateController
from rota.controllers.cron_jobs.controller import CronJobController
from rota.controllers.daemon_sets.controller import DaemonSetController
from rota.controllers.deployments.controller import DeploymentController
from rota.controllers.disruption import DisruptionController
from rota.controllers.endpoints.controller import EndpointController
from rota.controllers.event_expiry import EventExpiry
from rota.controllers.garbage import GarbageCollector
from rota.controllers.jobs.controller import JobController
from rota.controllers.join_tokens import JoinTokenController
from rota.controllers.namespaces import NamespaceController
from rota.controllers.node_lifecycle import NodeLifecycle
from rota.controllers.pipelines.runs import PipelineRunController
from rota.controllers.pipelines.schedules import PipelineController
from rota.controllers.pipelines.steps import StepRunController
from rota.controllers.pod_gc import PodGarbageCollector
from rota.controllers.pod_state_sync import PodStateSync
from rota.controllers.replica_sets import ReplicaSetController
from rota.controllers.resource_quotas import QuotaController
from rota.controllers.role_aggregation import RoleAggregation
from rota.controllers.service_accounts import ServiceAccountController
from rota.controllers.stateful_sets.controller import StatefulSetController
from rota.controllers.taint_eviction import TaintEviction
from rota.controllers.ttl_after_finished import TtlAfterFinished
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.errors import UserError
from rota.pki.authorities import Authority
from rota.pki.certificates import IpAddress


class Controller(Protocol):
    """A control loop."""

    async def run(self) -> None:
        """Run until cancelled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """What a controller may need besides its client."""

    clock: Clock
    rng: Rng
    authority: Authority
    #: Addresses of masters that belong to no single machine; no worker's certificate may contain them.
    reserved: tuple[IpAddress, ...] = ()

    @property
    def bundle(self) -> str:
        """The CA certificate for clients."""
        return self.authority.certificate_pem.decode()


Make: TypeAlias = Callable[[Client, ControllerContext], Controller]


class _Usual(Protocol):
    """The constructor of most controllers."""

    def __call__(self, client: Client, /, *, clock: Clock, rng: Rng) -> Controller: ...


def _usual(make: _Usual) -> Make:
    return lambda client, around: make(client, clock=around.clock, rng=around.rng)


ROSTER: Final[Mapping[str, Make]] = {
    "account-secrets": lambda client, around: AccountSecretController(
        client, clock=around.clock, rng=around.rng, bundle=around.bundle
    ),
    "autoscaling": _usual(AutoscalingController),
    "batch-cron-jobs": _usual(BatchCronJobController),
    "batch-domains": _usual(HyperNodeController),
    "batch-flows": _usual(JobFlowController),
    "batch-groups": _usual(PodGroupController),
    "batch-jobs": _usual(BatchJobController),
    "batch-queues": _usual(QueueController),
    "certificates": lambda client, around: CertificateController(
        client, around.authority, clock=around.clock, rng=around.rng, reserved=around.reserved
    ),
    "cron-jobs": _usual(CronJobController),
    "daemon-sets": _usual(DaemonSetController),
    "deployments": _usual(DeploymentController),
    "disruption": _usual(DisruptionController),
    "endpoints": _usual(EndpointController),
    "event-expiry": lambda client, around: EventExpiry(client, clock=around.clock),
    "garbage": _usual(GarbageCollector),
    "jobs": _usual(JobController),
    "join-tokens": _usual(JoinTokenController),
    "namespaces": _usual(NamespaceController),
    "node-lifecycle": _usual(NodeLifecycle),
    "pipeline-runs": _usual(PipelineRunController),
    "pipelines": _usual(PipelineController),
    "pod-garbage-collector": _usual(PodGarbageCollector),
    "pod-state-sync": _usual(PodStateSync),
    "replica-sets": _usual(ReplicaSetController),
    "resource-quotas": _usual(QuotaController),
    "role-aggregation": _usual(RoleAggregation),
    "service-accounts": lambda client, around: ServiceAccountController(
        client, clock=around.clock, rng=around.rng, bundle=lambda: around.bundle
    ),
    "stateful-sets": _usual(StatefulSetController),
    "step-runs": _usual(StepRunController),
    "taint-eviction": _usual(TaintEviction),
    "ttl-after-finished": _usual(TtlAfterFinished),
}


#: Resources that several controllers watch through one shared informer, as the user `rota:controllers`.
SHARED: Final = frozenset(
    {
        ("", "v1", "namespaces"),
        ("", "v1", "nodes"),
        ("", "v1", "pods"),
        ("apps", "v1", "replicasets"),
        ("batch", "v1", "jobs"),
        ("batch.volcano.sh", "v1alpha1", "jobs"),
        ("rota.dev", "v1alpha1", "pipelineruns"),
        ("rota.dev", "v1alpha1", "stepruns"),
        ("scheduling.volcano.sh", "v1beta1", "podgroups"),
    }
)


def chosen(text: str, *, beside: Mapping[str, Make] | None = None) -> Mapping[str, Make]:
    """The controllers in a comma-separated list: `*` is all, `-jobs` excludes one; `UserError` for unknown names.

    As kube-controller-manager's `--controllers`, so that a stock one can run those that Rota does not. `beside` are
    further controllers, registered by other packages.
    """
    known = {**ROSTER, **(beside or {})}
    words = [word.strip() for word in text.split(",") if word.strip()]
    strangers = [word for word in words if word != "*" and word.removeprefix("-") not in known]
    if strangers:
        raise UserError(f"there is no controller {strangers[0]}", f"choose from *, {', '.join(known)}")
    wanted = set(known) if "*" in words else {word for word in words if not word.startswith("-")}
    unwanted = {word.removeprefix("-") for word in words if word.startswith("-")}
    return {name: make for name, make in known.items() if name in wanted - unwanted}
