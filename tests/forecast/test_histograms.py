"""Decaying histograms and recommendations, against values worked out by hand from the published formulas."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rota.forecast import recommendations as recommend
from rota.forecast.histograms import DAY_S, SHARES, VPA_CPU, VPA_MEMORY, Buckets, DecayingHistograms


def test_buckets_grow_by_their_factor() -> None:
    buckets = Buckets(first=1.0, growth=2.0, count=5)
    assert buckets.starts.tolist() == [0.0, 1.0, 3.0, 7.0, 15.0]
    assert buckets.index(np.array([0.0, 0.99, 1.0, 2.9, 3.0, 14.0, 900.0])).tolist() == [0, 0, 1, 1, 2, 3, 4]


def test_vpa_has_its_own_numbers_of_buckets() -> None:
    # ceil(log(1000 * 0.05 / 0.01 + 1) / log 1.05) + 1 and ceil(log(1e12 * 0.05 / 1e7 + 1) / log 1.05) + 1.
    assert VPA_CPU.count == 176
    assert VPA_MEMORY.count == 176
    assert VPA_CPU.starts[1:4] == pytest.approx([0.01, 0.0205, 0.031525])


def test_a_percentile_is_the_upper_bound_of_its_bucket() -> None:
    found = DecayingHistograms(1, Buckets(1.0, 2.0, 5), half_life_s=DAY_S)
    for value in [0.5] * 5 + [2.0] * 4 + [6.0]:
        found.add(np.array([value]), 0.0)
    assert [found.percentile(share)[0] for share in (0.5, 0.51, 0.9, 0.91)] == [1.0, 3.0, 3.0, 7.0]


def test_the_weight_of_a_sample_halves_with_its_half_life() -> None:
    found = DecayingHistograms(1, Buckets(1.0, 2.0, 5), half_life_s=100.0)
    found.add(np.array([0.5]), 0.0, weights=2.0)
    found.add(np.array([2.0]), 100.0)
    # One half-life later the weights are equal: the half is reached in the first bucket, and not a bit more.
    assert found.percentile(0.5)[0] == 1.0
    assert found.percentile(0.5 + 1e-4)[0] == 3.0


def test_moving_the_reference_changes_no_percentile() -> None:
    near, far = (DecayingHistograms(1, VPA_CPU, half_life_s=60.0) for _ in range(2))
    for at, value in enumerate([0.1, 0.4, 0.2, 0.9]):
        near.add(np.array([value]), at * 60.0)
        far.add(np.array([value]), 1e6 + at * 60.0)
    for share in (0.1, 0.5, 0.9):
        assert near.percentile(share)[0] == far.percentile(share)[0]


def test_a_series_without_samples_has_no_percentile() -> None:
    found = DecayingHistograms(2, VPA_CPU, half_life_s=DAY_S)
    found.add(np.array([np.nan, 0.3]), 0.0)
    assert np.isnan(found.percentile(0.9)).tolist() == [True, False]
    found.clear(np.array([1]))
    assert np.isnan(found.percentile(0.9)).all()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(arrays.arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 1.4)))
def test_a_percentile_is_within_one_bucket_of_the_exact_one(values: np.ndarray) -> None:
    found = DecayingHistograms(1, SHARES, half_life_s=DAY_S)
    for value in values:
        found.add(np.array([value]), 0.0)
    exact = np.sort(values)[int(np.ceil(0.9 * len(values) - 1e-9)) - 1]
    bucket = SHARES.index(np.array([exact]))[0]
    assert found.percentile(0.9)[0] == SHARES.upper(np.array([bucket]))[0]


def test_vpa_widens_its_bounds_for_a_short_history() -> None:
    one = np.array([1.0])
    half_a_day = recommend.vpa_confidence(np.array([43_200.0]), np.array([10_000.0]))
    found = recommend.vpa_range(one, 2 * one, 4 * one, half_a_day)
    assert half_a_day[0] == 0.5
    assert found.target[0] == pytest.approx(2.3)
    assert found.upper[0] == pytest.approx(4 * 1.15 * 3)  # 1 + 1 / 0.5
    assert found.lower[0] == pytest.approx(1.15 / 1.002**2)  # 1 + 0.001 / 0.5
    assert recommend.vpa_range(one, one, one, np.array([0.0])).upper[0] == np.inf


def test_vpa_counts_samples_where_they_are_fewer_than_minutes() -> None:
    assert recommend.vpa_confidence(np.array([10 * DAY_S]), np.array([1_440.0]))[0] == 1.0


def test_vpa_raises_the_memory_of_a_killed_container() -> None:
    mebibyte = 2.0**20
    found = recommend.vpa_after_oom(np.array([100 * mebibyte, 1000 * mebibyte]))
    assert (found / mebibyte).tolist() == pytest.approx([200.0, 1200.0])


def test_koordinator_counts_a_young_pod_by_its_request() -> None:
    found = recommend.koordinator_peak(
        np.array([0.5, 0.5, np.nan]), np.array([2.0, 2.0, 2.0]), np.array([86_399.0, 86_400.0, 90_000.0])
    )
    assert found.tolist() == pytest.approx([2.0, 0.55, 2.0])


def test_koordinator_reclaims_no_more_than_the_priority_level_leaves() -> None:
    requests, peaks = np.array([4.0, 2.0, 1.0]), np.array([1.0, 3.0, 0.5])
    assert recommend.koordinator_reclaimable(requests, peaks, 10.0) == 3.5
    assert recommend.koordinator_reclaimable(requests, peaks, 2.0) == 2.0
    assert recommend.koordinator_reclaimable(requests, peaks, -1.0) == 0.0


def test_koordinator_sells_what_capacity_margin_system_and_pods_leave() -> None:
    sold = recommend.koordinator_batch
    assert sold(capacity=16, margin=4, system_used=1, system_reserved=2, high_priority_used=5) == 5
    assert sold(capacity=16, margin=4, system_used=3, system_reserved=2, high_priority_used=20) == 0


def test_autopilot_keeps_the_greatest_limit_of_the_last_hour() -> None:
    limits = recommend.autopilot_limit(np.array([1.0, 2.0]), np.array([[1.5, 1.2], [0.5, np.nan]]))
    assert limits.tolist() == pytest.approx([1.5, 2.2])
    assert recommend.autopilot_limit(np.array([1.0]), np.empty((1, 0))).tolist() == pytest.approx([1.1])
