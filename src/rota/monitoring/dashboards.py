"""The table of dashboards: rows of panels, each with the expressions that it plots."""

from dataclasses import dataclass
from typing import Final

#: Grafana's names of units.
PER_SECOND: Final = "ops"
SECONDS: Final = "s"
BYTES: Final = "bytes"
COUNT: Final = "short"
SHARE: Final = "percentunit"
CORES: Final = "cores"


@dataclass(frozen=True, slots=True)
class Series:
    """A plotted expression and the template of its name."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart."""

    title: str
    unit: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A page of charts; `uid` is its address and file name."""

    uid: str
    title: str
    panels: tuple[Panel, ...]


def _one(title: str, unit: str, expr: str, legend: str) -> Panel:
    return Panel(title, unit, (Series(expr, legend),))


DASHBOARDS: Final = (
    Dashboard(
        "rota-overview",
        "Rota: overview",
        (
            _one("Masters that answer", COUNT, 'sum(up{job="rota-masters"})', "masters"),
            _one("Nodes", COUNT, "sum by (ready) (rota_node_lifecycle_nodes)", "ready: {{ready}}"),
            _one("Containers", COUNT, "cluster:rota_worker_containers:sum", "{{state}}"),
            _one("Pods that wait", COUNT, "sum by (queue) (scheduler_pending_pods)", "{{queue}}"),
            _one(
                "Requests with server errors",
                SHARE,
                "cluster:rota_apiserver_request_errors:ratio_rate5m",
                "share",
            ),
            _one("Placements", PER_SECOND, "cluster:scheduler_schedule_attempts:rate5m", "{{result}}"),
            _one("Masters that run the controllers", COUNT, "sum(rota_controllers_leads)", "leaders"),
            _one("Time without the store", SECONDS, "max by (instance) (rota_store_outage_seconds)", "{{instance}}"),
        ),
    ),
    Dashboard(
        "rota-apiserver",
        "Rota: API server and store",
        (
            _one("Requests", PER_SECOND, "verb:rota_apiserver_requests:rate5m", "{{verb}}"),
            _one(
                "Duration of the slowest hundredth of requests",
                SECONDS,
                "verb:rota_apiserver_request_duration_seconds:p99_rate5m",
                "{{verb}}",
            ),
            _one("Open streams", COUNT, "sum by (instance) (rota_apiserver_streams)", "{{instance}}"),
            Panel(
                "Requests in flow control",
                COUNT,
                (
                    Series("sum by (level) (rota_apiserver_requests_seated)", "seated: {{level}}"),
                    Series("sum by (level) (rota_apiserver_requests_waiting)", "waiting: {{level}}"),
                ),
            ),
            _one(
                "Duration of the slowest hundredth of commits",
                SECONDS,
                "instance:rota_store_commit_duration_seconds:p99_rate5m",
                "{{instance}}",
            ),
            _one(
                "Transactions per commit",
                COUNT,
                "rate(rota_store_commit_batch_size_sum[5m]) / rate(rota_store_commit_batch_size_count[5m])",
                "{{instance}}",
            ),
            _one("Size of the store", BYTES, "max(rota_store_size_bytes)", "size"),
            _one("Kept history", SECONDS, "min(rota_store_history_seconds)", "history"),
            _one("Revision", COUNT, "max(rota_store_revision)", "revision"),
            _one("Watches of the store", COUNT, "sum by (instance) (rota_store_watches)", "{{instance}}"),
            _one("Processor time", CORES, 'rate(process_cpu_seconds_total{job="rota-masters"}[5m])', "{{instance}}"),
            _one("Memory", BYTES, 'process_resident_memory_bytes{job="rota-masters"}', "{{instance}}"),
        ),
    ),
    Dashboard(
        "rota-scheduler",
        "Rota: scheduler and controllers",
        (
            _one("Attempts", PER_SECOND, "cluster:scheduler_schedule_attempts:rate5m", "{{result}}"),
            _one("Pods that wait", COUNT, "sum by (queue) (scheduler_pending_pods)", "{{queue}}"),
            _one(
                "Time until a pod is bound, slowest hundredth",
                SECONDS,
                "cluster:scheduler_pod_scheduling_sli_duration_seconds:p99_rate5m",
                "p99",
            ),
            _one(
                "Duration of decisions, slowest hundredth",
                SECONDS,
                "cluster:scheduler_scheduling_algorithm_duration_seconds:p99_rate5m",
                "p99",
            ),
            _one(
                "Time in extension points",
                SECONDS,
                "sum by (extension_point) (rate(scheduler_framework_extension_point_duration_seconds_sum[5m]))",
                "{{extension_point}}",
            ),
            _one("Cached objects", COUNT, "sum by (type) (scheduler_cache_size)", "{{type}}"),
            _one("Keys that wait", COUNT, "sum by (name) (workqueue_depth)", "{{name}}"),
            _one("Keys processed", PER_SECOND, "sum by (name) (rate(workqueue_adds_total[5m]))", "{{name}}"),
            _one(
                "Failures of controllers", PER_SECOND, "sum by (name) (rate(workqueue_retries_total[5m]))", "{{name}}"
            ),
        ),
    ),
    Dashboard(
        "rota-nodes",
        "Rota: nodes",
        (
            _one("Pods", COUNT, "rota_worker_pods", "{{node}}"),
            _one("Containers", COUNT, "sum by (node, state) (rota_worker_containers)", "{{node}} {{state}}"),
            _one("Restarts", COUNT, "rota_worker_container_restarts", "{{node}}"),
            _one(
                "Age of the worker's view of its pods",
                SECONDS,
                "max by (node) (rota_worker_informer_lag_seconds)",
                "{{node}}",
            ),
            _one(
                "Processor time of workers",
                CORES,
                'rate(process_cpu_seconds_total{job="rota-workers"}[5m])',
                "{{node}}",
            ),
            _one("Memory of workers", BYTES, 'process_resident_memory_bytes{job="rota-workers"}', "{{node}}"),
        ),
    ),
    Dashboard(
        "rota-spot",
        "Rota: spot nodes",
        (
            _one("Nodes", COUNT, "sum by (capacity) (rota_spot_nodes)", "{{capacity}}"),
            _one("Nodes with a notice", COUNT, "max(rota_spot_leaving_nodes)", "leaving"),
            _one("Pods without a place", COUNT, "max(rota_spot_pods_without_place)", "pods"),
            _one("Lost pods", COUNT, "sum(increase(rota_spot_pods_lost_ungraceful_total[1h]))", "lost in an hour"),
            _one("Saved money per hour", COUNT, "max(rota_spot_money_saved_per_hour)", "saved"),
        ),
    ),
)
