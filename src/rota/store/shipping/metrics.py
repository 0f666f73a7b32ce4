"""The metrics of a continuous backup."""

from collections.abc import Callable
from typing import Final

from rota.kit.metrics import Metrics


class ShippingMetrics:
    """The metrics, in the registry of the process that writes the backup."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics: Final = metrics or Metrics("backup")
        self.shipped: Final = self._metrics.gauge(
            "shipped_revision", "The last revision that the backup holds durably."
        )
        self.base_at: Final = self._metrics.gauge(
            "last_base_timestamp_seconds", "When the newest complete backup was taken, in seconds since the epoch."
        )
        self.base_every_s: Final = self._metrics.gauge(
            "base_interval_seconds", "How often a complete backup should be taken."
        )
        self.errors: Final = self._metrics.counter(
            "errors_total", "Failed attempts to write a part of the log, or a complete backup.", ["what"]
        )
        self.gaps: Final = self._metrics.counter(
            "gaps_total", "How often history was compacted before it was shipped; moments in a gap cannot be restored."
        )
        for what in ("log", "base"):
            self.errors.labels(what)

    def follow_lag(self, lag_s: Callable[[], float]) -> None:
        """Export for how long the oldest change that is not shipped has been waiting."""
        self._metrics.follow(
            "lag_seconds",
            "For how long the oldest known change that the backup does not hold has been waiting.",
            (),
            lambda: {(): lag_s()},
        )
