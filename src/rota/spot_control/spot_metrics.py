"""The metrics of the spot controller."""

from typing import Final

from rota.kit.metrics import Metrics

_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0)


class SpotMetrics:
    """The metrics of one controller; their names begin with `rota_spot_`."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics: Final = metrics
        self.notices: Final = metrics.counter("notices_total", "Notices acted on.", ("provider", "kind"))
        self.withdrawn: Final = metrics.counter("notices_withdrawn_total", "Notices that were taken back.")
        self.lead: Final = metrics.histogram(
            "notice_lead_seconds", "Time that was left when a notice was acted on.", buckets=_SECONDS
        )
        self.marked: Final = metrics.histogram(
            "notice_to_taint_seconds", "From a notice to our taint.", buckets=_SECONDS
        )
        self.first: Final = metrics.histogram(
            "notice_to_first_eviction_seconds", "From a notice to the first pod told to go.", buckets=_SECONDS
        )
        self.emptied: Final = metrics.histogram(
            "notice_to_last_pod_gone_seconds", "From a notice to a node without pods that had to go.", buckets=_SECONDS
        )
        self.evicted: Final = metrics.counter("pods_evicted_total", "Pods that left by the eviction API.")
        self.deleted: Final = metrics.counter(
            "pods_deleted_at_deadline_total", "Pods deleted against a budget, in their last moment."
        )
        self.lost: Final = metrics.counter(
            "pods_lost_ungraceful_total", "Pods that were still on a machine when it went."
        )
        self.unnoticed: Final = metrics.counter(
            "node_losses_unnoticed_total", "Spot machines that went without notice.", ("how",)
        )
        self.requests: Final = metrics.counter(
            "eviction_requests_total", "Evictions asked for, by the answer's code; 0: no answer.", ("code",)
        )
        self.leaving: Final = metrics.gauge("leaving_nodes", "Nodes with a notice.")
        self.placeless: Final = metrics.gauge("pods_without_place", "Pods that leave and whose successors fit nowhere.")
        self.held: Final = metrics.gauge("places_held", "Places that were found and are not yet taken.")
        self.reserved: Final = metrics.gauge("places_reserved", "Places that pods of ours hold in the cluster.")
        self.reservations: Final = metrics.counter(
            "reservations_total",
            "Places held in the cluster, by what became of them: made, given_back, lost, refused.",
            ("outcome",),
        )
        self.arrival: Final = metrics.histogram(
            "replacement_pending_seconds", "From a pod's eviction to its successor's node.", buckets=_SECONDS
        )
        self.fallbacks: Final = metrics.counter(
            "fallbacks_total", "Pods of spot machines whose successors came to machines that stay."
        )
        self.fallforwards: Final = metrics.counter(
            "fallforwards_total",
            "Pods sent back to spot machines, by what became of it: arrived, elsewhere, refused.",
            ("outcome",),
        )
        self.share: Final = metrics.gauge(
            "workload_spot_share",
            "The part of a workload's pods on spot machines, from 0 to 1, where it says what it wants of them.",
            ("namespace", "workload"),
        )
        self.share_limit: Final = metrics.gauge(
            "workload_spot_share_limit", "The part that its annotations allow.", ("namespace", "workload")
        )
        self.churn: Final = metrics.gauge(
            "evictions_per_pod_day", "Pods sent away within a day, for each pod that there is."
        )
        self.machines: Final = metrics.gauge("nodes", "Nodes, by how they were bought.", ("capacity",))
        self.saving: Final = metrics.gauge(
            "money_saved_per_hour", "What spot machines save, by the price labels of nodes, in their money."
        )
        self.saved: Final = metrics.counter(
            "money_saved_total", "What spot machines have saved while this controller led, in the labels' money."
        )
        self.unpriced: Final = metrics.gauge(
            "nodes_without_price", "Spot nodes without a known spot price or on-demand price."
        )
