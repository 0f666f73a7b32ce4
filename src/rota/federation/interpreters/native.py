"""The table of native kinds: which questions have an answer for which kind."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from rota.federation.interpreters import aggregation, dependencies, health, replicas, retention, statuses

Object: TypeAlias = Mapping[str, Any]
Kind: TypeAlias = tuple[str, str]

_DEPLOYMENT: Final = ("apps/v1", "Deployment")
_REPLICA_SET: Final = ("apps/v1", "ReplicaSet")
_STATEFUL_SET: Final = ("apps/v1", "StatefulSet")
_DAEMON_SET: Final = ("apps/v1", "DaemonSet")
_JOB: Final = ("batch/v1", "Job")
_CRON_JOB: Final = ("batch/v1", "CronJob")
_POD: Final = ("v1", "Pod")
_SERVICE: Final = ("v1", "Service")
_CLAIM: Final = ("v1", "PersistentVolumeClaim")
_VOLUME: Final = ("v1", "PersistentVolume")
_INGRESS: Final = ("networking.k8s.io/v1", "Ingress")
_BUDGET: Final = ("policy/v1", "PodDisruptionBudget")
_AUTOSCALER: Final = ("autoscaling/v2", "HorizontalPodAutoscaler")
_IMPORT: Final = ("multicluster.x-k8s.io/v1alpha1", "ServiceImport")

REPLICAS: Final[Mapping[Kind, Callable[[Object], tuple[int, dict[str, Any] | None]]]] = {
    _DEPLOYMENT: replicas.of_template,
    _REPLICA_SET: replicas.of_template,
    _STATEFUL_SET: replicas.of_template,
    _JOB: replicas.of_job,
    _POD: replicas.of_pod,
}
#: By kind: the member of the spec that holds the number of replicas.
REVISED: Final[Mapping[Kind, str]] = {
    _DEPLOYMENT: "replicas",
    _REPLICA_SET: "replicas",
    _STATEFUL_SET: "replicas",
    _JOB: "parallelism",
}
HEALTH: Final[Mapping[Kind, Callable[[Object], bool]]] = {
    _DEPLOYMENT: health.of_deployment,
    _STATEFUL_SET: health.of_deployment,
    _REPLICA_SET: health.of_replica_set,
    _DAEMON_SET: health.of_daemon_set,
    _SERVICE: health.of_service,
    _INGRESS: health.of_ingress,
    _CLAIM: health.of_claim,
    _POD: health.of_pod,
    _BUDGET: health.of_disruption_budget,
}
#: Of all other kinds the whole status is collected.
STATUS: Final[Mapping[Kind, Callable[[Object], dict[str, Any] | None]]] = {
    _DEPLOYMENT: statuses.with_generations(statuses.DEPLOYMENT),
    _REPLICA_SET: statuses.with_generations(statuses.REPLICA_SET),
    _DAEMON_SET: statuses.with_generations(statuses.DAEMON_SET),
    _STATEFUL_SET: statuses.with_generations(statuses.STATEFUL_SET),
    _SERVICE: statuses.of_service,
    _JOB: statuses.members(statuses.JOB),
    _BUDGET: statuses.members(statuses.DISRUPTION_BUDGET),
    _AUTOSCALER: statuses.members(statuses.AUTOSCALER),
}
AGGREGATED: Final[Mapping[Kind, aggregation.Aggregate]] = {
    _DEPLOYMENT: aggregation.sums(statuses.DEPLOYMENT),
    _REPLICA_SET: aggregation.sums(statuses.REPLICA_SET),
    _DAEMON_SET: aggregation.sums(statuses.DAEMON_SET),
    _STATEFUL_SET: aggregation.sums((*statuses.STATEFUL_SET, "observedGeneration"), by_template=False),
    _SERVICE: aggregation.of_service,
    _INGRESS: aggregation.of_ingress,
    _JOB: aggregation.of_job,
    _CRON_JOB: aggregation.of_cron_job,
    _POD: aggregation.of_pod,
    _VOLUME: aggregation.of_volume,
    _CLAIM: aggregation.of_claim,
    _BUDGET: aggregation.of_disruption_budget,
    _AUTOSCALER: aggregation.plain_sums(statuses.AUTOSCALER),
}
DEPENDENCIES: Final[Mapping[Kind, Callable[[Object], list[dict[str, Any]]]]] = {
    _DEPLOYMENT: dependencies.of_template("spec", "template", "spec"),
    _REPLICA_SET: dependencies.of_template("spec", "template", "spec"),
    _DAEMON_SET: dependencies.of_template("spec", "template", "spec"),
    _JOB: dependencies.of_template("spec", "template", "spec"),
    _CRON_JOB: dependencies.of_template("spec", "jobTemplate", "spec", "template", "spec"),
    _POD: dependencies.of_template("spec"),
    _STATEFUL_SET: dependencies.of_stateful_set,
    _INGRESS: dependencies.of_ingress,
    _IMPORT: dependencies.of_service_import,
}
RETAINED: Final[Mapping[Kind, Callable[[Object, Object], dict[str, Any]]]] = {
    _DEPLOYMENT: retention.of_deployment,
    _POD: retention.of_pod,
    _SERVICE: retention.of_service,
    ("v1", "ServiceAccount"): retention.of_service_account,
    _CLAIM: retention.of_claim,
    _VOLUME: retention.of_volume,
    _JOB: retention.of_job,
    ("v1", "Secret"): retention.of_secret,
}


def kind_of(obj: Object) -> Kind:
    """The key of an object's kind in the tables."""
    return obj.get("apiVersion") or "", obj.get("kind") or ""


def collected_status(obj: Object) -> dict[str, Any] | None:
    """The part of a member's status that goes to the control plane."""
    return STATUS.get(kind_of(obj), statuses.whole)(obj)
