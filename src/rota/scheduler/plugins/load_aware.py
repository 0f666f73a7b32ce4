"""LoadAware: filters and scores nodes by measured usage, with Koordinator's formulas.

The usage of a node with the pod is what was measured, plus estimates of the pods that came since and of the pod itself.
The estimate of a pod is its request times a factor, and a small amount for a pod without requests. A node is refused if
that exceeds a threshold in percent of its allocatable. The score is the mean of the free shares. Nodes without a recent
measurement are not refused, and score by their requests within the range of the measured nodes.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar, Final

import numpy as np

from rota.api.resources import CPU, MEMORY
from rota.columns.arrays import CodeArray, FloatArray, IntArray, Rows
from rota.columns.change_log import Changes, ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE, PreFilterResult, Reuse
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Status
from rota.scheduler.plugins.node_loads import FORECASTS, KIND, RESOURCES, KeptLoads, neutral

#: What a pod without requests is expected to use.
DEFAULT_CPU: Final = 250
DEFAULT_MEMORY: Final = 200 * 2**20
_REFUSALS: Final = (
    statuses.unschedulable("node(s) cpu usage exceed threshold"),
    statuses.unschedulable("node(s) memory usage exceed threshold"),
)


class Percentages(WireStruct, frozen=True):
    """A percentage for each resource; 0 means none."""

    cpu: int = 0
    memory: int = 0


class LoadAwareArgs(WireStruct, frozen=True):
    """Arguments of LoadAware, with Koordinator's defaults."""

    usage_thresholds: Percentages = Percentages(cpu=65, memory=95)
    estimated_scaling_factors: Percentages = Percentages(cpu=85, memory=70)
    resource_weights: Percentages = Percentages(cpu=1, memory=1)
    #: The weight of the resource that is used most, beside the others.
    dominant_resource_weight: int = 0

    def faults(self) -> Iterator[Fault]:
        """Percentages that cannot be."""
        parts = {"usageThresholds": self.usage_thresholds, "estimatedScalingFactors": self.estimated_scaling_factors}
        for name, value in parts.items():
            if not (0 <= value.cpu <= 100 and 0 <= value.memory <= 100):
                yield Fault(name, "must be from 0 to 100")
        weights = (self.resource_weights.cpu, self.resource_weights.memory, self.dominant_resource_weight)
        if min(weights) < 0 or sum(weights) == 0:
            yield Fault("resourceWeights", "must not be negative, and one of them must be positive")


class LoadAware:
    """Filter and score by load."""

    name: ClassVar[str] = "LoadAware"
    Args = LoadAwareArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH
    kinds: ClassVar = (FORECASTS,)

    def __init__(self, args: LoadAwareArgs, handle: Handle) -> None:
        factors = args.estimated_scaling_factors
        self._factors = np.array([factors.cpu, factors.memory]) / 100
        self._thresholds = (args.usage_thresholds.cpu, args.usage_thresholds.memory)
        self._weights = np.array([args.resource_weights.cpu, args.resource_weights.memory], dtype=np.float64)
        self._dominant = float(args.dominant_resource_weight)
        self._loads = KeptLoads()

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of cpu and memory."""
        return tuple(pod.shape.requests.get(name, 0) for name in RESOURCES)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Note which forecasts the results are for."""
        state.write(KIND, cluster.catalog.version(KIND))
        return PreFilterResult()

    def reuse_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes) -> Reuse:
        """New forecasts concern all rows."""
        version = cluster.catalog.version(KIND)
        if state.find(KIND, int) == version and not changes.node:
            return Reuse.ROWS
        state.write(KIND, version)
        return Reuse.ALL_ROWS

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray:
        """1 or 2 where the cpu or the memory would be used too much."""
        loads = self._loads.of(cluster)
        share = self._shares(pod, cluster, rows)
        codes = np.zeros(share.shape[1], dtype=np.int64)
        for at in (1, 0):
            threshold = self._thresholds[at]
            if threshold:
                codes[loads.known[at, rows] & (np.rint(share[at] * 100) > threshold)] = at + 1
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """The resource that is used too much."""
        return _REFUSALS[code - 1]

    def reuse_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes, *, feasible_changed: bool
    ) -> Reuse:
        """The bounds of unmeasured nodes may change with any node."""
        return Reuse.ALL_ROWS

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """The mean free share in percent."""
        free = 1.0 - np.minimum(self._shares(pod, cluster, cluster.rows), 1.0)
        total = self._weights @ free + self._dominant * free.min(axis=0)
        scores = MAX_SCORE * total / (self._weights.sum() + self._dominant)
        known = self._loads.of(cluster).complete(cluster.rows)
        return np.asarray(np.floor(neutral(scores, known)[rows] + 1e-9), dtype=np.int64)

    def _shares(self, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        """The estimated usage with the pod as a share of the allocatable; shape (2, rows)."""
        loads = self._loads.of(cluster)
        factors = self._factors[:, None]
        measured = loads.used[:, rows] + loads.unmeasured(cluster, rows) * factors
        usage = np.where(loads.known[:, rows], measured, cluster.requested[:2, rows] * factors)
        usage += np.array([expected(pod, self._factors)]).T
        return np.asarray(usage / np.maximum(cluster.allocatable[:2, rows], 1))


def expected(pod: PodInfo, factors: FloatArray) -> tuple[float, float]:
    """What the pod is expected to use: millicores and bytes."""
    wanted = pod.shape.requests.get(CPU, 0), pod.shape.requests.get(MEMORY, 0)
    cpu = wanted[0] * float(factors[0]) if wanted[0] else float(DEFAULT_CPU)
    return cpu, wanted[1] * float(factors[1]) if wanted[1] else float(DEFAULT_MEMORY)
