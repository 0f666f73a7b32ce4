"""Series of a quiet cluster, and for each alert the series of its fault; for `promtool test rules`."""

from collections.abc import Mapping
from typing import Final

#: A sample each minute, for longer than any alert waits.
SAMPLES: Final = 75
INTERVAL: Final = "1m"
EVALUATED_AT: Final = "74m"


def _steady(value: float) -> str:
    return f"{value:g}+0x{SAMPLES}"


def _growing(per_quarter: float) -> str:
    """By so much in a quarter of a minute."""
    return f"0+{4 * per_quarter:g}x{SAMPLES}"


def _histogram(name: str, labels: str, *, below: float) -> dict[str, str]:
    """Observations that all are below a bound."""
    bounds = (0.1, 0.25, 1.0, 2.5, 10.0)
    comma = f"{labels}," if labels else ""
    found = {f'{name}_bucket{{{comma}le="{bound:g}"}}': _growing(60 if bound >= below else 0) for bound in bounds}
    return {**found, f'{name}_bucket{{{comma}le="+Inf"}}': _growing(60)}


_REQUESTS: Final = "rota_apiserver_request_duration_seconds"
_COMMITS: Final = "rota_store_commit_duration_seconds"
_DECISIONS: Final = "scheduler_scheduling_algorithm_duration_seconds"
_MASTER: Final = 'job="rota-masters",instance="m1"'
_BACKUP: Final = 'job="rota-backups",instance="b1"'

QUIET: Final[Mapping[str, str]] = {
    f"up{{{_MASTER}}}": _steady(1),
    'up{job="rota-workers",instance="w1"}': _steady(1),
    'up{job="rota-workers",instance="w2"}': _steady(1),
    f'rota_apiserver_requests_total{{{_MASTER},verb="get",code="200"}}': _growing(600),
    f'rota_apiserver_requests_total{{{_MASTER},verb="get",code="404"}}': _growing(60),
    f'rota_apiserver_requests_total{{{_MASTER},verb="get",code="500"}}': _growing(1),
    f'rota_apiserver_requests_total{{{_MASTER},verb="get",code="501"}}': _growing(600),
    **_histogram(_REQUESTS, f'{_MASTER},verb="get"', below=0.1),
    f'rota_apiserver_requests_refused_total{{{_MASTER},level="workload",why="queue"}}': _growing(3),
    f"rota_apiserver_audit_events_dropped_total{{{_MASTER}}}": _steady(5),
    f"rota_apiserver_ca_not_after_seconds{{{_MASTER}}}": _steady(300e6),
    f"process_open_fds{{{_MASTER}}}": _steady(900),
    f"process_max_fds{{{_MASTER}}}": _steady(20_000),
    f"rota_store_outage_seconds{{{_MASTER}}}": _steady(0),
    f"rota_store_writes_fail{{{_MASTER}}}": _steady(0),
    **_histogram(_COMMITS, _MASTER, below=0.1),
    f"rota_store_history_seconds{{{_MASTER}}}": _steady(330),
    f"rota_store_slow_watches_total{{{_MASTER}}}": _steady(2),
    f"rota_controllers_leads{{{_MASTER}}}": _steady(1),
    'rota_controllers_leads{job="rota-masters",instance="m2"}': _steady(0),
    f'workqueue_retries_total{{{_MASTER},name="jobs"}}': _growing(1),
    f'workqueue_unfinished_work_seconds{{{_MASTER},name="jobs"}}': _steady(2),
    f'rota_controllers_informer_lag_seconds{{{_MASTER},resource="pods"}}': _steady(1),
    f'scheduler_informer_lag_seconds{{{_MASTER},resource="pods"}}': _steady(0),
    f'rota_node_lifecycle_nodes{{{_MASTER},ready="true"}}': _steady(2),
    f'rota_node_lifecycle_nodes{{{_MASTER},ready="false"}}': _steady(0),
    f'rota_node_lifecycle_nodes{{{_MASTER},ready="unknown"}}': _steady(0),
    'rota_worker_containers{instance="w1",state="running"}': _steady(40),
    'rota_worker_containers{instance="w1",state="backoff"}': _steady(0),
    f'scheduler_pending_pods{{{_MASTER},queue="active"}}': _steady(4),
    f'scheduler_pending_pods{{{_MASTER},queue="backoff"}}': _steady(1),
    f'scheduler_pending_pods{{{_MASTER},queue="unschedulable"}}': _steady(0),
    f'scheduler_schedule_attempts_total{{{_MASTER},result="scheduled",profile="p"}}': _growing(30),
    f'scheduler_schedule_attempts_total{{{_MASTER},result="error",profile="p"}}': _steady(3),
    **_histogram(_DECISIONS, _MASTER, below=0.1),
    f"rota_spot_pods_lost_ungraceful_total{{{_MASTER}}}": _steady(7),
    f"rota_spot_pods_without_place{{{_MASTER}}}": _steady(0),
    f"up{{{_BACKUP}}}": _steady(1),
    f"rota_backup_lag_seconds{{{_BACKUP}}}": _steady(1),
    # Prometheus' unit tests begin at the epoch.
    f"rota_backup_last_base_timestamp_seconds{{{_BACKUP}}}": _steady(0),
    f"rota_backup_base_interval_seconds{{{_BACKUP}}}": _steady(86_400),
    f"rota_backup_gaps_total{{{_BACKUP}}}": _steady(1),
}

#: What is different in a cluster with the fault of an alert; None for a series that is missing then.
FAULTS: Final[Mapping[str, Mapping[str, str | None]]] = {
    "RotaMasterDown": {f"up{{{_MASTER}}}": _steady(0)},
    "RotaApiErrors": {f'rota_apiserver_requests_total{{{_MASTER},verb="get",code="500"}}': _growing(60)},
    "RotaApiSlow": _histogram(_REQUESTS, f'{_MASTER},verb="get"', below=2.5),
    "RotaRequestsRefused": {
        f'rota_apiserver_requests_refused_total{{{_MASTER},level="workload",why="queue"}}': _growing(30)
    },
    "RotaAuditEventsDropped": {f"rota_apiserver_audit_events_dropped_total{{{_MASTER}}}": _growing(1)},
    # Prometheus' unit tests begin at the epoch: 30 days are left.
    "RotaCertificateAuthorityExpires": {f"rota_apiserver_ca_not_after_seconds{{{_MASTER}}}": _steady(30 * 86_400)},
    "RotaFilesRunOut": {f"process_open_fds{{{_MASTER}}}": _steady(17_000)},
    "RotaStoreUnavailable": {f"rota_store_outage_seconds{{{_MASTER}}}": _growing(15)},
    "RotaStoreWritesFail": {f"rota_store_writes_fail{{{_MASTER}}}": _steady(1)},
    "RotaStoreSlow": _histogram(_COMMITS, _MASTER, below=1.0),
    "RotaStoreNotCompacted": {f"rota_store_history_seconds{{{_MASTER}}}": _steady(9000)},
    "RotaWatchesFallBehind": {f"rota_store_slow_watches_total{{{_MASTER}}}": _growing(1)},
    "RotaControllersWithoutLeader": {f"rota_controllers_leads{{{_MASTER}}}": _steady(0)},
    "RotaControllerFails": {f'workqueue_retries_total{{{_MASTER},name="jobs"}}': _growing(15)},
    "RotaControllerStuck": {f'workqueue_unfinished_work_seconds{{{_MASTER},name="jobs"}}': _growing(15)},
    "RotaCacheStale": {f'scheduler_informer_lag_seconds{{{_MASTER},resource="pods"}}': _growing(15)},
    "RotaNodesNotReady": {
        f'rota_node_lifecycle_nodes{{{_MASTER},ready="true"}}': _steady(1),
        f'rota_node_lifecycle_nodes{{{_MASTER},ready="unknown"}}': _steady(1),
        'up{job="rota-workers",instance="w2"}': _steady(0),
    },
    "RotaWorkersUnreachable": {'up{job="rota-workers",instance="w2"}': _steady(0)},
    "RotaContainersCrash": {'rota_worker_containers{instance="w1",state="backoff"}': _steady(1)},
    "RotaSchedulerAbsent": {series: None for series in QUIET if series.startswith("scheduler_pending_pods")},
    "RotaSchedulerStalled": {
        f'scheduler_schedule_attempts_total{{{_MASTER},result="scheduled",profile="p"}}': _steady(900)
    },
    "RotaSchedulerErrors": {f'scheduler_schedule_attempts_total{{{_MASTER},result="error",profile="p"}}': _growing(3)},
    "RotaPodsUnschedulable": {f'scheduler_pending_pods{{{_MASTER},queue="unschedulable"}}': _steady(2)},
    "RotaSchedulingSlow": _histogram(_DECISIONS, _MASTER, below=2.5),
    "RotaSpotPodsLost": {f"rota_spot_pods_lost_ungraceful_total{{{_MASTER}}}": _growing(1)},
    "RotaSpotPodsWithoutPlace": {f"rota_spot_pods_without_place{{{_MASTER}}}": _steady(1)},
    "RotaBackupDown": {f"up{{{_BACKUP}}}": _steady(0)},
    "RotaBackupBehind": {f"rota_backup_lag_seconds{{{_BACKUP}}}": _growing(15)},
    "RotaBackupOld": {f"rota_backup_last_base_timestamp_seconds{{{_BACKUP}}}": _steady(-2 * 86_400)},
    "RotaBackupGap": {f"rota_backup_gaps_total{{{_BACKUP}}}": _growing(1)},
    "RotaWatchdog": {},
}


def series(fault: str) -> dict[str, str]:
    """The series of a cluster with the fault of an alert; the quiet cluster without a name."""
    changed = FAULTS[fault] if fault else {}
    assert set(changed) <= set(QUIET), "a fault changes series of the quiet cluster"
    return {name: values for name, values in {**QUIET, **changed}.items() if values is not None}
