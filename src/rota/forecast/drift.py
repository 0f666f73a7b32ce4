"""Drift: a lasting change of a series' level, found by the test of Page and Hinkley in both directions.

The test adds up by how much samples exceed the mean so far and a tolerance. If the sum rises above its minimum by more
than a threshold, the level has risen; likewise for a fall. A found drift starts the test of that series anew.
"""

import numpy as np

from rota.forecast.arrays import Booleans, Floats

#: Samples before a drift can be found.
_LEAST_SAMPLES = 12


class PageHinkley:
    """The test for many series. `tolerance` and `threshold` are in the unit of the samples."""

    def __init__(self, series: int, *, tolerance: float = 0.02, threshold: float = 1.0) -> None:
        self._tolerance = tolerance
        self._threshold = threshold
        self._count = np.zeros(series, dtype=np.int32)
        self._mean = np.zeros(series)
        self._above = np.zeros(series)
        self._below = np.zeros(series)

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        return self._count.nbytes + self._mean.nbytes + self._above.nbytes + self._below.nbytes

    def add(self, values: Floats) -> Booleans:
        """Add one sample to each series and return which of them drifted; NaN adds nothing."""
        there = ~np.isnan(values)
        sample = np.where(there, values, self._mean)
        self._count += there
        self._mean += np.where(there, (sample - self._mean) / np.maximum(self._count, 1), 0.0)
        change = sample - self._mean
        # Each sum is kept as its height over its minimum, which is all that the test needs.
        self._above = np.where(there, np.maximum(self._above + change - self._tolerance, 0.0), self._above)
        self._below = np.where(there, np.maximum(self._below - change - self._tolerance, 0.0), self._below)
        drifted = (np.maximum(self._above, self._below) > self._threshold) & (self._count >= _LEAST_SAMPLES)
        for state in (self._above, self._below, self._count, self._mean):
            state[drifted] = 0
        return drifted
