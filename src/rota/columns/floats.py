"""Float copies of allocatable and requested, for formulas that divide.

Dividing int64 columns is several times slower than dividing float64 ones, and for amounts below 2**53 / 100 the floor
of the quotient is the same. `complete` says that every node has a resource and that all amounts are small enough, so
that formulas need no special cases; otherwise the exact columns are used.
"""

import numpy as np

from rota.columns.arrays import FloatArray, IntArray

#: 100 times this is still exact in float64.
LARGEST = 2**53 // 100


class FloatColumns:
    """Shapes as those of the copied columns: (R, capacity), and (2, capacity) for `nonzero`."""

    __slots__ = ("_irregular", "nonzero", "requested", "whole")

    def __init__(self, resources: int, capacity: int) -> None:
        #: Allocatable, with 1 instead of 0 as a divisor.
        self.whole: FloatArray = np.ones((resources, capacity))
        self.requested: FloatArray = np.zeros((resources, capacity))
        self.nonzero: FloatArray = np.zeros((2, capacity))
        #: Rows that make a resource incomplete, by resource.
        self._irregular: list[set[int]] = [set() for _ in range(resources)]

    def complete(self, resource: int) -> bool:
        """Whether every node has the resource, with an amount that is exact in floats."""
        return not self._irregular[resource]

    def describe(self, row: int, allocatable: IntArray, *, alive: bool) -> None:
        """Copy a node's allocatable, shape (R,)."""
        for resource, amount in enumerate(allocatable.tolist()):
            self.whole[resource, row] = max(amount, 1)
            if alive and not 0 < amount <= LARGEST:
                self._irregular[resource].add(row)
            else:
                self._irregular[resource].discard(row)

    def take_over(self, rows: list[int], requested: IntArray, nonzero: IntArray) -> None:
        """Copy the requests of some rows."""
        if len(rows) == 1:
            row = rows[0]
            self.requested[:, row] = requested[:, row]
            self.nonzero[:, row] = nonzero[:, row]
        else:
            self.requested[:, rows] = requested[:, rows]
            self.nonzero[:, rows] = nonzero[:, rows]
