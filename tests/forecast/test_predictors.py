"""Windows, peaks, daily patterns, smoothing and drift."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rota.forecast.drift import PageHinkley
from rota.forecast.holt_winters import HoltWinters
from rota.forecast.peaks import Reserve, bounded, limit_norm, n_sigma, rc_like, with_reserve
from rota.forecast.records import Records
from rota.forecast.seasons import DAY_S, PhaseMaxima, has_period
from rota.forecast.windows import SampleWindows

USE = st.one_of(st.floats(0, 64, width=32), st.just(float("nan")))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(arrays.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 30)), elements=USE))
def test_a_window_has_the_moments_of_its_last_samples(values: np.ndarray) -> None:
    windows = SampleWindows(len(values), 7)
    for at in range(values.shape[1]):
        windows.add(values[:, at])
    for row, samples in enumerate(values[:, -7:]):
        known = samples[~np.isnan(samples)]
        assert windows.counts[row] == len(known)
        if len(known):
            assert windows.mean()[row] == pytest.approx(known.mean(), abs=1e-5)
            assert windows.deviation()[row] == pytest.approx(known.std(), abs=1e-3)
        else:
            assert np.isnan(windows.mean()[row])


def test_a_window_forgets_all_but_its_newest_samples() -> None:
    windows = SampleWindows(2, 4)
    for value in (1.0, 1.0, 1.0, 8.0, 9.0):
        windows.add(np.array([value, value]))
    windows.forget(np.array([True, False]), keep=2)
    assert windows.mean().tolist() == [8.5, 4.75]
    assert windows.samples(1).tolist() == [1.0, 1.0, 8.0, 9.0]


def test_peaks_by_hand() -> None:
    # Totals 2, 4, 4, 4, 5, 5, 7, 9: mean 5, deviation 2.
    assert n_sigma(np.array([5.0]), np.array([2.0]), sigmas=3.0)[0] == 11.0
    assert rc_like(np.array([[1.0, 2.5, np.nan]]))[0] == 3.5
    assert limit_norm(np.array([[3.0, 4.0, np.nan]]))[0] == 5.0
    found = with_reserve(
        np.array([5.0, 5.0]), np.array([2.0, 2.0]), np.array([4.0, 6.0]), np.array([5.0, 5.0]), Reserve(1.0, 0.5)
    )
    assert found.tolist() == [9.5, 10.5]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.floats(0, 100), st.floats(0, 100), st.floats(0, 100))
def test_a_bounded_peak_is_at_least_the_use_and_at_most_the_limit(peak: float, used: float, limit: float) -> None:
    found = float(bounded(peak, used, limit))
    assert found >= used
    assert found <= max(limit, used)


def test_a_daily_pattern_is_known_after_a_day() -> None:
    phases = PhaseMaxima(1, phases=24)
    for hour in range(24):
        assert np.isnan(phases.peak(hour * 3600.0, 3600.0)[0])
        phases.add(np.array([8.0 if hour == 9 else 1.0]), hour * 3600.0)
    at = DAY_S + 7.5 * 3600
    assert phases.peak(at, 1800.0)[0] == 1.0
    assert phases.peak(at, 7200.0)[0] == 8.0


def test_a_pattern_that_does_not_return_is_forgotten() -> None:
    phases = PhaseMaxima(1, phases=24)
    for day in range(30):
        for hour in range(24):
            phases.add(np.array([10.0 if day == 0 and hour == 9 else 1.0]), day * DAY_S + hour * 3600.0)
    assert phases.peak(30 * DAY_S + 8.5 * 3600, 3600.0)[0] == pytest.approx(1.0)


def shuffles(number: int) -> np.ndarray:
    rng = np.random.Generator(np.random.PCG64(1))
    return np.stack([rng.permutation(number) for _ in range(100)])


def test_a_period_is_found_in_a_wave_and_not_in_noise() -> None:
    rng = np.random.Generator(np.random.PCG64(2))
    time = np.arange(24 * 7)
    noise = rng.normal(0, 0.3, len(time))
    wave = 2 + np.sin(2 * np.pi * time / 24) + noise
    assert has_period(wave, 24, shuffles(len(time)))
    assert not has_period(wave, 17, shuffles(len(time)))
    assert not has_period(noise, 24, shuffles(len(time)))
    assert not has_period(np.ones(48), 24, shuffles(48))
    assert not has_period(wave[:40], 24, shuffles(40))


def test_holt_winters_by_hand() -> None:
    smoothed = HoltWinters(1, level=0.5, trend=0.5)
    for value in (10.0, 12.0):
        smoothed.add(np.array([value]))
    # Level 0.5 * 12 + 0.5 * 10 = 11, trend 0.5 * (11 - 10) = 0.5.
    assert smoothed.ahead(2)[0].tolist() == [11.5, 12.0]
    # The squared error of the second sample is 4, and a twentieth of it counts.
    assert smoothed.band(4, sigmas=1.0)[0].tolist() == pytest.approx(np.sqrt(0.2 * np.arange(1, 5)).tolist())


def test_holt_winters_learns_a_season_and_bridges_gaps() -> None:
    smoothed = HoltWinters(2, season=4, level=0.2, trend=0.0, seasonal=0.5)
    pattern = np.array([1.0, 5.0, 3.0, 7.0])
    for step in range(400):
        value = pattern[step % 4]
        smoothed.add(np.array([value, np.nan if step % 7 == 3 else value]))
    assert np.allclose(smoothed.ahead(4), pattern, atol=0.01)


def test_a_lasting_change_is_a_drift_and_a_single_peak_is_not() -> None:
    steady, jump, spike = (PageHinkley(1) for _ in range(3))
    found = {"steady": 0, "jump": 0, "spike": 0}
    for step in range(60):
        found["steady"] += int(steady.add(np.array([0.2 + 0.02 * (step % 2)]))[0])
        found["jump"] += int(jump.add(np.array([0.2 if step < 30 else 0.7]))[0])
        found["spike"] += int(spike.add(np.array([1.0 if step == 30 else 0.2]))[0])
    assert found == {"steady": 0, "jump": 1, "spike": 0}


def test_a_fall_is_a_drift_too_and_missing_samples_are_not() -> None:
    test = PageHinkley(2)
    found = np.zeros(2, dtype=int)
    for step in range(60):
        found += test.add(np.array([0.8 if step < 30 else 0.2, np.nan]))
    assert found.tolist() == [1, 0]


def test_a_forecast_is_judged_when_its_horizon_has_passed() -> None:
    records = Records(2, horizon_s=120.0)
    peaks, limits = np.array([4.0, 4.0]), np.array([8.0, 8.0])
    low = np.zeros(2, dtype=bool)
    for at, used in ((0.0, [1.0, 1.0]), (60.0, [5.0, 2.0]), (120.0, [1.0, 3.0])):
        low = records.add(np.array(used), peaks, limits, at)
    assert low.tolist() == [True, False]
    first, second = records.of(0), records.of(1)
    assert (first.forecasts, first.violations, first.savings) == (1, 1, 0.5)
    assert first.severity == pytest.approx(0.2)
    assert (second.violations, second.violation_rate, second.savings) == (0, 0.0, 0.5)
    assert records.total().violation_rate == 0.5
