"""FragmentationObjective: by how much the pod raises the expected amount of a resource that typical pods cannot use.

It is the measure of Fragmentation Gradient Descent for any resource. What is free on a node counts as a fragment for a
typical pod that does not fit into it; the mean over typical pods by their weights is the node's fragmentation. The cost
of a placement is the growth as a share of the node's allocatable; a placement that uses up fragments costs less than 0.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar

import numpy as np

from rota.api import quantities
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


class TypicalPod(WireStruct, frozen=True):
    """Requests that occur often, and how often."""

    requests: dict[str, str]
    weight: float = 1.0


class FragmentationObjectiveArgs(WireStruct, frozen=True):
    """Arguments of FragmentationObjective."""

    resource: str = CPU
    typical_pods: tuple[TypicalPod, ...] = (
        TypicalPod(requests={CPU: "500m", MEMORY: "1Gi"}),
        TypicalPod(requests={CPU: "2", MEMORY: "4Gi"}),
        TypicalPod(requests={CPU: "4", MEMORY: "16Gi"}),
    )

    def faults(self) -> Iterator[Fault]:
        """Pods that cannot be."""
        if not self.typical_pods:
            yield Fault("typicalPods", "name at least one typical pod")
        for at, pod in enumerate(self.typical_pods):
            if not pod.weight > 0:
                yield Fault(f"typicalPods[{at}].weight", "must be positive")
            for name, amount in pod.requests.items():
                try:
                    _amount(name, amount)
                except ValueError as error:
                    yield Fault(f"typicalPods[{at}].requests.{name}", str(error))


class FragmentationObjective(RowObjective):
    """Score by the growth of fragmentation."""

    name: ClassVar[str] = "FragmentationObjective"
    fixed_bounds: ClassVar[bool] = True
    Args = FragmentationObjectiveArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH
    unit: ClassVar[str] = "share fragmented"
    per_unit: ClassVar[int] = 1_000_000
    least: float = -1.0

    def __init__(self, args: FragmentationObjectiveArgs, handle: Handle) -> None:
        self._resource = args.resource
        total = sum(each.weight for each in args.typical_pods)
        self._typical = [
            (each.weight / total, {name: _amount(name, amount) for name, amount in each.requests.items()})
            for each in args.typical_pods
        ]

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests."""
        return tuple(sorted(pod.shape.requests.items()))

    def costs(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        """The growth as a share of the allocatable."""
        at = cluster.resources.get(self._resource)
        if at is None:
            return np.zeros(len(cluster.pod_count[rows]))
        free = (cluster.allocatable[:, rows] - cluster.requested[:, rows]).astype(np.float64)
        after = free.copy()
        for name, amount in pod.shape.requests.items():
            if name in cluster.resources:
                after[cluster.resources[name]] -= amount
        growth = self._fragments(cluster, after, at) - self._fragments(cluster, free, at)
        return np.asarray(growth / np.maximum(cluster.allocatable[at, rows], 1))

    def cost(self, pod: PodInfo, node: NodeInfo) -> float:
        """See `RowObjective.cost`."""
        requests, name = pod.shape.requests, self._resource
        before = after = 0.0
        for weight, wanted in self._typical:
            fits = fits_after = True
            for resource, amount in wanted.items():
                left = node.free(resource)
                fits = fits and left >= amount
                fits_after = fits_after and left - requests.get(resource, 0) >= amount
            left = node.free(name)
            before += 0.0 if fits else weight * max(left, 0)
            after += 0.0 if fits_after else weight * max(left - requests.get(name, 0), 0)
        return (after - before) / max(node.allocatable.get(name, 0), 1)

    def _fragments(self, cluster: Cluster, free: FloatArray, at: int) -> FloatArray:
        found = np.zeros(free.shape[1])
        for weight, wanted in self._typical:
            fits = np.ones(free.shape[1], dtype=np.bool_)
            for name, amount in wanted.items():
                place = cluster.resources.get(name)
                fits &= free[place] >= amount if place is not None else amount == 0
            found += weight * np.where(fits, 0.0, np.maximum(free[at], 0.0))
        return found


def _amount(name: str, text: str) -> int:
    """An amount in the unit of the columns: millicores, or units."""
    return quantities.milli(text) if name == CPU else quantities.value(text)
