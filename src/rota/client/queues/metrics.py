"""Metrics of a work queue, with client-go's names."""

from collections.abc import Hashable
from typing import Final

from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

#: client-go's buckets: powers of ten from ten nanoseconds to ten seconds.
_BUCKETS_S: Final = tuple(10.0**power for power in range(-8, 2))


class QueueMetrics:
    """The metrics of one queue; all queues of a registry share them and differ in the label `name`."""

    def __init__(self, metrics: Metrics, name: str, *, clock: Clock) -> None:
        shared = metrics.beside("workqueue", prefix="workqueue_")
        self._clock: Final = clock
        self._added: Final[dict[Hashable, float]] = {}
        self._begun: Final[dict[Hashable, float]] = {}
        self._adds: Final = shared.counter("adds_total", "Keys added.", ("name",)).labels(name)
        self._retries: Final = shared.counter("retries_total", "Keys added again after a failure.", ("name",)).labels(
            name
        )
        self._waited_s: Final = shared.distribution(
            "queue_duration_seconds", "Time of a key in the queue.", ("name",), buckets=_BUCKETS_S
        ).labels(name)
        self._worked_s: Final = shared.distribution(
            "work_duration_seconds", "Time of the work on a key.", ("name",), buckets=_BUCKETS_S
        ).labels(name)
        shared.gauge("depth", "Keys that wait.", ("name",)).labels(name).set_function(lambda: len(self._added))
        unfinished = shared.gauge("unfinished_work_seconds", "Time that work in progress has taken.", ("name",))
        unfinished.labels(name).set_function(self._unfinished_s)

    def added(self, key: Hashable) -> None:
        """A key was queued, if it was not before."""
        self._adds.inc()
        self._added.setdefault(key, self._clock.monotonic())

    def taken(self, key: Hashable) -> None:
        """Processing of a key begins."""
        now = self._clock.monotonic()
        self._waited_s.observe(now - self._added.pop(key, now))
        self._begun[key] = now

    def done(self, key: Hashable) -> None:
        """Processing of a key has ended."""
        now = self._clock.monotonic()
        self._worked_s.observe(now - self._begun.pop(key, now))

    def retried(self) -> None:
        """A key failed and is retried."""
        self._retries.inc()

    def _unfinished_s(self) -> float:
        now = self._clock.monotonic()
        return sum(now - begun for begun in self._begun.values())
