"""PowerObjective: by how many watts the power of a node grows when it gets the pod.

The utilisation of a node is the cpu that its pods request. A node without pods is off or asleep, so the first pod costs
its idle power too; that is why this objective consolidates. The watts of woken GPUs are added if GPU models are given.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar

import numpy as np

from rota.api.resources import CPU
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
from rota.scheduler.plugins.power_models import PowerModel

MODEL_LABEL = "rota.dev/power-model"


class PowerObjectiveArgs(WireStruct, frozen=True):
    """Arguments of PowerObjective."""

    models: tuple[PowerModel, ...] = (PowerModel(),)
    #: Larger growth counts as this much.
    greatest_watts: float = 1000.0

    def faults(self) -> Iterator[Fault]:
        """Models that cannot be, and machines without one."""
        if "" not in {each.name for each in self.models}:
            yield Fault("models", "needs one model without a name, for all other machines")
        names = [each.name for each in self.models]
        for at, name in enumerate(names):
            if name in names[:at]:
                yield Fault(f"models[{at}].name", "another model has this name")
        if self.greatest_watts <= 0:
            yield Fault("greatestWatts", "must be positive")
        for at, each in enumerate(self.models):
            yield from (fault.below(f"models[{at}]") for fault in each.faults())


class PowerObjective(RowObjective):
    """Score by the growth of power."""

    name: ClassVar[str] = "PowerObjective"
    fixed_bounds: ClassVar[bool] = True
    Args = PowerObjectiveArgs
    watches: ClassVar[ChangeScope] = ChangeScope.BOTH
    unit: ClassVar[str] = "W"

    def __init__(self, args: PowerObjectiveArgs, handle: Handle) -> None:
        self._models = sorted(args.models, key=lambda model: model.name)
        self.greatest = args.greatest_watts

    def signature(self, pod: PodInfo) -> Hashable:
        """The request of cpu."""
        return pod.shape.requests.get(CPU, 0)

    def costs(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        """The growth in watts."""
        return watts_grown(self._models, pod, cluster, rows)

    def cost(self, pod: PodInfo, node: NodeInfo) -> float:
        """See `RowObjective.cost`."""
        model = self._models[0]
        label = node.labels.get(MODEL_LABEL, "")
        if label and len(self._models) > 1:
            model = next((each for each in self._models[1:] if each.name == label), model)
        return model.growth_of_one(
            float(node.requested.get(CPU, 0)),
            float(pod.shape.requests.get(CPU, 0)),
            float(node.allocatable.get(CPU, 0)),
            empty=not node.pods,
        )


def watts_grown(models: list[PowerModel], pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
    """By how many watts the power of each selected node grows; the first model is that of all others."""
    more = float(pod.shape.requests.get(CPU, 0))
    used, capacity = cluster.requested[0, rows].astype(np.float64), cluster.allocatable[0, rows].astype(np.float64)
    empty = cluster.pod_count[rows] == 0
    found = models[0].growth(used, more, capacity, empty)
    for model in models[1:]:
        there = cluster.labels.column(MODEL_LABEL).where(frozenset({model.name}), rows)
        if there.any():
            found = np.where(there, model.growth(used, more, capacity, empty), found)
    return found
