"""The scheduler's metrics, with kube-scheduler's names, labels and buckets."""

from collections.abc import Callable
from functools import partial
from typing import Final

from prometheus_client import Counter

from rota.kit.clock import Clock
from rota.kit.metrics import Distribution, Distributions, Metrics
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.queue.entries import QueueState
from rota.scheduler.queue.scheduling_queue import SchedulingQueue

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"


def _doubling(first: float, count: int) -> tuple[float, ...]:
    return tuple(first * 2**power for power in range(count))


_ATTEMPTS_S: Final = _doubling(0.001, 15)
_POINTS_S: Final = _doubling(0.0001, 12)
_UNTIL_BOUND_S: Final = _doubling(0.01, 20)
_VICTIMS: Final = _doubling(1, 7)
_TRIES: Final = _doubling(1, 5)
#: Attempts are counted one by one up to here in the label of `pod_scheduling_sli_duration_seconds`.
_MOST_ATTEMPTS: Final = 15


class SchedulerMetrics:
    """The metrics of one scheduler."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics: Final = metrics
        self._attempts = metrics.counter(
            "schedule_attempts_total", "Attempts to place a pod, by result and profile.", ("result", "profile")
        )
        self._attempt_s = metrics.distribution(
            "scheduling_attempt_duration_seconds",
            "Attempt with its binding, by result and profile.",
            ("result", "profile"),
            buckets=_ATTEMPTS_S,
        )
        self.algorithm_s = metrics.distribution(
            "scheduling_algorithm_duration_seconds", "Time to decide.", buckets=_ATTEMPTS_S
        )
        self._until_bound_s = metrics.distribution(
            "pod_scheduling_sli_duration_seconds",
            "From the first time in the queue to the binding, by number of attempts.",
            ("attempts",),
            buckets=_UNTIL_BOUND_S,
        )
        self.tries = metrics.distribution("pod_scheduling_attempts", "Attempts until a pod was bound.", buckets=_TRIES)
        self._point_s = metrics.distribution(
            "framework_extension_point_duration_seconds",
            "Time of an extension point, by status and profile.",
            ("extension_point", "status", "profile"),
            buckets=_POINTS_S,
        )
        self.permit_wait_s = metrics.distribution(
            "permit_wait_duration_seconds", "Time on hold by Permit, by result.", ("result",), buckets=_ATTEMPTS_S
        )
        self.preemptions = metrics.counter("preemption_attempts_total", "Preemptions that evicted pods.")
        self.victims = metrics.distribution("preemption_victims", "Pods evicted at once.", buckets=_VICTIMS)
        self.lost_races = metrics.counter(
            "lost_races_total", "Bindings that lost a race with another scheduler and were tried on another node."
        )
        #: Totals since the start, for the report of one of several schedulers.
        self.bound_total = self.decided_total = self.conflicts_total = 0
        self._points: Final[dict[tuple[str, str, str], Distribution]] = {}
        self._known: Final[dict[tuple[str, str], tuple[Counter, Distribution]]] = {}

    def attempted(self, result: str, profile: str, took_s: float) -> None:
        """Count an attempt."""
        pair = self._known.get((result, profile))
        if pair is None:
            pair = self._known[result, profile] = (
                self._attempts.labels(result, profile),
                self._attempt_s.labels(result, profile),
            )
        pair[0].inc()
        pair[1].observe(took_s)
        self.decided_total += 1

    def lost_race(self) -> None:
        """Count a binding that another scheduler's was faster than."""
        self.lost_races.inc()
        self.conflicts_total += 1
        self.decided_total += 1

    def passed(self, point: str, status: Status, profile: str, took_s: float) -> None:
        """Count the run of an extension point."""
        key = point, status.code.value, profile
        known = self._points.get(key)
        if known is None:
            known = self._points[key] = self._point_s.labels(*key)
        known.observe(took_s)

    def stopwatch(self, profile: str, clock: Clock) -> "ProfileStopwatch":
        """The stopwatch for the extension points of a profile."""
        return ProfileStopwatch(self._point_s, profile, clock)

    def bound(self, attempts: int, waited_s: float) -> None:
        """Count a pod that was bound."""
        self.bound_total += 1
        self.tries.observe(attempts)
        label = str(attempts) if attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
        self._until_bound_s.labels(label).observe(waited_s)

    def follow(self, queue: Callable[[], SchedulingQueue], cache_size: Callable[[str], int]) -> None:
        """Read gauges from the queue and the cache at every scrape."""
        pending = self.metrics.gauge("pending_pods", "Pods that wait, by queue.", ("queue",))
        for name, places in _QUEUES.items():
            pending.labels(name).set_function(partial(_counted, queue, places))
        sizes = self.metrics.gauge("cache_size", "What the cache holds.", ("type",))
        for name in ("nodes", "pods", "assumed_pods"):
            sizes.labels(name).set_function(partial(cache_size, name))
        events = self.metrics.gauge("inflight_events", "Events kept for pods that are being tried.")
        events.set_function(lambda: queue().inflight_events)
        self.metrics.follow(
            "queue_incoming_pods_total",
            "Pods that entered a queue, by queue and event.",
            ("queue", "event"),
            lambda: {(str(place), event): number for (place, event), number in queue().incoming.items()},
        )
        self.metrics.follow(
            "unschedulable_pods",
            "Pods that wait because a plugin turned them away, by plugin and profile.",
            ("plugin", "profile"),
            lambda: {labels: number for labels, number in queue().turned_away.items()},  # noqa: C416 - another type
        )


class ProfileStopwatch:
    """See `rota.scheduler.framework.stopwatch.Stopwatch`."""

    __slots__ = ("_known", "_profile", "_taken_s", "start")

    def __init__(self, taken_s: Distributions, profile: str, clock: Clock) -> None:
        self._taken_s: Final = taken_s
        self._profile: Final = profile
        self._known: Final[dict[tuple[str, Code], Distribution]] = {}
        self.start: Final = clock.monotonic

    def observe_duration(self, point: str, code: Code, since: float) -> None:
        """See `Stopwatch.observe_duration`."""
        known = self._known.get((point, code))
        if known is None:
            known = self._known[point, code] = self._taken_s.labels(point, code.value, self._profile)
        known.observe(self.start() - since)


_QUEUES: Final = {
    "active": (QueueState.ACTIVE,),
    "backoff": (QueueState.BACKOFF, QueueState.ERROR_BACKOFF),
    "unschedulable": (QueueState.UNSCHEDULABLE,),
    "gated": (QueueState.GATED,),
}


def _counted(queue: Callable[[], SchedulingQueue], places: tuple[QueueState, ...]) -> int:
    return sum(queue().count(place) for place in places)
