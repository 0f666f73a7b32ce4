"""The number of matching pods on each node, updated pod by pod.

Pods are grouped by namespace and labels; all pods of a group are equal to a selector. A query that was made once
becomes a column of counts by node; after that, adding or removing a pod changes one number in each column that its
group matches. Columns that were not used for a while are dropped.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rota.api.selectors import Operator, Selector
from rota.columns.pods import LabelGroup

COLUMNS_KEPT = 1024
_POSITIVE = frozenset({Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS})

K = TypeVar("K")

CountArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Clause:
    """Pods of some namespaces (None: of all) with some labels."""

    namespaces: frozenset[str] | None
    selector: Selector

    def matches(self, group: LabelGroup) -> bool:
        """Whether the pods of a group match."""
        return (self.namespaces is None or group.namespace in self.namespaces) and self.selector.matches(group.labels)


@dataclass(frozen=True, slots=True)
class PodQuery:
    """Pods that meet all clauses."""

    clauses: tuple[Clause, ...]
    count_terminating: bool = True

    def matches(self, group: LabelGroup) -> bool:
        """Whether the pods of a group match."""
        return (self.count_terminating or not group.terminating) and all(
            clause.matches(group) for clause in self.clauses
        )


class CountColumn:
    """The number of matching pods by row, and in total."""

    __slots__ = ("counts", "query", "total", "version")

    def __init__(self, query: PodQuery, capacity: int) -> None:
        self.query = query
        #: Shape (capacity,), int32.
        self.counts: CountArray = np.zeros(capacity, dtype=np.int32)
        self.total = 0
        #: Counts the changes.
        self.version = 0


class PodCounts:
    """Pods by group and row, and the columns of queries."""

    __slots__ = ("_by_namespace", "_by_pair", "_capacity", "_columns", "_columns_of", "_groups")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._groups: dict[LabelGroup, dict[int, int]] = {}
        self._by_namespace: dict[str, set[LabelGroup]] = {}
        self._by_pair: dict[tuple[str, str], set[LabelGroup]] = {}
        self._columns: OrderedDict[PodQuery, CountColumn] = OrderedDict()
        self._columns_of: dict[LabelGroup, list[CountColumn]] = {}

    def add(self, group: LabelGroup, row: int, number: int = 1) -> None:
        """Add one pod, or several."""
        rows = self._groups.get(group)
        if rows is None:
            rows = self._enter(group)
        rows[row] = rows.get(row, 0) + number
        for column in self._columns_of[group]:
            column.counts[row] += number
            column.total += number
            column.version += 1

    def remove(self, group: LabelGroup, row: int) -> None:
        """Remove one pod."""
        rows = self._groups[group]
        for column in self._columns_of[group]:
            column.counts[row] -= 1
            column.total -= 1
            column.version += 1
        if rows[row] > 1:
            rows[row] -= 1
            return
        del rows[row]
        if not rows:
            self._leave(group)

    def column(self, query: PodQuery) -> CountColumn:
        """The column of a query; it stays up to date while it is used now and then."""
        found = self._columns.get(query)
        if found is not None:
            self._columns.move_to_end(query)
            return found
        found = CountColumn(query, self._capacity)
        for group in self._candidates(query):
            if query.matches(group):
                self._columns_of[group].append(found)
                for row, number in self._groups[group].items():
                    found.counts[row] += number
                    found.total += number
        self._columns[query] = found
        if len(self._columns) > COLUMNS_KEPT:
            _, dropped = self._columns.popitem(last=False)
            for group in self._candidates(dropped.query):
                if dropped in self._columns_of[group]:
                    self._columns_of[group].remove(dropped)
        return found

    def groups(self) -> Iterator[tuple[LabelGroup, dict[int, int]]]:
        """Every group with its pods by row."""
        return iter(self._groups.items())

    def grow(self, capacity: int) -> None:
        """Extend the columns."""
        self._capacity = capacity
        for column in self._columns.values():
            longer = np.zeros(capacity, dtype=np.int32)
            longer[: len(column.counts)] = column.counts
            column.counts = longer

    def copy(self) -> "PodCounts":
        """An independent copy; columns are computed again when they are used."""
        twin = PodCounts(self._capacity)
        for group, rows in self._groups.items():
            twin._enter(group).update(rows)
        return twin

    def _enter(self, group: LabelGroup) -> dict[int, int]:
        rows = self._groups[group] = {}
        self._by_namespace.setdefault(group.namespace, set()).add(group)
        for pair in group.labels.items():
            self._by_pair.setdefault(pair, set()).add(group)
        self._columns_of[group] = [column for column in self._columns.values() if column.query.matches(group)]
        return rows

    def _leave(self, group: LabelGroup) -> None:
        del self._groups[group], self._columns_of[group]
        _discard(self._by_namespace, group.namespace, group)
        for pair in group.labels.items():
            _discard(self._by_pair, pair, group)

    def _candidates(self, query: PodQuery) -> list[LabelGroup]:
        """The groups that may match, by the first label that the query requires."""
        for clause in query.clauses:
            for requirement in clause.selector.requirements:
                if requirement.operator in _POSITIVE:
                    pairs = [(requirement.key, value) for value in set(requirement.values)]
                    return [group for pair in pairs for group in self._by_pair.get(pair, ())]
        for clause in query.clauses:
            if clause.namespaces is not None:
                return [group for name in clause.namespaces for group in self._by_namespace.get(name, ())]
        return list(self._groups)


def _discard(index: dict[K, set[LabelGroup]], key: K, group: LabelGroup) -> None:
    groups = index[key]
    groups.discard(group)
    if not groups:
        del index[key]
