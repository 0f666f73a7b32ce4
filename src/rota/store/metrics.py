"""The metrics of a store: commits, watches, size and history. The same for every backend."""

from typing import Final

from rota.kit.metrics import Metrics

#: Items of work in one group commit; a batch holds 512 at most.
_BATCHES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)


class StoreMetrics:
    """The metrics, in the registry of the process that opened the store."""

    def __init__(self, metrics: Metrics | None = None) -> None:
        metrics = metrics or Metrics("store")
        self.commit_s: Final = metrics.distribution(
            "commit_duration_seconds", "Time of a durable commit; a group commit carries out several transactions."
        )
        self.batch: Final = metrics.distribution("commit_batch_size", "Transactions in one commit.", buckets=_BATCHES)
        self.delivery_s: Final = metrics.distribution(
            "watch_lag_seconds", "Time from the arrival of a change in this process to its delivery to watches."
        )
        self.outage_s: Final = metrics.gauge(
            "outage_seconds", "How long the store has not answered this process; 0 while it answers."
        )
        self.writes_fail: Final = metrics.gauge(
            "writes_fail", "1 if the last write failed for a reason that lasts, such as a full disk, otherwise 0."
        )
        self.watches: Final = metrics.gauge("watches", "Watches that are open.")
        self.slow_watches: Final = metrics.counter(
            "slow_watches_total", "Watches that were ended because their reader fell behind."
        )
        self.revision: Final = metrics.gauge("revision", "The newest revision.")
        self.compact_revision: Final = metrics.gauge("compact_revision", "History reaches back to this revision.")
        self.history_s: Final = metrics.gauge(
            "history_seconds", "Age of the oldest revision that watches can resume from, as far as this process saw it."
        )
        self.size_bytes: Final = metrics.gauge("size_bytes", "Size of the database.")
