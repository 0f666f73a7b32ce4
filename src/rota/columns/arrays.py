"""Array types, and the letters of shapes.

N: rows of the node axis, freed rows included; R: resources. Columns are longer than N, so that nodes can be added
without copying; `cluster.rows` selects the N rows in use. Amounts, scores and codes are int64, interned numbers int32.
"""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", bound=np.generic)

IntArray = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int64]
IdArray = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.intp]

#: Selects rows of a column: a slice of all, or the indices of some.
Rows = slice | IndexArray


def count(rows: Rows) -> int:
    """The number of selected rows; slices here are always complete."""
    return rows.stop if isinstance(rows, slice) else len(rows)


def pick(column: npt.NDArray[T], rows: Rows) -> npt.NDArray[T]:
    """The selected rows of a column: a view of all of them, or a copy of some."""
    return column[rows] if isinstance(rows, slice) else column.take(rows)


def grown(column: npt.NDArray[np.generic], *, capacity: int, fill: int = 0) -> npt.NDArray[np.generic]:
    """Copy a column into a longer one along its last axis."""
    longer = np.full((*column.shape[:-1], capacity), fill, dtype=column.dtype)
    longer[..., : column.shape[-1]] = column
    return longer
