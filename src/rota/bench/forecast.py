"""Benchmark of forecasts: peak predictors on recorded usage, and the cost of an update of a large cluster.

The recordings are named by `--data`: PlanetLab's CPU use (`planetlab/cpu.csv.xz`), and the memory and GPU use of pods
(`usage/pod_memory_utilisation.csv.xz`, `usage/pod_gpu_duty_cycle.csv.xz`). The recordings cover one day, so the
horizon is shorter than the published 24 hours; warm-up (2 h) and history (10 h) are the published ones. Half of the
data chooses the parameters of our predictor; the results are those of the other half. The seasonal predictor needs
several days and is not among them.
"""

import csv
import lzma
import time
from pathlib import Path

import numpy as np

from rota.bench.report import Result, duration, median, rate
from rota.forecast import protocol
from rota.forecast.arrays import Floats
from rota.forecast.fleet import Fleet
from rota.forecast.peaks import n_sigma
from rota.forecast.protocol import Times
from rota.forecast.records import Record
from rota.kit.errors import UserError

REFERENCE = "max(N-sigma, RC-like)"
NODES, PODS_OF_NODE = 5_000, 30
LIMIT_MS, LIMIT_BYTES = 200.0, 2_048.0
_PODS_OF_MACHINE = {"cpu": 30, "memory": 8, "gpu": 8}
_INTERVAL_S = 300.0
_HORIZONS_H = (1, 6)
#: A pod whose recording lacks more than this part is left out; shorter gaps keep the last value.
_MOST_MISSING = 0.1
_SAMPLES_OF_INTERVAL = 5


def measure(*, store_url: str = "", quick: bool = False, data: Path | None = None) -> list[Result]:
    """Measure forecasts; uses no store. Without `data`, only the cost of an update is measured."""
    results = _cost(quick=quick)
    if data is not None:
        for resource, halves in _recordings(data).items():
            for hours in _HORIZONS_H[:1] if quick else _HORIZONS_H:
                results += _compared(resource, hours, *halves)
    return results


def _compared(resource: str, hours: int, training: Floats, test: Floats) -> list[Result]:
    times = Times(warm_up=24, history=120, horizon=int(hours * 3600 / _INTERVAL_S))
    limits = np.ones(test.shape[:2])
    known = protocol.observe(training, np.ones(training.shape[:2]), times)
    chosen, saving = protocol.choose(known), protocol.choose_by_savings(known)
    seen = protocol.observe(test, limits, times)
    base = protocol.judge(protocol.reference(seen), seen)
    peaks = {
        "0.9 of limits": np.broadcast_to(0.9 * seen.limit, seen.used.shape),
        "N-sigma": n_sigma(seen.mean, seen.deviation),
        "RC-like": seen.rc,
        REFERENCE: protocol.reference(seen),
        **protocol.by_histograms(test, limits, times, interval_s=_INTERVAL_S),
        "Holt-Winters": protocol.by_holt_winters(test, times),
        f"reserve({chosen.sigmas:g}, {chosen.bursts:g})": protocol.reserved(seen, chosen),
        f"reserve({saving.sigmas:g}, {saving.bursts:g}), by savings": protocol.reserved(seen, saving),
        "oracle": seen.true_peak,
    }
    found: list[Result] = []
    for name, peak in peaks.items():
        found += _figures(f"{resource}, {hours} h, {name}", protocol.judge(peak, seen), base)
    return found


def _figures(name: str, record: Record, base: Record) -> list[Result]:
    return [
        Result(name=f"{name}: violations", value=100 * record.violation_rate, unit="%"),
        Result(name=f"{name}: severity", value=100 * record.severity, unit="%"),
        rate(f"{name}: savings", 100 * record.savings, 100 * base.savings, against=REFERENCE, unit="%"),
    ]


def _recordings(data: Path) -> dict[str, tuple[Floats, Floats]]:
    """The training and the test half by resource; shape (machines, pods, samples), as shares of limits."""
    names = {
        "cpu": data / "planetlab" / "cpu.csv.xz",
        "memory": data / "usage" / "pod_memory_utilisation.csv.xz",
        "gpu": data / "usage" / "pod_gpu_duty_cycle.csv.xz",
    }
    for path in names.values():
        if not path.is_file():
            raise UserError(f"{path} is missing; name the folder with the recordings by --data")
    days = planetlab_days(names["cpu"])
    half = len(days) // 2
    size = _PODS_OF_MACHINE
    return {
        "cpu": (
            np.concatenate([_machines(day, size["cpu"]) for day in days[:half]]),
            np.concatenate([_machines(day, size["cpu"]) for day in days[half:]]),
        ),
        "memory": _halves(_pods(names["memory"], 1.0), size["memory"]),
        "gpu": _halves(_pods(names["gpu"], 100.0), size["gpu"]),
    }


def _halves(pods: Floats, size: int) -> tuple[Floats, Floats]:
    half = len(pods) // 2
    return _machines(pods[:half], size), _machines(pods[half:], size)


def _machines(pods: Floats, size: int) -> Floats:
    """Pods on machines in the order of the recording; the last, incomplete machine is left out."""
    number = len(pods) // size
    return pods[: number * size].reshape(number, size, -1)


def planetlab_days(path: Path) -> list[Floats]:
    """The machine days of each day, oldest first, as shares."""
    if not path.is_file():
        raise UserError(f"{path} is missing; name the folder with the recordings by --data")
    found: dict[str, list[list[float]]] = {}
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for day, _, *samples in csv.reader(lines):
            found.setdefault(day, []).append([float(each) / 100 for each in samples])
    return [np.array(found[day]) for day in sorted(found)]


def _pods(path: Path, scale: float) -> Floats:
    """Pods with few gaps, as the maxima of intervals of five samples, which are 285 seconds."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = csv.reader(lines)
        next(rows)
        values = np.array([[float(each) if each else np.nan for each in row[1:]] for row in rows]) / scale
    values = values[np.isnan(values).mean(axis=1) < _MOST_MISSING]
    for at in range(1, values.shape[1]):
        values[:, at] = np.where(np.isnan(values[:, at]), values[:, at - 1], values[:, at])
    values = np.nan_to_num(values)
    number = values.shape[1] // _SAMPLES_OF_INTERVAL
    parts = values[:, : number * _SAMPLES_OF_INTERVAL].reshape(len(values), number, _SAMPLES_OF_INTERVAL)
    return np.asarray(parts.max(axis=2))


def _cost(*, quick: bool) -> list[Result]:
    """The processor time of one minute's update of all pods and nodes, and the bytes of a series."""
    nodes = NODES // 10 if quick else NODES
    fleets = [Fleet(nodes * PODS_OF_NODE), Fleet(nodes)]
    rng = np.random.Generator(np.random.PCG64(7))
    for fleet, size in zip(fleets, (1, PODS_OF_NODE), strict=True):
        fleet.limits[:] = size
        fleet.limit_norms[:] = np.sqrt(size)
        fleet.requests[:] = size / 2
    taken = []
    for minute in range(10 if quick else 30):
        used = rng.random((nodes, PODS_OF_NODE))
        began = time.process_time()
        fleets[0].add(used.ravel(), minute * 60.0)
        fleets[1].add(used.sum(axis=1), minute * 60.0)
        taken.append((time.process_time() - began) * 1000)
    name = f"update of {nodes:,} nodes x {PODS_OF_NODE} pods"
    limit = LIMIT_MS * nodes / NODES
    size_bytes = fleets[0].nbytes / (nodes * PODS_OF_NODE)
    return [
        duration(name, median(taken), limit, against=f"{limit:.0f} ms", unit="ms"),
        duration(f"{name}, slowest", max(taken), limit, against=f"{limit:.0f} ms", unit="ms"),
        duration("state of a series", size_bytes, LIMIT_BYTES, against="2 KiB", unit="B"),
    ]
