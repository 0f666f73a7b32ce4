"""BalanceObjective: how unequally the resources of a node are used with the pod.

The cost is the greatest difference between the requested shares of two resources. A node that is full of one resource
and empty of another strands what is left.
"""

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from rota.columns.arrays import FloatArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.objectives import RowObjective
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.scheduler.plugins.utilization_objective import UtilizationObjectiveArgs, node_shares, shares


class BalanceObjective(RowObjective):
    """Score by the difference of shares."""

    name: ClassVar[str] = "BalanceObjective"
    fixed_bounds: ClassVar[bool] = True
    Args = UtilizationObjectiveArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH
    unit: ClassVar[str] = "share apart"
    per_unit: ClassVar[int] = 1_000_000

    def __init__(self, args: UtilizationObjectiveArgs, handle: Handle) -> None:
        self._resources = args.resources

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of the resources."""
        return tuple(pod.shape.requests.get(name, 0) for name in self._resources)

    def costs(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        """The greatest share less the smallest."""
        found = shares(self._resources, pod, cluster, rows)
        return np.asarray(found.max(axis=0) - found.min(axis=0))

    def cost(self, pod: PodInfo, node: NodeInfo) -> float:
        """See `RowObjective.cost`."""
        found = node_shares(self._resources, pod, node)
        return max(found) - min(found)
