"""The metrics of the batch profile, with Volcano's names."""

from collections.abc import Mapping
from typing import Any, Final

from rota.kit.metrics import Metrics
from rota.scheduler.batch.amounts import CPU, MEMORY, PODS, Amounts
from rota.scheduler.batch.passes import PassResult

_MILLISECONDS: Final = (1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0, 30_000.0)
#: Volcano's names for figures of queues, with the names that plugins report them by.
_FIGURES: Final = {
    "allocated": "allocated",
    "request": "request",
    "deserved": "deserved",
    "real_capacity": "limit",
    "inqueue": "inqueue",
}


class BatchMetrics:
    """Counters of passes, and figures of queues after the last pass."""

    def __init__(self, metrics: Metrics) -> None:
        figures = metrics.beside("batch", prefix="volcano_")
        self.e2e: Final = figures.histogram(
            "e2e_scheduling_latency_milliseconds", "Time of a pass.", buckets=_MILLISECONDS
        )
        self.attempts: Final = figures.counter("schedule_attempts_total", "Pods by result.", ("result",))
        self.victims: Final = figures.gauge("pod_preemption_victims", "Pods that the last pass evicted.")
        self.preemptions: Final = figures.counter("total_preemption_attempts", "Passes that evicted pods.")
        self.waiting_jobs: Final = figures.gauge("unschedule_job_count", "Groups that wait for resources.")
        self.waiting_tasks: Final = figures.gauge("unschedule_task_count", "Pods that wait for a node, of all groups.")
        self.share: Final = figures.gauge(
            "queue_share", "Largest part that a queue has of what it deserves.", ("queue_name",)
        )
        self.weight: Final = figures.gauge("queue_weight", "Weight of a queue.", ("queue_name",))
        self._cpu: Final = {
            name: figures.gauge(f"queue_{name}_milli_cpu", f"CPU of a queue: {name}.", ("queue_name",))
            for name in _FIGURES
        }
        self._memory: Final = {
            name: figures.gauge(f"queue_{name}_memory_bytes", f"Memory of a queue: {name}.", ("queue_name",))
            for name in _FIGURES
        }
        self._others: Final = {
            name: figures.gauge(
                f"queue_{name}_scalar_resources", f"Other resources of a queue: {name}.", ("queue_name", "resource")
            )
            for name in _FIGURES
        }

    def passed(self, result: PassResult, weights: Mapping[str, int], took_s: float) -> None:
        """Record a pass."""
        self.e2e.observe(took_s * 1000.0)
        if result.bound:
            self.attempts.labels("scheduled").inc(result.bound)
        if result.waiting_pods:
            self.attempts.labels("unschedulable").inc(result.waiting_pods)
        self.waiting_jobs.set(len(result.waiting))
        self.waiting_tasks.set(result.waiting_pods)
        self.victims.set(result.evicted)
        if result.evicted:
            self.preemptions.inc()
        for name, weight in weights.items():
            self.weight.labels(name).set(weight)
        for name, allocated in result.allocated.items():
            self._put("allocated", name, _plain(allocated))
        for plugin in ("proportion", "capacity"):
            for name, figures in result.figures.get(plugin, {}).items():
                self.share.labels(name).set(figures["share"])
                for ours, theirs in _FIGURES.items():
                    self._put(ours, name, figures[theirs])

    def failed(self, pods: int) -> None:
        """Count pods whose binding failed."""
        self.attempts.labels("error").inc(pods)

    def _put(self, figure: str, queue: str, amounts: Mapping[str, Any]) -> None:
        for resource, amount in amounts.items():
            if resource == CPU:
                self._cpu[figure].labels(queue).set(amount)
            elif resource == MEMORY:
                self._memory[figure].labels(queue).set(amount)
            elif resource != PODS:
                self._others[figure].labels(queue, resource).set(amount)


def _plain(amounts: Amounts) -> dict[str, float]:
    return dict(amounts.items())
