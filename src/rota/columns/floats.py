"""Float copies of what nodes offer and what their pods take, for formulas that divide.

Dividing int64 columns is several times slower than dividing float64 ones, and for amounts below 2**53 / 100 the floor
of the quotient is the same. `complete` says of a resource that every node has it and that all amounts are small enough,
so that formulas need no special cases; where it does not hold, the exact columns are used.
"""

import numpy as np

from rota.columns.arrays import FloatArray, IntArray

#: 100 times this is still a whole number in float64.
LARGEST = 2**53 // 100


class FloatColumns:
    """Shapes as those of the columns they copy: (R, capacity), and (2, capacity) for `nonzero`."""

    __slots__ = ("_irregular", "nonzero", "requested", "whole")

    def __init__(self, resources: int, capacity: int) -> None:
        #: Allocatable, with 1 in place of 0 so that it can be divided by.
        self.whole: FloatArray = np.ones((resources, capacity))
        self.requested: FloatArray = np.zeros((resources, capacity))
        self.nonzero: FloatArray = np.zeros((2, capacity))
        #: Rows by resource that keep it from being complete.
        self._irregular: list[set[int]] = [set() for _ in range(resources)]

    def complete(self, resource: int) -> bool:
        """Whether every node has some of the resource, and none so much that floats would be inexact."""
        return not self._irregular[resource]

    def describe(self, row: int, allocatable: IntArray, *, alive: bool) -> None:
        """Take over what a node offers, shape (R,)."""
        for resource, amount in enumerate(allocatable.tolist()):
            self.whole[resource, row] = max(amount, 1)
            if alive and not 0 < amount <= LARGEST:
                self._irregular[resource].add(row)
            else:
                self._irregular[resource].discard(row)

    def take_over(self, rows: list[int], requested: IntArray, nonzero: IntArray) -> None:
        """Take over what the pods of some rows request."""
        if len(rows) == 1:
            row = rows[0]
            self.requested[:, row] = requested[:, row]
            self.nonzero[:, row] = nonzero[:, row]
        else:
            self.requested[:, rows] = requested[:, rows]
            self.nonzero[:, rows] = nonzero[:, rows]
