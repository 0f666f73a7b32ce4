"""A column of interned values: each row has the small number of a value, or -1 for none.

Numbers are dense and reused when the last row with a value is gone, so that tables indexed by them (counts per topology
domain, results per set of taints) stay as small as the number of distinct values.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np

from rota.columns.arrays import BoolArray, IdArray, IndexArray, Rows

V = TypeVar("V", bound=Hashable)

NONE = -1


class InternedColumn(Generic[V]):
    """Numbers of values by row, and the values by number."""

    __slots__ = ("_free", "_ids", "_shifted", "_shifted_version", "_uses", "column", "values", "version")

    def __init__(self, capacity: int) -> None:
        #: Shape (capacity,), int32; -1 for a row without a value.
        self.column: IdArray = np.full(capacity, NONE, dtype=np.int32)
        #: Values by number; None for freed numbers.
        self.values: list[V | None] = []
        #: Counts the changes, for readers that cache derived values.
        self.version = 0
        self._shifted: IndexArray = np.zeros(0, dtype=np.intp)
        self._shifted_version = -1
        self._ids: dict[V, int] = {}
        self._uses: list[int] = []
        self._free: list[int] = []

    def set(self, row: int, value: V | None) -> None:
        """Set the value of a row, or none."""
        old = int(self.column[row])
        new = NONE if value is None else self._number(value)
        if old == new:
            return
        self.version += 1
        self.column[row] = new
        if new != NONE:
            self._uses[new] += 1
        if old != NONE:
            self._release(old)

    def shifted(self) -> IndexArray:
        """The numbers plus 1, so that "none" is 0, for counting; read-only."""
        if self._shifted_version != self.version or len(self._shifted) != len(self.column):
            self._shifted = self.column.astype(np.intp) + 1
            self._shifted_version = self.version
        return self._shifted

    def id_of(self, value: V) -> int | None:
        """The number of a value that some row has."""
        return self._ids.get(value)

    def value_at(self, row: int) -> V | None:
        """The value of a row."""
        number = int(self.column[row])
        return None if number == NONE else self.values[number]

    def grow(self, capacity: int) -> None:
        """Extend the column."""
        longer = np.full(capacity, NONE, dtype=np.int32)
        longer[: len(self.column)] = self.column
        self.column = longer

    def where(self, wanted: Iterable[V], rows: Rows) -> BoolArray:
        """Which of the rows have one of the wanted values."""
        ids = [number for value in wanted if (number := self._ids.get(value)) is not None]
        selected = self.column[rows]
        if not ids:
            return np.zeros(len(selected), dtype=np.bool_)
        found: BoolArray = selected == ids[0]
        for number in ids[1:]:
            found |= selected == number
        return found

    def test(self, verdict: Callable[[V | None], bool], rows: Rows) -> BoolArray:
        """Evaluate a predicate once per distinct value (and for none); returns the results by row."""
        answers: BoolArray = self.table(verdict, np.bool_)[self.column[rows]]
        return answers

    def table(self, answer: Callable[[V | None], object], dtype: type[np.generic]) -> np.ndarray:
        """A function's results by number; the last entry, which -1 selects, is that for no value."""
        nothing = answer(None)
        answers = [nothing if value is None else answer(value) for value in self.values]
        return np.array([*answers, nothing], dtype=dtype)

    def copy(self) -> "InternedColumn[V]":
        """An independent copy."""
        twin: InternedColumn[V] = InternedColumn(0)
        twin.column = self.column.copy()
        twin.values = list(self.values)
        twin.version = self.version
        twin._ids = dict(self._ids)
        twin._uses = list(self._uses)
        twin._free = list(self._free)
        return twin

    def _number(self, value: V) -> int:
        number = self._ids.get(value)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.values[number] = value
            else:
                number = len(self.values)
                self.values.append(value)
                self._uses.append(0)
            self._ids[value] = number
        return number

    def _release(self, number: int) -> None:
        self._uses[number] -= 1
        if not self._uses[number]:
            value = self.values[number]
            assert value is not None
            del self._ids[value]
            self.values[number] = None
            self._free.append(number)
