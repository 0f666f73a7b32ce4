"""Forecasts of all series of a cluster for one resource, updated sample by sample.

Samples arrive about once a minute. The maximum of each interval (five minutes) goes into the window from which the peak
is predicted, into the histogram, and into the daily pattern. A forecast is never below the present use and says what it
is based on:

- `MEASURED`: the reserve predictor, or the daily pattern where that is greater;
- `COLD`: the series is too young, so its request counts;
- `STALE`: no recent sample, so its request counts.

A change of level (`drift`) shortens the window to the samples after it. The series of a new replica starts with the
history of another one of its workload (`seed`).
"""

from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from rota.forecast.arrays import Booleans, Floats, Integers
from rota.forecast.drift import PageHinkley
from rota.forecast.histograms import SHARES, DecayingHistograms
from rota.forecast.peaks import DEFAULT_RESERVE, Reserve, bounded, with_reserve
from rota.forecast.records import Records
from rota.forecast.seasons import PhaseMaxima
from rota.forecast.windows import SampleWindows

#: Samples that remain after a drift.
_AFTER_DRIFT = 6
_HALF_LIFE_S = 43_200.0


class Basis(IntEnum):
    """What a forecast is based on."""

    MEASURED = 0
    COLD = 1
    STALE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """The times of a fleet, in seconds, and the parameters of its predictor."""

    interval_s: float = 300.0
    history_s: float = 36_000.0
    warm_up_s: float = 7_200.0
    #: A forecast covers this time.
    horizon_s: float = 3_600.0
    #: A series without a sample for this long is stale.
    stale_s: float = 180.0
    reserve: Reserve = DEFAULT_RESERVE

    def with_reserve(self, reserve: Reserve) -> "FleetSettings":
        """The same times with other parameters."""
        return replace(self, reserve=reserve)


DEFAULTS = FleetSettings()


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The forecasts of all series; arrays of shape (series,)."""

    used: Floats
    peak: Floats
    basis: Integers


class Fleet:
    """The state of many series of one resource."""

    def __init__(self, series: int, settings: FleetSettings = DEFAULTS) -> None:
        self.settings = settings
        self.requests: Floats = np.zeros(series)
        #: What the pods of a series may use together, and the root of the sum of their squared limits.
        self.limits: Floats = np.zeros(series)
        self.limit_norms: Floats = np.zeros(series)
        self.records = Records(series, horizon_s=settings.horizon_s)
        self.histograms = DecayingHistograms(series, SHARES, half_life_s=_HALF_LIFE_S)
        self._windows = SampleWindows(series, max(int(settings.history_s / settings.interval_s), 2))
        self._phases = PhaseMaxima(series)
        self._drift = PageHinkley(series)
        self._last_s = np.full(series, np.nan)
        self._used = np.full(series, np.nan)
        self._interval_max = np.full(series, np.nan)
        self._interval = -1

    @property
    def nbytes(self) -> int:
        """The bytes of the state of all series."""
        parts = (self.records, self.histograms, self._windows, self._phases, self._drift)
        own = sum(each.nbytes for each in vars(self).values() if isinstance(each, np.ndarray))
        return own + sum(part.nbytes for part in parts)

    def add(self, values: Floats, now_s: float) -> Booleans:
        """Add one sample to each series (NaN: none). Returns which open forecasts were found too low."""
        interval = int(now_s // self.settings.interval_s)
        if interval != self._interval:
            self._close_interval(now_s)
            self._interval = interval
        there = ~np.isnan(values)
        self._last_s[there] = now_s
        self._used = np.where(there, values, self._used)
        self._interval_max = np.fmax(self._interval_max, values)
        found = self.forecast(now_s)
        measured = np.where(found.basis == Basis.MEASURED, found.peak, np.nan)
        return self.records.add(values, measured, self.limits, now_s)

    def forecast(self, now_s: float) -> Forecasts:
        """The forecasts as of now."""
        windows, settings = self._windows, self.settings
        stale = ~(now_s - self._last_s <= settings.stale_s)
        cold = windows.counts * settings.interval_s < settings.warm_up_s
        used = np.where(stale, np.nan, self._used)
        peak = with_reserve(windows.mean(), windows.deviation(), used, self.limit_norms, settings.reserve)
        peak = np.fmax(peak, self._phases.peak(now_s, settings.horizon_s))
        by_request = np.where(self.requests > 0, self.requests, self.limits)
        peak = np.where(cold | stale, by_request, np.minimum(peak, self.limits))
        basis = np.where(stale, Basis.STALE, np.where(cold, Basis.COLD, Basis.MEASURED))
        return Forecasts(used, bounded(peak, np.fmax(used, 0.0), np.inf), basis.astype(np.int64))

    def history(self, row: int) -> Floats:
        """The interval maxima of one series, oldest first, with NaN where one is missing."""
        return self._windows.samples(row)

    def moments(self, row: int) -> tuple[float, float]:
        """The mean and the standard deviation of one series; NaN without samples."""
        rows = np.array([row])
        return float(self._windows.mean(rows)[0]), float(self._windows.deviation(rows)[0])

    def grown(self, series: int) -> "Fleet":
        """A fleet with room for more series and the state of this one."""
        larger = Fleet(series, self.settings)
        _take_over(larger, self)
        return larger

    def clear(self, which: Booleans) -> None:
        """Forget the history of some series, because other pods take their rows."""
        self._windows.forget(which, keep=0)
        self._phases.clear(which)
        self.histograms.clear(np.flatnonzero(which))
        self.records.clear(which)
        for state in (self._last_s, self._used, self._interval_max):
            state[which] = np.nan

    def seed(self, row: int, source: int) -> None:
        """Start a series with the window and the daily pattern of another one."""
        self._windows.copy(row, source)
        self._phases.copy(row, source)

    def _close_interval(self, now_s: float) -> None:
        """Move the maxima of the interval that ended into the window."""
        if self._interval < 0:
            return
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.where(self.limits > 0, self._interval_max / self.limits, np.nan)
        drifted = self._drift.add(shares)
        self._windows.add(self._interval_max)
        self._windows.forget(drifted, keep=_AFTER_DRIFT)
        self.histograms.add(shares, now_s)
        self._phases.add(self._interval_max, now_s - self.settings.interval_s)
        self._interval_max = np.full(len(self._used), np.nan)


def _take_over(larger: object, smaller: object) -> None:
    """Copy the state of an object and its parts into one of the same class with room for more series."""
    for name, value in vars(smaller).items():
        if isinstance(value, np.ndarray):
            vars(larger)[name][: len(value)] = value
        elif isinstance(value, _PARTS):
            _take_over(vars(larger)[name], value)
        else:
            setattr(larger, name, value)


_PARTS = (DecayingHistograms, SampleWindows, PhaseMaxima, PageHinkley, Records)
