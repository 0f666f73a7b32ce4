"""Labels of nodes as columns: one interned column per label key, built at its first use.

Selectors are evaluated here for all nodes at once, exactly: once per distinct value, not per node.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from rota.api.nodeselectors import NAME_FIELD, NodeSelector, NodeSelectorTerm
from rota.api.selectors import Operator, Requirement, Selector
from rota.columns.arrays import BoolArray, Rows
from rota.columns.interned import InternedColumn
from rota.columns.nodes import NodeInfo

_POSITIVE = frozenset({Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS})
_NEGATIVE = frozenset({Operator.NOT_IN, Operator.NOT_EQUALS})


class LabelColumns:
    """The labels of all nodes, by key."""

    __slots__ = ("_capacity", "_columns", "_nodes")

    def __init__(self, nodes: list[NodeInfo | None], capacity: int) -> None:
        self._nodes = nodes
        self._capacity = capacity
        self._columns: dict[str, InternedColumn[str]] = {}

    def column(self, key: str) -> InternedColumn[str]:
        """The column of one label."""
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = InternedColumn(self._capacity)
            for row, node in enumerate(self._nodes):
                if node is not None:
                    found.set(row, node.labels.get(key))
        return found

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        """Update a row."""
        for key, column in self._columns.items():
            column.set(row, labels.get(key))

    def grow(self, capacity: int) -> None:
        """Extend the columns."""
        self._capacity = capacity
        for column in self._columns.values():
            column.grow(capacity)

    def meeting(self, requirement: Requirement, rows: Rows) -> BoolArray:
        """Which rows meet one requirement."""
        column = self.column(requirement.key)
        if requirement.operator in _POSITIVE:
            return column.where(requirement.values, rows)
        if requirement.operator in _NEGATIVE:
            return ~column.where(requirement.values, rows)
        if requirement.operator is Operator.EXISTS:
            return np.asarray(column.column[rows] >= 0)
        if requirement.operator is Operator.DOES_NOT_EXIST:
            return np.asarray(column.column[rows] < 0)
        return column.test(lambda value: value is not None and requirement.matches({requirement.key: value}), rows)

    def matching(self, selector: Selector, rows: Rows) -> BoolArray | None:
        """Which rows a selector matches; None for all of them."""
        if selector.selects_nothing:
            return np.zeros(_length(rows), dtype=np.bool_)
        matched: BoolArray | None = None
        for requirement in selector.requirements:
            met = self.meeting(requirement, rows)
            matched = met if matched is None else matched & met
        return matched

    def matching_term(self, term: NodeSelectorTerm, rows: Rows, row_of: Mapping[str, NodeInfo]) -> BoolArray:
        """Which rows one term of a node selector matches."""
        if term.errors:
            return np.zeros(_length(rows), dtype=np.bool_)
        matched = None if term.labels is None else self.matching(term.labels, rows)
        if matched is None:
            matched = np.ones(_length(rows), dtype=np.bool_)
        for field, value, equal in term.fields:
            node = row_of.get(value) if field == NAME_FIELD else None
            here = _is_row(rows, node.row) if node is not None else np.zeros(_length(rows), dtype=np.bool_)
            matched = matched & (here if equal else ~here)
        return matched

    def matching_any(
        self, terms: NodeSelector | Iterable[NodeSelectorTerm], rows: Rows, row_of: Mapping[str, NodeInfo]
    ) -> BoolArray:
        """Which rows any of the terms matches."""
        matched = np.zeros(_length(rows), dtype=np.bool_)
        for term in terms.terms if isinstance(terms, NodeSelector) else terms:
            matched |= self.matching_term(term, rows, row_of)
        return matched


def _length(rows: Rows) -> int:
    return rows.stop if isinstance(rows, slice) else len(rows)


def _is_row(rows: Rows, row: int) -> BoolArray:
    if isinstance(rows, slice):
        found = np.zeros(rows.stop, dtype=np.bool_)
        found[row] = True
        return found
    return np.asarray(rows == row)
