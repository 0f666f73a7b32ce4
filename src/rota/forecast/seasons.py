"""Daily and weekly patterns: the maximum of each phase of a period, and the detection of a period.

The forecast for a phase is the greatest sample of that phase in past periods, with old periods forgotten at a rate.
A period is accepted by two tests, as in Crane: its amplitude in the spectrum exceeds what shuffled samples give, and
the autocorrelation has a hill there. Shuffles are an argument, so that the result can be repeated.
"""

import numpy as np

from rota.forecast.arrays import Booleans, Compact, Floats, Integers

DAY_S = 86_400.0
#: By how much a phase's maximum falls in one period without a greater sample.
_FORGOTTEN = 0.1
#: A bin of the spectrum must exceed this percentile of the greatest bins of shuffled samples.
_SIGNIFICANT = 99.0


class PhaseMaxima:
    """The maximum of each phase of one period for many series."""

    def __init__(self, series: int, *, period_s: float = DAY_S, phases: int = 24) -> None:
        self.period_s = period_s
        self.phases = phases
        self._maxima: Compact = np.zeros((series, phases), dtype=np.float32)
        self._first_s = np.full(series, np.nan)
        self._current: tuple[int, int] | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        return self._maxima.nbytes + self._first_s.nbytes

    def add(self, values: Floats, now_s: float) -> None:
        """Add one sample to each series; NaN adds nothing."""
        period, phase = int(now_s // self.period_s), self._phase(now_s)
        if self._current is not None and self._current != (period, phase):
            # The phase begins again: its maximum decays once for each period that has passed.
            self._maxima[:, phase] *= np.float32(1.0 - _FORGOTTEN)
        self._current = period, phase
        there = ~np.isnan(values)
        self._first_s[there & np.isnan(self._first_s)] = now_s
        self._maxima[:, phase] = np.fmax(self._maxima[:, phase], values.astype(np.float32))

    def clear(self, which: Booleans) -> None:
        """Forget the pattern of some series."""
        self._maxima[which] = 0.0
        self._first_s[which] = np.nan

    def copy(self, row: int, source: int) -> None:
        """Give a series the pattern of another one."""
        self._maxima[row] = self._maxima[source]
        self._first_s[row] = self._first_s[source]

    def peak(self, now_s: float, horizon_s: float) -> Floats:
        """The greatest maximum of the phases within the horizon; NaN for a series younger than one period."""
        step = self.period_s / self.phases
        number = min(int(np.ceil(horizon_s / step)) + 1, self.phases)
        phases = (self._phase(now_s) + np.arange(number)) % self.phases
        young = ~(now_s - self._first_s >= self.period_s)
        return np.where(young, np.nan, self._maxima[:, phases].max(axis=1))

    def _phase(self, now_s: float) -> int:
        return int(now_s % self.period_s * self.phases / self.period_s) % self.phases


def has_period(samples: Floats, period: int, shuffles: Integers) -> bool:
    """Whether a series repeats after `period` samples.

    `shuffles` are permutations of the samples' indexes, shape (n, samples); a hundred of them are usual. The samples
    must cover two periods.
    """
    if len(samples) < 2 * period or period < 2:
        return False
    centred = samples - samples.mean()
    if not np.any(centred):
        return False
    spectrum = np.abs(np.fft.rfft(centred))[1:]
    by_chance = np.abs(np.fft.rfft(centred[shuffles], axis=1))[:, 1:].max(axis=1)
    place = round(len(samples) / period) - 1
    if spectrum[max(place - 1, 0) : place + 2].max() <= np.percentile(by_chance, _SIGNIFICANT):
        return False
    return _hill(_autocorrelation(centred), period)


def _autocorrelation(centred: Floats) -> Floats:
    padded = np.fft.rfft(centred, 2 * len(centred))
    found = np.fft.irfft(padded * np.conj(padded))[: len(centred)]
    return np.asarray(found / found[0])


def _hill(correlation: Floats, period: int) -> bool:
    """Whether the autocorrelation rises before the period and falls after it."""
    half = max(period // 4, 1)
    before = correlation[period - half : period + 1]
    after = correlation[period : period + half + 1]
    if len(after) < 2:
        return False
    rising = np.polyfit(np.arange(len(before)), before, 1)[0]
    falling = np.polyfit(np.arange(len(after)), after, 1)[0]
    return bool(rising > 0 > falling)
