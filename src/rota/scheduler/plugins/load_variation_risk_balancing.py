"""LoadVariationRiskBalancing: Trimaran's score, which balances the risk that mean and variation of the load carry.

The risk of a resource is (mu + sigma) / 2: mu is the mean use with the pod's request as a share of the capacity, sigma
the deviation as a share, to the power of 1 / sensitivity and times a margin, both from 0 to 1. The score is 100 times
one minus the risk, the lower one of cpu and memory. Pods that came since the measurement count with their requests.
Nodes without a measurement score by their requests, within the range of the others.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar

import numpy as np

from rota.columns.arrays import FloatArray, IntArray, Rows
from rota.columns.change_log import Changes, ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE, Reuse
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugins.node_loads import FORECASTS, RESOURCES, KeptLoads, neutral


class LoadVariationRiskBalancingArgs(WireStruct, frozen=True):
    """Arguments of LoadVariationRiskBalancing, with Trimaran's defaults."""

    safe_variance_margin: float = 1.0
    safe_variance_sensitivity: float = 1.0

    def faults(self) -> Iterator[Fault]:
        """Values that cannot be."""
        if self.safe_variance_margin < 0:
            yield Fault("safeVarianceMargin", "must not be negative")
        if self.safe_variance_sensitivity <= 0:
            yield Fault("safeVarianceSensitivity", "must be positive")


class LoadVariationRiskBalancing:
    """Score by the risk."""

    name: ClassVar[str] = "LoadVariationRiskBalancing"
    Args = LoadVariationRiskBalancingArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH
    kinds: ClassVar = (FORECASTS,)

    def __init__(self, args: LoadVariationRiskBalancingArgs, handle: Handle) -> None:
        self._args = args
        self._loads = KeptLoads()

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of cpu and memory."""
        return tuple(pod.shape.requests.get(name, 0) for name in RESOURCES)

    def reuse_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes, *, feasible_changed: bool
    ) -> Reuse:
        """The bounds of unmeasured nodes may change with any node."""
        return Reuse.ALL_ROWS

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """The lower score of cpu and memory, rounded."""
        every, loads = cluster.rows, self._loads.of(cluster)
        known = loads.known[:, every]
        capacity = np.maximum(cluster.allocatable[:2, every], 1)
        wanted = np.array([[pod.shape.requests.get(name, 0)] for name in RESOURCES])
        mean = np.where(known, loads.mean[:, every] + loads.unmeasured(cluster, every), cluster.requested[:2, every])
        deviation = np.where(known, loads.deviation[:, every], 0.0)
        margin, sensitivity = self._args.safe_variance_margin, self._args.safe_variance_sensitivity
        scores = risk_score((mean + wanted) / capacity, deviation / capacity, margin, sensitivity).min(axis=0)
        return np.asarray(np.floor(neutral(scores, loads.complete(every))[rows] + 0.5), dtype=np.int64)


def risk_score(mean: FloatArray, deviation: FloatArray, margin: float, sensitivity: float) -> FloatArray:
    """Trimaran's formula; mean and deviation as shares of the capacity."""
    sigma = np.clip(np.clip(deviation, 0.0, 1.0) ** (1 / sensitivity) * margin, 0.0, 1.0)
    return np.asarray((1.0 - (np.clip(mean, 0.0, 1.0) + sigma) / 2) * MAX_SCORE)
