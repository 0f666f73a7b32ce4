"""ContentionObjective: the probability that a node's load exceeds its capacity when it gets the pod.

The load is taken as normal, with the mean and the deviation of the node's forecast. The pod, and pods that came since
the measurement, add their requests to the mean and a part of them to the deviation. The cost is the greater probability
of cpu and memory. A node without a forecast counts by its requests, within the range of the others.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar

import numpy as np

from rota.columns.arrays import FloatArray, Rows
from rota.columns.change_log import Changes, ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct
from rota.scheduler.framework.objectives import Objective
from rota.scheduler.framework.plugin_interfaces import Reuse
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugins.node_loads import FORECASTS, RESOURCES, KeptLoads, neutral


class ContentionObjectiveArgs(WireStruct, frozen=True):
    """Arguments of ContentionObjective."""

    #: The deviation of a pod that is not measured, as a part of its request.
    request_deviation: float = 0.25

    def faults(self) -> Iterator[Fault]:
        """A part that cannot be."""
        if self.request_deviation <= 0:
            yield Fault("requestDeviation", "must be positive")


class ContentionObjective(Objective):
    """Score by the risk of contention."""

    name: ClassVar[str] = "ContentionObjective"
    fixed_bounds: ClassVar[bool] = True
    Args = ContentionObjectiveArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH
    unit: ClassVar[str] = "probability"
    per_unit: ClassVar[int] = 1_000_000
    kinds: ClassVar = (FORECASTS,)

    def __init__(self, args: ContentionObjectiveArgs, handle: Handle) -> None:
        self._part = args.request_deviation
        self._loads = KeptLoads()

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of cpu and memory."""
        return tuple(pod.shape.requests.get(name, 0) for name in RESOURCES)

    def reuse_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes, *, feasible_changed: bool
    ) -> Reuse:
        """The bounds of unmeasured nodes may change with any node."""
        return Reuse.ALL_ROWS

    def costs(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        """The probability."""
        every, loads = cluster.rows, self._loads.of(cluster)
        known = loads.known[:, every]
        wanted = np.array([[float(pod.shape.requests.get(name, 0))] for name in RESOURCES])
        later = np.where(known, loads.unmeasured(cluster, every), cluster.requested[:2, every]) + wanted
        mean = np.where(known, loads.mean[:, every], 0.0) + later
        deviation = np.hypot(np.where(known, loads.deviation[:, every], 0.0), self._part * later)
        capacity = cluster.allocatable[:2, every].astype(np.float64)
        risk = exceeding((capacity - mean) / np.maximum(deviation, 1e-9)).max(axis=0)
        return neutral(risk, loads.complete(every))[rows]


def exceeding(deviations: FloatArray) -> FloatArray:
    """The probability that a normal value exceeds its mean by this many deviations; exact to 1e-7."""
    distance = np.minimum(np.abs(deviations), 40.0)
    # The approximation 26.2.17 of Abramowitz and Stegun.
    part = 1.0 / (1.0 + 0.2316419 * distance)
    factors = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530)
    series = np.zeros_like(part)
    for factor in factors:
        series = (series + factor) * part
    tail = np.exp(-0.5 * distance * distance) / np.sqrt(2 * np.pi) * series
    return np.asarray(np.where(deviations >= 0, tail, 1.0 - tail))
