"""UtilizationObjective: which share of a node stays free beside the pod, the mean over several resources.

Nodes that are already used cost less, so the pods of a cluster go to few nodes.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar

import numpy as np

from rota.api.resources import CPU, MEMORY
from rota.columns.arrays import FloatArray, Rows
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct
from rota.scheduler.framework.objectives import RowObjective
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState


class UtilizationObjectiveArgs(WireStruct, frozen=True):
    """Arguments of UtilizationObjective and BalanceObjective."""

    resources: tuple[str, ...] = (CPU, MEMORY)

    def faults(self) -> Iterator[Fault]:
        """No resource."""
        if not self.resources:
            yield Fault("resources", "name at least one resource")


class UtilizationObjective(RowObjective):
    """Score by the share that stays free."""

    name: ClassVar[str] = "UtilizationObjective"
    fixed_bounds: ClassVar[bool] = True
    Args = UtilizationObjectiveArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH
    unit: ClassVar[str] = "free share"
    per_unit: ClassVar[int] = 1_000_000

    def __init__(self, args: UtilizationObjectiveArgs, handle: Handle) -> None:
        self._resources = args.resources

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of the resources."""
        return tuple(pod.shape.requests.get(name, 0) for name in self._resources)

    def costs(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        """One minus the mean utilisation with the pod."""
        return np.asarray(1.0 - shares(self._resources, pod, cluster, rows).mean(axis=0))

    def cost(self, pod: PodInfo, node: NodeInfo) -> float:
        """See `RowObjective.cost`."""
        return 1.0 - sum(node_shares(self._resources, pod, node)) / len(self._resources)


def node_shares(resources: tuple[str, ...], pod: PodInfo, node: NodeInfo) -> list[float]:
    """As `shares`, of one node."""
    found = []
    for name in resources:
        capacity = node.allocatable.get(name, 0)
        wanted = node.requested.get(name, 0) + pod.shape.requests.get(name, 0)
        found.append(min(wanted / capacity, 1.0) if capacity > 0 else 1.0)
    return found


def shares(resources: tuple[str, ...], pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
    """The requested share of each resource with the pod; shape (resources, rows).

    A resource that a node does not have counts as full: nothing of it stays free.
    """
    found = []
    for name in resources:
        at = cluster.resources.get(name)
        if at is None:
            found.append(np.ones(len(cluster.pod_count[rows])))
            continue
        capacity = cluster.allocatable[at, rows]
        wanted = cluster.requested[at, rows] + pod.shape.requests.get(name, 0)
        found.append(np.where(capacity > 0, np.minimum(wanted / np.maximum(capacity, 1), 1.0), 1.0))
    return np.stack(found)
