"""Metrics about spot machines as a whole, once a minute: savings, spot shares of workloads, evictions per day.

Savings are computed from price labels (`rota.spot.prices`) and accumulate while the controller runs. Only workloads
with spot annotations are reported by name, up to a few hundred.
"""

import math
from collections import Counter, deque
from typing import Final

from rota.api import meta
from rota.client.verbs import Object
from rota.kit.clock import Clock
from rota.spot import policies, prices, return_policy
from rota.spot.node_readings import Capacity
from rota.spot.node_signals import NodeSignals
from rota.spot.policies import Policy
from rota.spot_control import node_state
from rota.spot_control.cluster_watch import ClusterWatch
from rota.spot_control.eviction_state import policy_of
from rota.spot_control.reservations import owner_of
from rota.spot_control.spot_metrics import SpotMetrics

_EVERY_S: Final = 60.0
_HOUR_S: Final = 3600.0
_DAY_S: Final = 86_400.0
_MOST_WORKLOADS: Final = 300


class SavingsReport:
    """Updates the metrics of a cluster."""

    def __init__(
        self, cluster_watch: ClusterWatch, spot_metrics: SpotMetrics, *, clock: Clock, marks: NodeSignals
    ) -> None:
        self._cluster_watch: Final = cluster_watch
        self._spot_metrics: Final = spot_metrics
        self._clock: Final = clock
        self._marks: Final = marks
        self._at: float | None = None
        self._per_hour = 0.0
        #: Total evictions at times of the last day.
        self._sent: Final[deque[tuple[float, float]]] = deque()

    def take_stock(self) -> float:
        """Update the metrics if it is time; when to update next, or infinity without spot machines."""
        now = self._clock.now()
        if self._at is not None and now < self._at + _EVERY_S:
            return self._at + _EVERY_S if self._per_hour or self._sent else math.inf
        nodes = list(self._cluster_watch.nodes.values())
        capacities = node_state.capacities(nodes, self._marks, now=now)
        counted = Counter(capacities.values())
        for capacity in Capacity:
            self._spot_metrics.machines.labels(capacity.value).set(counted[capacity])
        self._count_money(nodes, capacities, now)
        if not counted[Capacity.SPOT]:
            self._sent.clear()
            return math.inf
        self._count_shares(capacities)
        self._count_churn(now)
        return now + _EVERY_S

    def _count_money(self, nodes: list[Object], capacities: dict[str, Capacity], now: float) -> None:
        if self._at is not None:
            self._spot_metrics.saved.inc(max(0.0, self._per_hour) * (now - self._at) / _HOUR_S)
        savings = prices.savings((node, capacities[meta.name(node)]) for node in nodes)
        self._at, self._per_hour = now, savings.per_hour
        self._spot_metrics.saving.set(savings.per_hour)
        self._spot_metrics.unpriced.set(savings.unknown)

    def _count_shares(self, capacities: dict[str, Capacity]) -> None:
        found: dict[str, tuple[str, str, Policy, Counter[bool]]] = {}
        for name, capacity in capacities.items():
            for pod in self._cluster_watch.leavers(name):
                owner = owner_of(pod)
                if owner not in found:
                    policy, problem = policy_of(pod)
                    if not owner or problem or not return_policy.wants(pod, policy, self._marks):
                        continue
                    if len(found) >= _MOST_WORKLOADS:
                        continue
                    kind = meta.controller_of(pod) or {}
                    workload = f"{kind.get('kind', '')}/{kind.get('name', '')}"
                    found[owner] = meta.namespace(pod), workload, policy, Counter()
                found[owner][3][capacity.leaves] += 1
        self._spot_metrics.share.clear()
        self._spot_metrics.share_limit.clear()
        for namespace, workload, policy, spread in found.values():
            pods = spread.total()
            self._spot_metrics.share.labels(namespace, workload).set(spread[True] / pods)
            self._spot_metrics.share_limit.labels(namespace, workload).set(policies.allowed(policy, pods))

    def _count_churn(self, now: float) -> None:
        metrics = self._spot_metrics.metrics
        sent = sum(metrics.value(name) or 0.0 for name in ("pods_evicted_total", "pods_deleted_at_deadline_total"))
        self._sent.append((now, sent))
        while self._sent[0][0] < now - _DAY_S:
            self._sent.popleft()
        pods = len(self._cluster_watch.pods)
        self._spot_metrics.churn.set((sent - self._sent[0][1]) / pods if pods else 0.0)
