"""All nodes of a session as columns: allocatable, idle, and future idle resources (after terminating pods have
ended).

Rows are nodes in the order of their names, the same as in the `Cluster` of the stock scheduler's filters and scores.
A pipelined pod takes no idle resources.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, Rows
from rota.scheduler.batch import amounts
from rota.scheduler.batch.amounts import CPU, EPSILON, MEMORY, PODS, Amounts
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import REVOCABLE_ZONE, Task

#: Cpu and memory are compared even if they are not requested.
_ALWAYS: Final = (CPU, MEMORY)


class NodeRow(NamedTuple):
    """One node that sessions may use."""

    name: str
    labels: Mapping[str, str]
    allocatable: Amounts


class NodeTable:
    """The nodes that are ready; a row without one has neither a name nor resources."""

    def __init__(self, nodes: Iterable[NodeRow | None]) -> None:
        found = list(nodes)
        self.names: Final[list[str]] = ["" if node is None else node.name for node in found]
        self.rows: Final = {name: row for row, name in enumerate(self.names) if name}
        #: By row, whether there is a node that is ready.
        self.usable: Final[BoolArray] = np.array([node is not None for node in found], dtype=np.bool_)
        self.labels: Final[list[Mapping[str, str]]] = [{} if node is None else node.labels for node in found]
        self.revocable_zones: Final = [labels.get(REVOCABLE_ZONE, "") for labels in self.labels]
        offered = [Amounts() if node is None else node.allocatable for node in found]
        self.dimensions: Final[dict[str, int]] = {CPU: 0, MEMORY: 1}
        for each in offered:
            for name in each.others:
                self.dimensions.setdefault(name, len(self.dimensions))
        shape = len(self.dimensions), len(self.names)
        #: Shape (D, N): allocatable resources, and which dimensions a node has.
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
        #: By row, the maximum number of pods.
        self.most_pods: FloatArray = self._column(self.allocatable, PODS)
        #: By row, pods with the state that they are counted in.
        self.tasks: Final[list[dict[str, Task]]] = [{} for _ in self.names]
        self._counted: Final[list[dict[str, TaskStatus]]] = [{} for _ in self.names]
        self._vectors: dict[int, tuple[Amounts, list[tuple[int, float]]]] = {}
        #: The changed rows, in order; readers keep their position.
        self.changes: Final[list[int]] = []
        self._future: FloatArray = self.idle.copy()
        self._future_seen = 0

    def __len__(self) -> int:
        return len(self.names)

    # --- resources --------------------------------------------------------------------------------------------------

    def column(self, name: str) -> FloatArray | None:
        """Give the allocatable amounts of a resource; None if no node has it."""
        index = self.dimensions.get(name)
        return None if index is None else self.allocatable[index]

    def total(self) -> Amounts:
        """Give the sum of all allocatable resources."""
        return self.sum_of(self.allocatable)

    def sum_of(self, table: FloatArray) -> Amounts:
        """Give the sum of all nodes' columns of a table."""
        sums = table.sum(axis=1).tolist()
        present: list[bool] = np.asarray(self.present.any(axis=1)).tolist()
        result = Amounts(sums[0], sums[1])
        for name, index in self.dimensions.items():
            if index > 1 and (present[index] or sums[index]):
                result.others[name] = sums[index]
        return result

    def amounts(self, table: FloatArray, row: int) -> Amounts:
        """Give one node's column of a table."""
        result = Amounts(float(table[0, row]), float(table[1, row]))
        for name, index in self.dimensions.items():
            if index > 1 and (self.present[index, row] or table[index, row]):
                result.others[name] = float(table[index, row])
        return result

    def sum_over(self, table: FloatArray, rows: Iterable[int]) -> Amounts:
        """Add up some nodes' columns of a table."""
        result = Amounts()
        for row in rows:
            result.add(self.amounts(table, row))
        return result

    @property
    def future(self) -> FloatArray:
        """Future idle resources: shape (D, N), valid until the next change."""
        if self._future_seen < len(self.changes):
            rows = list(set(self.changes[self._future_seen :]))
            self._future[:, rows] = self.idle[:, rows] + self.releasing[:, rows] - self.pipelined[:, rows]
            self._future_seen = len(self.changes)
        return self._future

    def future_of(self, row: int) -> Amounts:
        """Give the future idle resources of one node."""
        table = self.idle[:, row] + self.releasing[:, row] - self.pipelined[:, row]
        result = Amounts(float(table[0]), float(table[1]))
        for name, index in self.dimensions.items():
            if index > 1 and (self.present[index, row] or table[index]):
                result.others[name] = float(table[index])
        return result

    def fits(self, request: Amounts, table: FloatArray, rows: Rows) -> BoolArray:
        """Give for each row whether a request fits the amounts of a table."""
        fitting: BoolArray = np.ones(table[0, rows].shape, dtype=np.bool_)
        for index, amount in self.vector(request):
            if index < 0:
                if amount >= EPSILON:
                    fitting[:] = False
                continue
            fitting &= amount - table[index, rows] < EPSILON
        return fitting

    def fits_now(self, request: Amounts, row: int) -> bool:
        """Whether a request fits the idle resources of a node."""
        idle = self.idle
        return all(
            amount - idle[index, row] < EPSILON if index >= 0 else amount < EPSILON
            for index, amount in self.vector(request)
        )

    def fits_later(self, request: Amounts, row: int) -> bool:
        """Whether a request fits the future idle resources of a node."""
        future = (self.idle[:, row] + self.releasing[:, row] - self.pipelined[:, row]).tolist()
        return all(
            amount - future[index] < EPSILON if index >= 0 else amount < EPSILON
            for index, amount in self.vector(request)
        )

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

    def seat(self, row: int, tasks: Iterable[Task]) -> None:
        """Set the pods of groups on a node, whose requests are counted as used already."""
        self.tasks[row] = {task.key: task for task in tasks}
        self._counted[row] = {key: task.status for key, task in self.tasks[row].items()}
        for task in self.tasks[row].values():
            if task.status is TaskStatus.RELEASING:
                self.leave(row, task.request)

    def leave(self, row: int, request: Amounts) -> None:
        """Count resources that are used already as being released."""
        self._add(self.releasing, self.vector(request), row, 1.0)

    def forget_changes(self) -> None:
        """Begin a new list of changed rows."""
        self.changes.clear()
        self._vectors.clear()
        self._future = self.idle + self.releasing - self.pipelined
        self._future_seen = 0

    def touch(self, row: int) -> None:
        """Record that a node has changed."""
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


def of_documents(nodes: Iterable[Mapping[str, Any]]) -> NodeTable:
    """Build a table from node objects, in the order of their names."""
    return NodeTable(
        NodeRow(
            node["metadata"]["name"],
            node["metadata"].get("labels") or {},
            amounts.read((node.get("status") or {}).get("allocatable")),
        )
        for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
    )
