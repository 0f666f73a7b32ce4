"""The table of recording rules: figures that alerts and dashboards share, so that Prometheus computes them once.

Names follow Prometheus' convention `level:metric:operations`; the window of rates is five minutes.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A recorded expression."""

    name: str
    expr: str


def _p99(histogram: str, *, by: str = "", only: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile(0.99, sum by ({labels}) (rate({histogram}_bucket{only}[5m])))"


RECORDINGS: Final = (
    Recording(
        name="verb:rota_apiserver_requests:rate5m",
        expr="sum by (verb) (rate(rota_apiserver_requests_total[5m]))",
    ),
    Recording(
        # 501 says that a request will never work, which is no fault of the server.
        name="cluster:rota_apiserver_request_errors:ratio_rate5m",
        expr=(
            '(sum(rate(rota_apiserver_requests_total{code=~"5..", code!="501"}[5m])) or vector(0))'
            " / sum(rate(rota_apiserver_requests_total[5m]))"
        ),
    ),
    Recording(
        name="verb:rota_apiserver_request_duration_seconds:p99_rate5m",
        expr=_p99("rota_apiserver_request_duration_seconds", by="verb"),
    ),
    Recording(
        name="instance:rota_store_commit_duration_seconds:p99_rate5m",
        expr=_p99("rota_store_commit_duration_seconds", by="instance"),
    ),
    Recording(
        name="cluster:scheduler_schedule_attempts:rate5m",
        expr="sum by (result) (rate(scheduler_schedule_attempts_total[5m]))",
    ),
    Recording(
        name="cluster:scheduler_pod_scheduling_sli_duration_seconds:p99_rate5m",
        expr=_p99("scheduler_pod_scheduling_sli_duration_seconds"),
    ),
    Recording(
        name="cluster:scheduler_scheduling_algorithm_duration_seconds:p99_rate5m",
        expr=_p99("scheduler_scheduling_algorithm_duration_seconds"),
    ),
    Recording(
        name="cluster:rota_worker_containers:sum",
        expr="sum by (state) (rota_worker_containers)",
    ),
)
