"""Columns that plugins declare: one number per node, or several, computed from the node and the pods on it.

    FREE_LICENCES = NodeColumn(
        name="free licences",
        of_node=lambda node: int(node.labels.get("licences", 0)),
        of_pod=lambda pod: -int(pod.labels.get("licences", 0)),
    )

`cluster.column(FREE_LICENCES)` is the column of all nodes for the vector form of a plugin, `FREE_LICENCES.of(node)` the
same number for the scalar form, also on a copy of a node in a what-if. The two are always equal. A column is computed
when it is first read and then kept: a later read computes only the rows that have changed since, so transactions that
were rolled back need no care, and an exception in a plugin's function is raised in the plugin's own call.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rota.columns.change_log import ChangeLog
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, kw_only=True)
class NodeColumn:
    """A declared column. Columns are compared by identity; they are kept as long as they are referenced."""

    name: str
    #: The value of a node without its pods. It may read what describes the machine: labels, taints, allocatable.
    of_node: Callable[[NodeInfo], Any]
    #: What each pod on the node adds; None if pods make no difference. It may read the shape of the pod.
    of_pod: Callable[[PodInfo], Any] | None = None
    dtype: type[np.generic] = np.int64
    #: The value of rows without a node.
    default: float = 0
    #: The number of values per node, as the second axis; 0 for a single number.
    width: int = 0

    def __post_init__(self) -> None:
        if self.of_pod is not None and not np.issubdtype(self.dtype, np.integer):
            raise TypeError(f"column {self.name!r} adds up pods, so its dtype must be an integer: count in thousandths")

    def of(self, node: NodeInfo) -> Any:
        """The value of one node as it is shown: a number, or an array of `width` numbers."""
        value = self.of_node(node)
        if self.width:
            value = np.array(value, dtype=self.dtype)
            if value.shape != (self.width,):
                raise ValueError(f"column {self.name!r} needs {self.width} values per node, not {value.shape}")
        if self.of_pod is not None:
            for pod in node.pods.values():
                value = value + self.of_pod(pod)
        return value


class KeptColumn:
    """The values of a declared column in one cluster, up to a generation of its change log."""

    __slots__ = ("_generation", "_values")

    def __init__(self) -> None:
        self._generation = -1
        self._values: npt.NDArray[Any] = np.zeros(0)

    def values(
        self, column: NodeColumn, nodes: Sequence[NodeInfo | None], log: ChangeLog, *, capacity: int
    ) -> npt.NDArray[Any]:
        """The values of all rows, after those that have changed were computed again."""
        changes = log.since(self._generation) if len(self._values) == capacity and self._generation >= 0 else None
        if changes is None:
            shape = (capacity, column.width) if column.width else (capacity,)
            self._values = np.full(shape, column.default, dtype=column.dtype)
        rows = range(len(nodes)) if changes is None else changes.all if column.of_pod is not None else changes.node
        self._generation = -1  # an exception below leaves a mixture behind
        for row in rows:
            node = nodes[row]
            self._values[row] = column.default if node is None else column.of(node)
        self._generation = log.generation
        return self._values
