"""PriceObjective: what the pod costs per hour on a node, in the currency of the nodes' price labels.

The price of a node is divided by the dominant share that the pod requests of it. On a spot node the expected cost of
interruptions is added. A node without a price label counts with the mean of the others, so an unknown price is neither
the cheapest nor the dearest.
"""

from collections.abc import Hashable, Iterator
from typing import ClassVar

import numpy as np

from rota.api.resources import CPU, MEMORY
from rota.columns.arrays import FloatArray, Rows
from rota.columns.change_log import Changes, ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.node_columns import NodeColumn
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.config.faults import Fault
from rota.scheduler.config.wire import WireStruct
from rota.scheduler.framework.objectives import Objective
from rota.scheduler.framework.plugin_interfaces import Reuse
from rota.scheduler.framework.registry import Handle
from rota.scheduler.framework.state import CycleState
from rota.spot import prices


class SpotRisk(WireStruct, frozen=True):
    """A label of spot nodes, and how often such a node is interrupted."""

    label: str
    value: str
    interruptions_per_hour: float = 0.05


class PriceObjectiveArgs(WireStruct, frozen=True):
    """Arguments of PriceObjective."""

    greatest_price: float = 10.0
    #: What an interruption of the pod costs: lost work, a restart.
    interruption_cost: float = 0.0
    spot: tuple[SpotRisk, ...] = (
        SpotRisk(label="karpenter.sh/capacity-type", value="spot"),
        SpotRisk(label="node.kubernetes.io/lifecycle", value="spot"),
    )

    def faults(self) -> Iterator[Fault]:
        """Prices that cannot be."""
        if self.greatest_price <= 0:
            yield Fault("greatestPrice", "must be positive")
        if self.interruption_cost < 0:
            yield Fault("interruptionCost", "must not be negative")
        for at, each in enumerate(self.spot):
            if each.interruptions_per_hour < 0:
                yield Fault(f"spot[{at}].interruptionsPerHour", "must not be negative")


class PriceObjective(Objective):
    """Score by the expected cost per hour."""

    name: ClassVar[str] = "PriceObjective"
    fixed_bounds: ClassVar[bool] = True
    Args = PriceObjectiveArgs
    watches: ClassVar[ChangeScope] = ChangeScope.NODE
    unit: ClassVar[str] = "/h"
    per_unit: ClassVar[int] = 1_000_000

    def __init__(self, args: PriceObjectiveArgs, handle: Handle) -> None:
        self.greatest = args.greatest_price
        self._interruption_cost = args.interruption_cost
        self._prices = NodeColumn(name="price per hour", of_node=_price, dtype=np.float64, default=np.nan)
        self._risks = NodeColumn(
            name="interruptions per hour",
            of_node=lambda node: max(
                (each.interruptions_per_hour for each in args.spot if node.labels.get(each.label) == each.value),
                default=0.0,
            ),
            dtype=np.float64,
        )

    def signature(self, pod: PodInfo) -> Hashable:
        """The requests of cpu and memory."""
        return pod.shape.requests.get(CPU, 0), pod.shape.requests.get(MEMORY, 0)

    def reuse_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes, *, feasible_changed: bool
    ) -> Reuse:
        """The mean price, which stands for unknown ones, may change with any node."""
        return Reuse.ALL_ROWS if changes.node else Reuse.ROWS

    def costs(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        """The price of the pod's share, and the expected cost of interruptions."""
        every = cluster.column(self._prices)
        known = every[~np.isnan(every)]
        price = np.where(np.isnan(every[rows]), known.mean() if len(known) else 0.0, every[rows])
        share = np.zeros(len(price))
        for at, name in enumerate((CPU, MEMORY)):
            wanted = pod.shape.requests.get(name, 0)
            share = np.maximum(share, wanted / np.maximum(cluster.allocatable[at, rows], 1))
        risk = cluster.column(self._risks)[rows]
        return np.asarray(price * np.minimum(share, 1.0) + risk * self._interruption_cost)


def _price(node: NodeInfo) -> float:
    price = prices.in_labels(node.labels)
    return np.nan if price is None else price
