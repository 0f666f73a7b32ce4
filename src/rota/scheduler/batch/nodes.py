"""All nodes of a session as columns: what they offer, what is free now, and what will be when leaving pods are gone.

Rows are nodes in the order of their names, the rows of the `Cluster` that filters and scores of the stock scheduler
work on. A pod that holds a place which is not free yet counts as pipelined and takes nothing of what is idle.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, Rows
from rota.scheduler.batch import amounts
from rota.scheduler.batch.amounts import CPU, EPSILON, MEMORY, PODS, Amounts
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import REVOCABLE_ZONE, Task

#: Beside cpu and memory, which are compared whether they are asked for or not.
_ALWAYS: Final = (CPU, MEMORY)


class NodeTable:
    """The nodes that are ready."""

    def __init__(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        self.objects: Final = sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
        self.names: Final[list[str]] = [node["metadata"]["name"] for node in self.objects]
        self.rows: Final = {name: row for row, name in enumerate(self.names)}
        self.labels: Final[list[Mapping[str, str]]] = [node["metadata"].get("labels") or {} for node in self.objects]
        self.revocable_zones: Final = [labels.get(REVOCABLE_ZONE, "") for labels in self.labels]
        offered = [amounts.read((node.get("status") or {}).get("allocatable")) for node in self.objects]
        self.dimensions: Final[dict[str, int]] = {CPU: 0, MEMORY: 1}
        for each in offered:
            for name in each.others:
                self.dimensions.setdefault(name, len(self.dimensions))
        shape = len(self.dimensions), len(self.names)
        #: Shape (D, N): what nodes offer, and which dimensions a node has at all.
        self.allocatable: FloatArray = np.zeros(shape)
        self.present: BoolArray = np.zeros(shape, dtype=np.bool_)
        for row, each in enumerate(offered):
            for name, amount in each.items():
                self.allocatable[self.dimensions[name], row] = amount
                self.present[self.dimensions[name], row] = True
        self.idle: FloatArray = self.allocatable.copy()
        self.used: FloatArray = np.zeros(shape)
        self.releasing: FloatArray = np.zeros(shape)
        self.pipelined: FloatArray = np.zeros(shape)
        #: By row, the most pods that the node takes.
        self.most_pods: FloatArray = self._column(self.allocatable, PODS)
        #: By row, pods with the state that they are counted in.
        self.tasks: Final[list[dict[str, Task]]] = [{} for _ in self.names]
        self._counted: Final[list[dict[str, TaskStatus]]] = [{} for _ in self.names]
        self._vectors: dict[int, tuple[Amounts, list[tuple[int, float]]]] = {}
        #: The rows that have changed, in order; readers remember how far they have read.
        self.changes: Final[list[int]] = []
        self._future: FloatArray = self.idle.copy()
        self._future_seen = 0

    def __len__(self) -> int:
        return len(self.names)

    # --- rooms ------------------------------------------------------------------------------------------------------

    def column(self, name: str) -> FloatArray | None:
        """Give what nodes offer of a resource; None if no node offers any."""
        index = self.dimensions.get(name)
        return None if index is None else self.allocatable[index]

    def total(self) -> Amounts:
        """Give what all nodes offer together."""
        result = Amounts()
        for row in range(len(self.names)):
            result.add(self.amounts(self.allocatable, row))
        return result

    def amounts(self, table: FloatArray, row: int) -> Amounts:
        """Give one node's part of a table."""
        result = Amounts(float(table[0, row]), float(table[1, row]))
        for name, index in self.dimensions.items():
            if index > 1 and (self.present[index, row] or table[index, row]):
                result.others[name] = float(table[index, row])
        return result

    def sum_over(self, table: FloatArray, rows: Iterable[int]) -> Amounts:
        """Add up some nodes' parts of a table."""
        result = Amounts()
        for row in rows:
            result.add(self.amounts(table, row))
        return result

    @property
    def future(self) -> FloatArray:
        """What will be free: shape (D, N), to be read at once."""
        if self._future_seen < len(self.changes):
            rows = list(set(self.changes[self._future_seen :]))
            self._future[:, rows] = self.idle[:, rows] + self.releasing[:, rows] - self.pipelined[:, rows]
            self._future_seen = len(self.changes)
        return self._future

    def future_of(self, row: int) -> Amounts:
        """Give what will be free on one node."""
        table = self.idle[:, row] + self.releasing[:, row] - self.pipelined[:, row]
        result = Amounts(float(table[0]), float(table[1]))
        for name, index in self.dimensions.items():
            if index > 1 and (self.present[index, row] or table[index]):
                result.others[name] = float(table[index])
        return result

    def fits(self, request: Amounts, table: FloatArray, rows: Rows) -> BoolArray:
        """Say for each row whether a request fits the room in a table."""
        fitting: BoolArray = np.ones(table[0, rows].shape, dtype=np.bool_)
        for index, amount in self.vector(request):
            if index < 0:
                if amount >= EPSILON:
                    fitting[:] = False
                continue
            fitting &= amount - table[index, rows] < EPSILON
        return fitting

    def insufficient(self, request: Amounts, table: FloatArray) -> list[tuple[str, BoolArray]]:
        """Give for each dimension of a request the rows of a table that lack it."""
        found = []
        for name, (index, amount) in zip((name for name, _ in request.items()), self.vector(request), strict=True):
            lacks = np.full(len(self.names), amount >= EPSILON) if index < 0 else ~(amount - table[index] < EPSILON)
            found.append((name, lacks))
        return found

    def vector(self, request: Amounts) -> list[tuple[int, float]]:
        """Give the dimensions of a request as indices (-1 for one that no node has) with the amounts."""
        known = self._vectors.get(id(request))
        if known is not None and known[0] is request:
            return known[1]
        vector = [(self.dimensions.get(name, -1), amount) for name, amount in request.items()]
        self._vectors[id(request)] = (request, vector)
        return vector

    # --- pods -------------------------------------------------------------------------------------------------------

    def add(self, task: Task) -> None:
        """Count a pod on its node, in its present state."""
        row = self.rows[task.node]
        self.tasks[row][task.key] = task
        self._counted[row][task.key] = task.status
        self._shift(task.request, row, task.status, 1.0)

    def remove(self, task: Task, node: str) -> None:
        """Count a pod out."""
        row = self.rows[node]
        status = self._counted[row].pop(task.key, None)
        if status is None:
            return
        del self.tasks[row][task.key]
        self._shift(task.request, row, status, -1.0)

    def update(self, task: Task) -> None:
        """Count a pod on its node in its new state."""
        row = self.rows.get(task.node)
        if row is None:
            return
        status = self._counted[row].get(task.key)
        if status is not None:
            self._shift(task.request, row, status, -1.0)
        self.tasks[row][task.key] = task
        self._counted[row][task.key] = task.status
        self._shift(task.request, row, task.status, 1.0)

    def touch(self, row: int) -> None:
        """Note that what is known of a node has changed."""
        self.changes.append(row)

    def _shift(self, request: Amounts, row: int, status: TaskStatus, sign: float) -> None:
        self.touch(row)
        vector = self.vector(request)
        if status is TaskStatus.PIPELINED:
            self._add(self.pipelined, vector, row, sign)
            return
        self._add(self.idle, vector, row, -sign)
        self._add(self.used, vector, row, sign)
        if status is TaskStatus.RELEASING:
            self._add(self.releasing, vector, row, sign)

    @staticmethod
    def _add(table: FloatArray, vector: list[tuple[int, float]], row: int, sign: float) -> None:
        for index, amount in vector:
            if index >= 0:
                table[index, row] += sign * amount

    def _column(self, table: FloatArray, name: str) -> FloatArray:
        index = self.dimensions.get(name)
        return np.zeros(len(self.names)) if index is None else table[index]
