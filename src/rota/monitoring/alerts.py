"""The table of alerts. Each has a runbook page of its name in `docs/runbooks/`.

An alert is about something that an operator should act on. Where the fault of one alert also makes another expression
true, the other one is listed in `silences`: Alertmanager then holds it back (`rule_files.inhibitions`).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: The jobs of the scrape configuration (`scraping`).
MASTERS: Final = "rota-masters"
WORKERS: Final = "rota-workers"
BACKUPS: Final = "rota-backups"

_SOME_MASTER_ANSWERS: Final = f'on () (sum(up{{job="{MASTERS}"}}) > 0)'


class Severity(StrEnum):
    """How soon an operator should act."""

    #: Now: work is not accepted, not placed or not run.
    CRITICAL = "critical"
    #: Today: part of the cluster does not work, or soon will not.
    WARNING = "warning"
    #: Nothing to do.
    NONE = "none"


class Component(StrEnum):
    """What an alert is about; a group of rules for each."""

    API_SERVER = "apiserver"
    STORE = "store"
    CONTROLLERS = "controllers"
    NODES = "nodes"
    SCHEDULER = "scheduler"
    SPOT = "spot"
    BACKUP = "backup"
    MONITORING = "monitoring"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alerting rule."""

    name: str
    component: Component
    expr: str
    #: How long the expression must hold.
    for_s: int
    severity: Severity
    #: One line; Prometheus fills the labels in.
    summary: str
    #: Alerts that follow from this one and are held back while it fires.
    silences: tuple[str, ...] = ()
    #: The same for alerts about the same process (label `instance`).
    silences_of_instance: tuple[str, ...] = ()


ALERTS: Final = (
    Alert(
        name="RotaMasterDown",
        component=Component.API_SERVER,
        expr=f'up{{job="{MASTERS}"}} == 0',
        for_s=60,
        severity=Severity.CRITICAL,
        summary="The master at {{ $labels.instance }} does not answer.",
        # Not those about leaders: other masters should have taken over.
        silences=("RotaApiErrors", "RotaApiSlow"),
    ),
    Alert(
        name="RotaApiErrors",
        component=Component.API_SERVER,
        expr="cluster:rota_apiserver_request_errors:ratio_rate5m > 0.03",
        for_s=300,
        severity=Severity.CRITICAL,
        summary="{{ $value | humanizePercentage }} of the requests to the API fail with a server error.",
    ),
    Alert(
        name="RotaApiSlow",
        component=Component.API_SERVER,
        expr="verb:rota_apiserver_request_duration_seconds:p99_rate5m > 1",
        for_s=600,
        severity=Severity.WARNING,
        summary="The slowest hundredth of {{ $labels.verb }} requests takes {{ $value | humanizeDuration }}.",
    ),
    Alert(
        name="RotaRequestsRefused",
        component=Component.API_SERVER,
        expr="sum by (level) (rate(rota_apiserver_requests_refused_total[5m])) > 1",
        for_s=300,
        severity=Severity.WARNING,
        summary="The API refuses {{ $value | humanize }} requests a second of level {{ $labels.level }} (429).",
    ),
    Alert(
        name="RotaAuditEventsDropped",
        component=Component.API_SERVER,
        expr="increase(rota_apiserver_audit_events_dropped_total[10m]) > 0",
        for_s=0,
        severity=Severity.WARNING,
        summary="The master at {{ $labels.instance }} does not write all audit events.",
    ),
    Alert(
        name="RotaCertificateAuthorityExpires",
        component=Component.API_SERVER,
        expr="min(rota_apiserver_ca_not_after_seconds) - time() < 60 * 86400",
        for_s=3600,
        severity=Severity.WARNING,
        summary="The cluster's CA expires in {{ $value | humanizeDuration }}.",
    ),
    Alert(
        name="RotaFilesRunOut",
        component=Component.API_SERVER,
        expr=f'process_open_fds{{job=~"{MASTERS}|{WORKERS}"}} / process_max_fds > 0.8',
        for_s=300,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }} uses {{ $value | humanizePercentage }} of the files that it may open.",
    ),
    Alert(
        name="RotaStoreUnavailable",
        component=Component.STORE,
        expr="rota_store_outage_seconds > 5",
        for_s=30,
        severity=Severity.CRITICAL,
        summary="The store has not answered {{ $labels.instance }} for {{ $value | humanizeDuration }}.",
        silences=(
            *("RotaStoreSlow", "RotaStoreWritesFail", "RotaApiErrors", "RotaApiSlow", "RotaNodesNotReady"),
            *("RotaWorkersUnreachable", "RotaControllersWithoutLeader", "RotaControllerFails", "RotaControllerStuck"),
            *("RotaSchedulerStalled", "RotaSchedulerErrors", "RotaCacheStale", "RotaSchedulerAbsent"),
            "RotaBackupBehind",
        ),
        silences_of_instance=("RotaMasterDown",),
    ),
    Alert(
        name="RotaStoreWritesFail",
        component=Component.STORE,
        expr="rota_store_writes_fail > 0",
        for_s=30,
        severity=Severity.CRITICAL,
        summary="The store refuses the writes of {{ $labels.instance }}; its disk may be full.",
        silences=(
            *("RotaApiErrors", "RotaApiSlow", "RotaNodesNotReady", "RotaControllersWithoutLeader"),
            *("RotaControllerFails", "RotaSchedulerErrors", "RotaSchedulerStalled", "RotaStoreSlow"),
        ),
    ),
    Alert(
        name="RotaStoreSlow",
        component=Component.STORE,
        expr="instance:rota_store_commit_duration_seconds:p99_rate5m > 0.25",
        for_s=600,
        severity=Severity.WARNING,
        summary="The slowest hundredth of the commits of {{ $labels.instance }} takes {{ $value | humanizeDuration }}.",
        silences=("RotaApiSlow", "RotaSchedulingSlow"),
    ),
    Alert(
        name="RotaStoreNotCompacted",
        component=Component.STORE,
        expr="min(rota_store_history_seconds) > 2 * 3600",
        for_s=600,
        severity=Severity.WARNING,
        summary="The store keeps {{ $value | humanizeDuration }} of history and grows.",
    ),
    Alert(
        name="RotaWatchesFallBehind",
        component=Component.STORE,
        expr="increase(rota_store_slow_watches_total[10m]) > 3",
        for_s=0,
        severity=Severity.WARNING,
        summary="{{ $labels.instance }} has ended {{ $value | humanize }} watches whose clients do not keep up.",
    ),
    Alert(
        name="RotaControllersWithoutLeader",
        component=Component.CONTROLLERS,
        expr="sum(rota_controllers_leads) == 0",
        for_s=60,
        severity=Severity.CRITICAL,
        summary="No master runs the controllers.",
    ),
    Alert(
        name="RotaControllerFails",
        component=Component.CONTROLLERS,
        expr="sum by (name) (rate(workqueue_retries_total[5m])) > 0.2",
        for_s=900,
        severity=Severity.WARNING,
        summary="The controller {{ $labels.name }} fails {{ $value | humanize }} times a second.",
    ),
    Alert(
        name="RotaControllerStuck",
        component=Component.CONTROLLERS,
        expr="max by (name) (workqueue_unfinished_work_seconds) > 300",
        for_s=60,
        severity=Severity.WARNING,
        summary="The controller {{ $labels.name }} has worked on one object for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        name="RotaCacheStale",
        component=Component.CONTROLLERS,
        expr='max by (instance, resource) ({__name__=~"(rota|scheduler)_.*informer_lag_seconds"}) > 60',
        for_s=60,
        severity=Severity.WARNING,
        summary="A cache of {{ $labels.resource }} in {{ $labels.instance }} is {{ $value | humanizeDuration }} old.",
    ),
    Alert(
        name="RotaNodesNotReady",
        component=Component.NODES,
        expr='sum(rota_node_lifecycle_nodes{ready!="true"}) > 0',
        for_s=120,
        severity=Severity.WARNING,
        summary="{{ $value }} nodes are not ready.",
        silences=("RotaWorkersUnreachable",),
    ),
    Alert(
        name="RotaWorkersUnreachable",
        component=Component.NODES,
        expr=(
            f'(count(up{{job="{WORKERS}"}} == 0) > (sum(rota_node_lifecycle_nodes{{ready!="true"}}) or vector(0)))'
            f" and {_SOME_MASTER_ANSWERS}"
        ),
        for_s=180,
        severity=Severity.WARNING,
        summary="Metrics of {{ $value }} workers cannot be read, though the nodes of some of them are ready.",
    ),
    Alert(
        name="RotaContainersCrash",
        component=Component.NODES,
        expr='cluster:rota_worker_containers:sum{state="backoff"} > 0',
        for_s=900,
        severity=Severity.WARNING,
        summary="{{ $value }} containers fail again and again.",
    ),
    Alert(
        name="RotaSchedulerAbsent",
        component=Component.SCHEDULER,
        expr=f"absent(scheduler_pending_pods) and {_SOME_MASTER_ANSWERS}",
        for_s=60,
        severity=Severity.CRITICAL,
        summary="No scheduler reports metrics.",
        silences=("RotaSchedulerStalled",),
    ),
    Alert(
        name="RotaSchedulerStalled",
        component=Component.SCHEDULER,
        expr=(
            '(sum(scheduler_pending_pods{queue="active"}) > 0)'
            " and on () (sum(rate(scheduler_schedule_attempts_total[5m])) == 0)"
        ),
        for_s=300,
        severity=Severity.CRITICAL,
        summary="{{ $value }} pods wait for a decision, and the scheduler decides nothing.",
    ),
    Alert(
        name="RotaSchedulerErrors",
        component=Component.SCHEDULER,
        expr='cluster:scheduler_schedule_attempts:rate5m{result="error"} > 0.05',
        for_s=300,
        severity=Severity.WARNING,
        summary="{{ $value | humanize }} attempts to place pods fail with an error each second.",
    ),
    Alert(
        name="RotaPodsUnschedulable",
        component=Component.SCHEDULER,
        expr='sum(scheduler_pending_pods{queue="unschedulable"}) > 0',
        for_s=900,
        severity=Severity.WARNING,
        summary="{{ $value }} pods fit on no node.",
    ),
    Alert(
        name="RotaSchedulingSlow",
        component=Component.SCHEDULER,
        expr="cluster:scheduler_scheduling_algorithm_duration_seconds:p99_rate5m > 1",
        for_s=600,
        severity=Severity.WARNING,
        summary="The slowest hundredth of the placement decisions takes {{ $value | humanizeDuration }}.",
    ),
    Alert(
        name="RotaSpotPodsLost",
        component=Component.SPOT,
        expr="sum(increase(rota_spot_pods_lost_ungraceful_total[1h])) > 0",
        for_s=0,
        severity=Severity.WARNING,
        summary="{{ $value | humanize }} pods were still on spot nodes when these went.",
    ),
    Alert(
        name="RotaSpotPodsWithoutPlace",
        component=Component.SPOT,
        expr="max(rota_spot_pods_without_place) > 0",
        for_s=60,
        severity=Severity.WARNING,
        summary="{{ $value }} pods of leaving spot nodes fit on no other node.",
    ),
    Alert(
        name="RotaBackupDown",
        component=Component.BACKUP,
        expr=f'up{{job="{BACKUPS}"}} == 0',
        for_s=120,
        severity=Severity.WARNING,
        summary="The backup process at {{ $labels.instance }} does not answer.",
        silences_of_instance=("RotaBackupBehind", "RotaBackupOld"),
    ),
    Alert(
        name="RotaBackupBehind",
        component=Component.BACKUP,
        expr="rota_backup_lag_seconds > 60",
        for_s=60,
        severity=Severity.WARNING,
        summary="The backup at {{ $labels.instance }} has not written a change for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        name="RotaBackupOld",
        component=Component.BACKUP,
        expr="time() - rota_backup_last_base_timestamp_seconds > 2 * rota_backup_base_interval_seconds",
        for_s=600,
        severity=Severity.WARNING,
        summary="The newest complete backup at {{ $labels.instance }} is {{ $value | humanizeDuration }} old.",
    ),
    Alert(
        name="RotaBackupGap",
        component=Component.BACKUP,
        expr="increase(rota_backup_gaps_total[1h]) > 0",
        for_s=0,
        severity=Severity.WARNING,
        summary="The backup at {{ $labels.instance }} has a gap: moments in it cannot be restored.",
    ),
    Alert(
        name="RotaWatchdog",
        component=Component.MONITORING,
        expr="vector(1)",
        for_s=0,
        severity=Severity.NONE,
        summary="Always fires: if it does not arrive, alerts are not delivered.",
    ),
)
