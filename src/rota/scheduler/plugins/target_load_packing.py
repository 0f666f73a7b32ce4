"""TargetLoadPacking: Trimaran's score, which fills nodes up to a target of their cpu and then avoids them.

With u the measured cpu use in percent, with the pod and what came since the measurement, and T the target: the score
rises from T at u = 0 to 100 at u = T, falls from T there to 0 at u = 100, and is 0 beyond. A pod's use is predicted as
its request times a multiplier, and a default for a pod without a request. (Trimaran takes a pod's limit where it has
one; shapes here have no limits.) Nodes without a measurement score by their requests, within the range of the others.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar

import numpy as np

from rota.api.resources import CPU
from rota.columns.arrays import FloatArray, IntArray, Rows
from rota.columns.change_log import Changes, ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct
from rota.scheduler.framework.plugin_interfaces import Reuse
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugins.node_loads import FORECASTS, KeptLoads, neutral


class TargetLoadPackingArgs(WireStruct, frozen=True):
    """Arguments of TargetLoadPacking, with Trimaran's defaults."""

    target_utilization: int = 40
    #: The use of a pod by its request, and of a pod without one in millicores.
    default_requests_multiplier: float = 1.5
    default_requests: int = 1000

    def faults(self) -> Iterator[Fault]:
        """Values that cannot be."""
        if not 0 < self.target_utilization < 100:
            yield Fault("targetUtilization", "must be from 1 to 99")
        if self.default_requests_multiplier <= 0 or self.default_requests < 0:
            yield Fault("defaultRequestsMultiplier", "must be positive, and defaultRequests not negative")


class TargetLoadPacking:
    """Score by the distance to the target."""

    name: ClassVar[str] = "TargetLoadPacking"
    Args = TargetLoadPackingArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH
    kinds: ClassVar = (FORECASTS,)

    def __init__(self, args: TargetLoadPackingArgs, handle: Handle) -> None:
        self._args = args
        self._loads = KeptLoads()

    def signature(self, pod: PodInfo) -> Hashable:
        """The request of cpu."""
        return pod.shape.requests.get(CPU, 0)

    def reuse_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes, *, feasible_changed: bool
    ) -> Reuse:
        """The bounds of unmeasured nodes may change with any node."""
        return Reuse.ALL_ROWS

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """The rounded score."""
        args, every = self._args, cluster.rows
        loads = self._loads.of(cluster)
        wanted = pod.shape.requests.get(CPU, 0)
        predicted = wanted * args.default_requests_multiplier if wanted else float(args.default_requests)
        later = loads.unmeasured(cluster, every)[0] * args.default_requests_multiplier
        known = loads.known[0, every]
        used = np.where(known, loads.used[0, every] + later, cluster.requested[0, every])
        percent = 100.0 * (used + predicted) / np.maximum(cluster.allocatable[0, every], 1)
        scores = packed(percent, float(args.target_utilization))
        return np.asarray(np.floor(neutral(scores, known)[rows] + 0.5), dtype=np.int64)


def packed(percent: FloatArray, target: float) -> FloatArray:
    """Trimaran's formula."""
    rising = (100.0 - target) * percent / target + target
    falling = target * (100.0 - percent) / (100.0 - target)
    return np.where(percent <= target, rising, np.where(percent <= 100.0, falling, 0.0))
