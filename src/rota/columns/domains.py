"""Sums over topology domains.

A domain is a value of a label; its number is that of the interned label column. Tables are indexed by that number and
have one more entry at the end, which the number -1 (no such label) selects and which is always 0.
"""

import numpy as np

from rota.columns.arrays import BoolArray, IdArray, IntArray
from rota.columns.interned import InternedColumn


def sums(column: InternedColumn[str], amounts: np.ndarray, included: BoolArray | None = None) -> IntArray:
    """Sum amounts by domain; `amounts` and `included` cover the rows in use, shape (N,)."""
    shifted = column.shifted()[: len(amounts)]
    if included is not None:
        shifted = np.where(included, shifted, 0)
    width = len(column.values) + 1
    counted = np.bincount(shifted, weights=amounts, minlength=width)
    # Number -1 was counted in entry 0; it belongs at the end, where it stays 0.
    table = np.zeros(width, dtype=np.int64)
    table[:-1] = counted[1:]
    return table


def members(column: InternedColumn[str], included: BoolArray) -> BoolArray:
    """Which domains have an included row; shape as that of `sums`."""
    found = np.zeros(len(column.values) + 1, dtype=np.bool_)
    found[column.column[: len(included)][included]] = True
    found[-1] = False
    return found


def ids(column: InternedColumn[str], size: int) -> IdArray:
    """The domain of each row in use."""
    return column.column[:size]
