"""The forecasts of many series: fallbacks to requests, laws, and the published evaluation."""

import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rota.bench import forecast as bench
from rota.forecast import protocol
from rota.forecast.fleet import Basis, Fleet, FleetSettings
from rota.forecast.peaks import Reserve
from rota.forecast.protocol import Times
from rota.kit.errors import UserError

SETTINGS = FleetSettings(interval_s=60.0, history_s=1200.0, warm_up_s=300.0, horizon_s=120.0, stale_s=180.0)


def fleet(series: int, *, request: float = 2.0, limit: float = 4.0) -> Fleet:
    made = Fleet(series, SETTINGS)
    made.requests[:] = request
    made.limits[:] = limit
    made.limit_norms[:] = limit
    return made


def test_a_young_series_counts_by_its_request() -> None:
    made = fleet(1)
    for minute in range(5):
        made.add(np.array([0.5]), minute * 60.0)
        assert made.forecast(minute * 60.0).basis[0] == Basis.COLD
        assert made.forecast(minute * 60.0).peak[0] == 2.0
    for minute in range(5, 8):
        made.add(np.array([0.5]), minute * 60.0)
    found = made.forecast(420.0)
    assert found.basis[0] == Basis.MEASURED
    assert found.peak[0] == pytest.approx(0.5 + 0.5 * 4.0)


def test_a_stale_series_counts_by_its_request() -> None:
    made = fleet(2)
    for minute in range(20):
        made.add(np.array([0.5, 0.5 if minute < 10 else np.nan]), minute * 60.0)
    found = made.forecast(19 * 60.0)
    assert found.basis.tolist() == [Basis.MEASURED, Basis.STALE]
    assert found.peak[1] == 2.0
    assert np.isnan(found.used[1])


def test_a_series_without_request_and_metrics_counts_by_its_limit() -> None:
    assert fleet(1, request=0.0).forecast(0.0).peak[0] == 4.0


def test_a_change_of_level_shortens_the_window() -> None:
    made = fleet(1, limit=1.0)
    for minute in range(60):
        made.add(np.array([0.9 if minute < 30 else 0.1]), minute * 60.0)
    assert np.nanmax(made.history(0)) < 0.2


def test_a_new_replica_starts_with_the_history_of_its_workload() -> None:
    made = fleet(2)
    for minute in range(20):
        made.add(np.array([1.0, np.nan]), minute * 60.0)
    made.seed(1, 0)
    made.add(np.array([1.0, 0.2]), 1200.0)
    found = made.forecast(1200.0)
    assert found.basis[1] == Basis.MEASURED
    assert found.peak[1] == pytest.approx(1.0 + 0.5 * 4.0)
    made.clear(np.array([False, True]))
    assert made.forecast(1200.0).basis[1] == Basis.STALE


#: Amounts below a thousandth of a core do not occur.
AMOUNT = st.one_of(st.just(0.0), st.floats(0.001, 8))
USE = st.one_of(st.floats(0, 10, width=32), st.just(float("nan")))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    arrays.arrays(np.float64, st.tuples(st.just(3), st.integers(1, 24)), elements=USE),
    AMOUNT,
    AMOUNT,
)
def test_a_forecast_is_never_below_what_is_used_now(values: np.ndarray, request_size: float, limit: float) -> None:
    made = fleet(3, request=request_size, limit=limit)
    for minute in range(values.shape[1]):
        made.add(values[:, minute], minute * 60.0)
        found = made.forecast(minute * 60.0)
        there = ~np.isnan(values[:, minute])
        assert (found.peak[there] >= values[there, minute]).all()
        assert not np.isnan(found.peak).any()
        by_request = found.basis != Basis.MEASURED
        assert (found.peak[by_request] >= request_size).all()


def test_the_record_of_a_fleet_counts_what_it_missed() -> None:
    made = fleet(1, limit=4.0)
    made.limit_norms[:] = 0.0
    for minute in range(60):
        made.add(np.array([3.0 if minute == 40 else 0.5]), minute * 60.0)
    record = made.records.of(0)
    assert record.violations == 1
    assert record.forecasts > 15
    assert record.severity == pytest.approx(2.5 / 3.0)


def test_a_series_takes_less_than_two_kibibytes() -> None:
    assert Fleet(1000).nbytes / 1000 < 2048


# --- the published evaluation ---------------------------------------------------------------------------------------


def wave(machines: int, pods: int, samples: int, seed: int) -> np.ndarray:
    rng = np.random.Generator(np.random.PCG64(seed))
    return np.clip(rng.beta(1, 6, (machines, pods, samples)), 0, 1)


def test_the_oracle_has_no_violations_and_saves_most() -> None:
    usage = wave(3, 5, 60, 1)
    seen = protocol.observe(usage, np.ones((3, 5)), Times(warm_up=10, history=20, horizon=6))
    assert seen.true_peak.shape == (3, 60 - 6 - 10)
    oracle = protocol.judge(seen.true_peak, seen)
    assert oracle.violations == 0
    for peak in (protocol.reference(seen), protocol.reserved(seen, Reserve(1.0, 0.3)), seen.mean):
        record = protocol.judge(peak, seen)
        assert record.savings <= oracle.savings or record.violations > 0
    assert protocol.judge(seen.mean, seen).violation_rate > 0.5


def test_the_protocol_by_hand() -> None:
    usage = np.array([[[1.0, 2.0, 3.0, 2.0, 4.0, 1.0]]]) / 8
    seen = protocol.observe(usage * 8, np.full((1, 1), 8.0), Times(warm_up=1, history=2, horizon=2))
    assert seen.true_peak[0].tolist() == [3.0, 4.0, 4.0]
    assert seen.mean[0].tolist() == [1.5, 2.5, 2.5]
    record = protocol.judge(np.array([[3.0, 3.0, 5.0]]), seen)
    assert (record.forecasts, record.violations, record.severity) == (3, 1, 0.25)
    assert record.savings == pytest.approx(1 - 11 / 24)


def test_the_percentile_is_numpys() -> None:
    usage = wave(2, 3, 40, 4)
    times = Times(warm_up=20, history=20, horizon=5)
    seen = protocol.observe(usage, np.ones((2, 3)), times)
    exact = np.percentile(usage[:, :, 1:21], 99, axis=2).sum(axis=1)
    assert np.allclose(seen.rc[:, 0], exact)


def test_parameters_are_chosen_by_the_training_half() -> None:
    times = Times(warm_up=24, history=60, horizon=12)
    training = protocol.observe(wave(20, 10, 150, 5), np.ones((20, 10)), times)
    chosen = protocol.choose(training)
    allowed = protocol.judge(protocol.reference(training), training).violation_rate
    peak = protocol.reserved(training, chosen)
    assert protocol.judge(peak, training, raised=protocol.RAISED).violation_rate <= allowed
    assert protocol.judge(peak, training).savings > protocol.judge(protocol.reference(training), training).savings
    saving = protocol.judge(protocol.reserved(training, protocol.choose_by_savings(training)), training)
    assert saving.savings >= protocol.judge(protocol.reference(training), training).savings


def recordings(folder: Path) -> Path:
    """A small folder in the layout of the recordings."""
    (folder / "planetlab").mkdir()
    (folder / "usage").mkdir()
    with lzma.open(folder / "planetlab" / "cpu.csv.xz", "wt") as file:
        for day in (20110303, 20110306):
            for number, row in enumerate(wave(1, 60, 288, day)[0]):
                file.write(f"{day},vm{number}," + ",".join(str(int(100 * each)) for each in row) + "\n")
    for name, scale in (("pod_memory_utilisation", 1), ("pod_gpu_duty_cycle", 100)):
        with lzma.open(folder / "usage" / f"{name}.csv.xz", "wt") as file:
            file.write("pod," + ",".join(str(57 * step) for step in range(1440)) + "\n")
            for number, row in enumerate(wave(1, 16, 1440, scale)[0] * scale):
                file.write(f"pod-{number}," + ",".join("" if at == 7 else f"{each:.4g}" for at, each in enumerate(row)))
                file.write("\n")
    return folder


def test_the_benchmark_reads_recordings(tmp_path: Path) -> None:
    results = {each.name: each for each in bench.measure(quick=True, data=recordings(tmp_path))}
    for resource in ("cpu", "memory", "gpu"):
        assert results[f"{resource}, 1 h, oracle: violations"].value == 0
        assert results[f"{resource}, 1 h, {bench.REFERENCE}: savings"].ratio == 1
    assert results["state of a series"].value < 2048


def test_missing_recordings_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cpu\.csv\.xz is missing; name the folder"):
        bench.measure(quick=True, data=tmp_path)
