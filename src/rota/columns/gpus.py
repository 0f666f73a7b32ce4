"""GPU devices as columns: the thousandths that are free of each device of each node.

`nodes.NodeInfo` counts the devices of a node's pods; here are its numbers for the vector form of plugins. A device that
a node does not have is -1, so that it is never large enough.
"""

from collections.abc import Sequence

import numpy as np

from rota.columns.arrays import IntArray, Rows, grown

#: The devices of a node that most clusters have at most.
_FIRST_DEVICES = 8
ABSENT = -1


class GpuColumns:
    """The devices of all nodes. Arrays have one column a device, shape (capacity, D)."""

    __slots__ = ("free", "number")

    def __init__(self, capacity: int) -> None:
        #: Shape (capacity, D), int64: free thousandths; `ABSENT` where the node has no such device.
        self.free: IntArray = np.full((capacity, _FIRST_DEVICES), ABSENT, dtype=np.int64)
        #: Shape (capacity,), int64: how many devices the node has.
        self.number: IntArray = np.zeros(capacity, dtype=np.int64)

    def set(self, row: int, free: Sequence[int]) -> None:
        """Copy the free thousandths of a node that has been described."""
        self.free[row, : len(free)] = free

    def describe(self, row: int, free: Sequence[int]) -> None:
        """Copy the devices of a node that was added or has changed."""
        if not free and not self.number[row]:
            return
        if len(free) > self.free.shape[1]:
            wider = np.full((len(self.free), len(free)), ABSENT, dtype=np.int64)
            wider[:, : self.free.shape[1]] = self.free
            self.free = wider
        self.free[row] = ABSENT
        self.number[row] = len(free)
        self.set(row, free)

    def grow(self, capacity: int) -> None:
        """Make room for more nodes."""
        longer = np.full((capacity, self.free.shape[1]), ABSENT, dtype=np.int64)
        longer[: len(self.free)] = self.free
        self.free = longer
        self.number = grown(self.number, capacity=capacity).astype(np.int64)

    def idle(self, rows: Rows) -> IntArray:
        """The free thousandths of all devices of the selected nodes together."""
        return np.asarray(np.maximum(self.free[rows], 0).sum(axis=1))

    def copy(self) -> "GpuColumns":
        """An independent copy."""
        twin = GpuColumns(0)
        twin.free, twin.number = self.free.copy(), self.number.copy()
        return twin
