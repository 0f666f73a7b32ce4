"""Decaying histograms: the distribution of a series, in which old samples weigh less.

A sample's weight halves with each half-life. As in VPA, weights are kept relative to a reference time, so that a new
sample is one addition: a sample at time t weighs 2^((t - reference) / half-life), and old ones need no update. Bucket
sizes grow by a constant factor, so the relative error of a percentile is bounded by that factor.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from rota.forecast.arrays import ALL, Compact, Floats, Integers, Rows

DAY_S = 86_400.0
#: The reference moves when a new weight would exceed 2 to this power, long before float32 overflows.
_LARGEST_EXPONENT = 60.0
#: Rows whose cumulative weights are computed at once, so that a percentile of many series needs little memory.
_CHUNK = 8_192


@dataclass(frozen=True)
class Buckets:
    """Buckets whose sizes grow by `growth`, the first of size `first`."""

    first: float
    growth: float
    count: int

    @classmethod
    def up_to(cls, greatest: float, *, first: float, growth: float = 1.05) -> "Buckets":
        """As many buckets as are needed for values up to `greatest`, and one for greater values."""
        count = int(np.ceil(np.log(greatest * (growth - 1) / first + 1) / np.log(growth))) + 1
        return cls(first, growth, count)

    @cached_property
    def starts(self) -> Floats:
        """The lower bound of each bucket."""
        return np.asarray(self.first * (self.growth ** np.arange(self.count) - 1) / (self.growth - 1))

    def index(self, values: Floats) -> Integers:
        """The bucket of each value."""
        found = np.searchsorted(self.starts, values, side="right") - 1
        return np.clip(found, 0, self.count - 1)

    def upper(self, index: Integers) -> Floats:
        """The upper bound of each bucket; of the last one, its lower bound."""
        return np.asarray(self.starts[np.minimum(index + 1, self.count - 1)])


#: VPA: cores up to 1000 and bytes up to 1e12.
VPA_CPU = Buckets.up_to(1_000.0, first=0.01)
VPA_MEMORY = Buckets.up_to(1e12, first=1e7)
#: Koordinator's peak predictor: the first bucket is 25 millicores, or 10 MiB.
KOORDINATOR_CPU = Buckets.up_to(1_000.0, first=0.025)
KOORDINATOR_MEMORY = Buckets.up_to(2.0**42, first=10 * 2.0**20)
#: Shares of a limit, for many series: 5 % first, 1.5 times the limit last.
SHARES = Buckets.up_to(1.5, first=0.01)


class DecayingHistograms:
    """The histograms of many series."""

    def __init__(self, series: int, buckets: Buckets, *, half_life_s: float) -> None:
        if half_life_s <= 0:
            raise ValueError("the half-life of a histogram must be positive")
        self.buckets = buckets
        self.half_life_s = half_life_s
        self._reference_s = 0.0
        self._weights: Compact = np.zeros((series, buckets.count), dtype=np.float32)

    @property
    def nbytes(self) -> int:
        """The bytes of the weights."""
        return self._weights.nbytes

    def add(self, values: Floats, now_s: float, weights: ArrayLike = 1.0) -> None:
        """Add one sample to each series; NaN adds nothing."""
        exponent = (now_s - self._reference_s) / self.half_life_s
        if exponent > _LARGEST_EXPONENT:
            self._weights *= np.float32(0.5**exponent)
            self._reference_s, exponent = now_s, 0.0
        there = np.flatnonzero(~np.isnan(values))
        added = np.broadcast_to(np.asarray(weights, dtype=np.float64), values.shape)[there] * 2.0**exponent
        self._weights[there, self.buckets.index(values[there])] += added.astype(np.float32)

    def clear(self, rows: Rows) -> None:
        """Forget the samples of these series."""
        self._weights[rows] = 0.0

    def weights(self, row: int) -> tuple[float, Floats]:
        """The reference time of a series, and the weights of its buckets relative to that."""
        return self._reference_s, self._weights[row].astype(np.float64)

    def restore(self, row: int, reference_s: float, weights: Floats) -> None:
        """Replace the samples of a series by weights that `weights` has returned, of this or another histogram."""
        if reference_s > self._reference_s:
            self._weights *= np.float32(0.5 ** ((reference_s - self._reference_s) / self.half_life_s))
            self._reference_s = reference_s
        shift = 2.0 ** ((reference_s - self._reference_s) / self.half_life_s)
        self._weights[row] = (weights * shift).astype(np.float32)

    def percentile(self, share: float, rows: Rows = ALL) -> Floats:
        """The upper bound of the bucket in which this share of the weight is reached; NaN without samples."""
        chosen = self._weights[rows]
        found = np.empty(len(chosen))
        for begin in range(0, len(chosen), _CHUNK):
            sums = np.cumsum(chosen[begin : begin + _CHUNK], axis=1, dtype=np.float64)
            total = sums[:, -1:]
            # float32 weights do not sum exactly; a bucket that reaches the share up to rounding has reached it.
            index = (sums >= share * total * (1 - 1e-6)).argmax(axis=1)
            found[begin : begin + _CHUNK] = np.where(total[:, 0] > 0, self.buckets.upper(index), np.nan)
        return found
