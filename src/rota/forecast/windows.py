"""The most recent samples of many series, with their mean and standard deviation.

Samples are kept in a ring of float32. Sums are updated by the sample that comes and the one that goes. Each update also
sums a part of the series anew, so that rounding errors do not accumulate: a full turn corrects every series.
"""

import numpy as np

from rota.forecast.arrays import ALL, Booleans, Compact, Floats, Rows


class SampleWindows:
    """The last `length` samples of each series; NaN is not a sample."""

    def __init__(self, series: int, length: int) -> None:
        self.length = length
        self._ring: Compact = np.full((series, length), np.nan, dtype=np.float32)
        self._next = 0
        self._count = np.zeros(series, dtype=np.int32)
        self._sum = np.zeros(series)
        self._squares = np.zeros(series)

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        return self._ring.nbytes + self._count.nbytes + self._sum.nbytes + self._squares.nbytes

    @property
    def counts(self) -> Floats:
        """The samples in the window of each series."""
        return self._count.astype(np.float64)

    def add(self, values: Floats) -> None:
        """Add one sample to each series, and forget those that leave the window."""
        place = self._next
        for sample, sign in (
            (self._ring[:, place].astype(np.float64), -1),
            (values.astype(np.float32).astype(np.float64), 1),
        ):
            there = ~np.isnan(sample)
            known = np.where(there, sample, 0.0)
            self._count += sign * there
            self._sum += sign * known
            self._squares += sign * known * known
        self._ring[:, place] = values
        self._next = (place + 1) % self.length
        size = -(-len(values) // self.length)
        self._sum_again(slice(place * size, (place + 1) * size))

    def forget(self, which: Booleans, keep: int) -> None:
        """Forget all but the newest `keep` samples of some series, after their level changed."""
        rows = np.flatnonzero(which)
        if len(rows):
            old = (self._next + np.arange(max(self.length - keep, 0))) % self.length
            self._ring[np.ix_(rows, old)] = np.nan
            self._sum_again(rows)

    def copy(self, row: int, source: int) -> None:
        """Give a series the samples of another one."""
        self._ring[row] = self._ring[source]
        self._sum_again(np.array([row]))

    def mean(self, rows: Rows = ALL) -> Floats:
        """The mean of the window; NaN without samples."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self._sum[rows] / self._count[rows])

    def deviation(self, rows: Rows = ALL) -> Floats:
        """The standard deviation of the window; NaN without samples."""
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self._sum[rows] / self._count[rows]
            return np.asarray(np.sqrt(np.maximum(self._squares[rows] / self._count[rows] - mean * mean, 0.0)))

    def samples(self, row: int) -> Floats:
        """The samples of one series, oldest first, with NaN where one is missing."""
        return np.asarray(np.roll(self._ring[row], -self._next), dtype=np.float64)

    def _sum_again(self, rows: Rows) -> None:
        part = self._ring[rows].astype(np.float64)
        there = ~np.isnan(part)
        part[~there] = 0.0
        self._count[rows] = there.sum(axis=1)
        self._sum[rows] = part.sum(axis=1)
        self._squares[rows] = (part * part).sum(axis=1)
