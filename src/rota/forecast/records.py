"""The record of forecasts: how many were too low, by how much, and how much they saved.

One forecast of each series is open at a time. It is judged when its horizon has passed, against the greatest sample
within the horizon. The saving of a forecast is the part of the limits that it leaves free.
"""

from dataclasses import dataclass

import numpy as np

from rota.forecast.arrays import Booleans, Floats, Integers


@dataclass(frozen=True, slots=True)
class Record:
    """Judged forecasts of one series, or of several together."""

    forecasts: int
    violations: int
    #: The mean part of the peak that was missing, over the violations.
    severity: float
    #: The mean part of the limits that was left free, over all forecasts.
    savings: float

    @property
    def violation_rate(self) -> float:
        """The part of the forecasts that were too low."""
        return self.violations / self.forecasts if self.forecasts else 0.0


class Records:
    """The records of many series."""

    def __init__(self, series: int, *, horizon_s: float) -> None:
        self.horizon_s = horizon_s
        self._opened_s = np.full(series, np.nan)
        self._peak = np.zeros(series, dtype=np.float32)
        self._limit = np.zeros(series, dtype=np.float32)
        self._seen = np.zeros(series, dtype=np.float32)
        self._forecasts = np.zeros(series, dtype=np.int32)
        self._violations = np.zeros(series, dtype=np.int32)
        self._severity = np.zeros(series)
        self._savings = np.zeros(series)

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        return sum(each.nbytes for each in vars(self).values() if isinstance(each, np.ndarray))

    def add(self, used: Floats, peak: Floats, limit: Floats, now_s: float) -> Booleans:
        """Take the usage of now; judge the forecasts whose horizon has passed, and open new ones.

        Returns which forecasts were judged as too low.
        """
        self._seen = np.fmax(self._seen, used.astype(np.float32))
        due = self._opened_s + self.horizon_s <= now_s
        low = due & (self._seen > self._peak * np.float32(1 + 1e-6))
        self._forecasts += due
        self._violations += low
        # Only where it is needed: an amount near zero would overflow as a divisor.
        self._severity[low] += 1.0 - self._peak[low].astype(np.float64) / self._seen[low]
        saving = due & (self._limit > 0)
        self._savings[saving] += 1.0 - self._peak[saving].astype(np.float64) / self._limit[saving]
        fresh = (due | np.isnan(self._opened_s)) & ~np.isnan(peak)
        self._opened_s[due] = np.nan
        self._opened_s[fresh] = now_s
        self._peak[fresh], self._limit[fresh], self._seen[fresh] = peak[fresh], limit[fresh], 0.0
        return low

    def clear(self, which: Booleans) -> None:
        """Start anew for some series."""
        self._opened_s[which] = np.nan
        for each in (self._forecasts, self._violations, self._severity, self._savings):
            each[which] = 0

    def of(self, row: int) -> Record:
        """The record of one series."""
        return self._sum(np.array([row]))

    def total(self) -> Record:
        """The record of all series together."""
        return self._sum(np.arange(len(self._forecasts)))

    def _sum(self, rows: Integers) -> Record:
        forecasts, violations = int(self._forecasts[rows].sum()), int(self._violations[rows].sum())
        return Record(
            forecasts,
            violations,
            float(self._severity[rows].sum() / violations) if violations else 0.0,
            float(self._savings[rows].sum() / forecasts) if forecasts else 0.0,
        )
