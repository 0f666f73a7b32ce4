"""The affinity terms of existing pods, and how many pods on each node have them.

A new pod must be checked against the terms of all others. Terms are interned, so there are about as many as templates;
each is matched with the new pod once, and its pods are counted by row.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from rota.columns.counts import CountArray
from rota.columns.pods import AffinityTerm, PodShape


class TermKind(Enum):
    """The kind of a term: affinity or anti-affinity, required or preferred."""

    REQUIRED_AFFINITY = "required affinity"
    REQUIRED_ANTI_AFFINITY = "required anti-affinity"
    PREFERRED_AFFINITY = "preferred affinity"
    PREFERRED_ANTI_AFFINITY = "preferred anti-affinity"


@dataclass(slots=True, eq=False)
class ExistingTerm:
    """A term and its pods by row. `rows` has no zeros; `dense`, once used, is the same as an array."""

    term: AffinityTerm
    weight: int
    rows: dict[int, int]
    dense: CountArray | None = None

    def counts(self, capacity: int) -> CountArray:
        """The number of pods with the term by row, shape (capacity,); kept up to date from now on."""
        if self.dense is None:
            self.dense = np.zeros(capacity, dtype=np.int32)
            self.dense[list(self.rows)] = list(self.rows.values())
        return self.dense


def _terms(shape: PodShape) -> Iterator[tuple[TermKind, AffinityTerm, int]]:
    for term in shape.required_affinity:
        yield TermKind.REQUIRED_AFFINITY, term, 1
    for term in shape.required_anti_affinity:
        yield TermKind.REQUIRED_ANTI_AFFINITY, term, 1
    for weighted in shape.preferred_affinity:
        yield TermKind.PREFERRED_AFFINITY, weighted.term, weighted.weight
    for weighted in shape.preferred_anti_affinity:
        yield TermKind.PREFERRED_ANTI_AFFINITY, weighted.term, weighted.weight


class ExistingTerms:
    """All terms of all existing pods."""

    __slots__ = ("_capacity", "_held", "version")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._held: dict[TermKind, dict[tuple[AffinityTerm, int], ExistingTerm]] = {kind: {} for kind in TermKind}
        #: Counts the changes.
        self.version = 0

    def of(self, kind: TermKind) -> Collection[ExistingTerm]:
        """The terms of one kind."""
        return self._held[kind].values()

    def add(self, shape: PodShape, row: int) -> None:
        """Add one pod."""
        self.version += 1
        for kind, term, weight in _terms(shape):
            held = self._held[kind].get((term, weight))
            if held is None:
                held = self._held[kind][term, weight] = ExistingTerm(term, weight, {})
            held.rows[row] = held.rows.get(row, 0) + 1
            if held.dense is not None:
                held.dense[row] += 1

    def remove(self, shape: PodShape, row: int) -> None:
        """Remove one pod."""
        self.version += 1
        for kind, term, weight in _terms(shape):
            held = self._held[kind][term, weight]
            _decrease(held.rows, row)
            if held.dense is not None:
                held.dense[row] -= 1
            if not held.rows:
                del self._held[kind][term, weight]

    def grow(self, capacity: int) -> None:
        """Extend the columns."""
        self._capacity = capacity
        for terms in self._held.values():
            for held in terms.values():
                held.dense = None

    def copy(self) -> "ExistingTerms":
        """An independent copy."""
        twin = ExistingTerms(self._capacity)
        twin.version = self.version
        for kind, terms in self._held.items():
            twin._held[kind] = {
                key: ExistingTerm(held.term, held.weight, dict(held.rows)) for key, held in terms.items()
            }
        return twin


def _decrease(counts: dict[int, int], row: int) -> None:
    if counts[row] > 1:
        counts[row] -= 1
    else:
        del counts[row]
