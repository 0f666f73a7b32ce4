"""Holt-Winters smoothing, additive: a level, a trend and a season for each of many series.

The band around a forecast is the deviation of past one-step errors, growing with the root of the steps ahead.
"""

import numpy as np

from rota.forecast.arrays import Floats


class HoltWinters:
    """Smoothed series; `season` is the number of samples in a period, 1 without a season."""

    def __init__(
        self, series: int, *, season: int = 1, level: float = 0.3, trend: float = 0.05, seasonal: float = 0.2
    ) -> None:
        for name, value in (("level", level), ("trend", trend), ("seasonal", seasonal)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be from 0 to 1, not {value}")
        self._rates = level, trend, seasonal
        self._season = season
        self._level = np.full(series, np.nan)
        self._trend = np.zeros(series)
        self._offsets = np.zeros((series, season))
        self._error = np.zeros(series)
        self._step = 0

    def add(self, values: Floats) -> None:
        """Add one sample to each series. Where it is NaN, the forecast of this step stands for it."""
        level_rate, trend_rate, seasonal_rate = self._rates
        place = self._step % self._season
        offset = self._offsets[:, place]
        expected = self._level + self._trend + offset
        fresh, missing = np.isnan(self._level), np.isnan(values)
        seen = np.where(missing, expected, values)
        level = level_rate * (seen - offset) + (1 - level_rate) * (self._level + self._trend)
        trend = trend_rate * (level - self._level) + (1 - trend_rate) * self._trend
        new_offset = seasonal_rate * (seen - level) + (1 - seasonal_rate) * offset
        error = np.where(fresh | missing, 0.0, seen - expected)
        self._error = np.where(missing, self._error, 0.95 * self._error + 0.05 * error * error)
        self._trend = np.where(fresh, 0.0, trend)
        self._level = np.where(fresh, values, level)
        if self._season > 1:
            self._offsets[:, place] = np.where(fresh, 0.0, new_offset)
        self._step += 1

    def ahead(self, steps: int) -> Floats:
        """The forecast of the next `steps` samples; shape (series, steps), NaN before the first sample."""
        number = np.arange(1, steps + 1)
        offsets = self._offsets[:, (self._step + number - 1) % self._season]
        return np.asarray(self._level[:, None] + self._trend[:, None] * number + offsets)

    def band(self, steps: int, *, sigmas: float = 2.0) -> Floats:
        """Half the width of the band around `ahead`; shape (series, steps)."""
        return np.asarray(sigmas * np.sqrt(self._error[:, None] * np.arange(1, steps + 1)))
