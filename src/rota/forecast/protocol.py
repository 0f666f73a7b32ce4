"""The evaluation of peak predictors on recorded usage, as in "Take it to the limit" (EuroSys 2021).

Recorded pods are put on machines. At each sample after the warm-up, a predictor sees the history of a machine and its
pods, and predicts the peak of the machine's total within the horizon. Against the true peak it is judged by

- the violation rate: the part of the predictions that were below the true peak;
- the severity: the mean part of the true peak that was missing, over the violations;
- the savings: one minus the predicted peak over the sum of limits, the mean over all predictions.

The parameters of the reserve predictor are chosen on training data only. `choose` looks for the greatest savings at
the violation rate of the reference. Rare peaks of other data are higher than those seen, so it requires that rate on
training peaks that were raised by a tenth. `choose_by_savings` looks for the fewest violations at the savings of the
reference.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from rota.forecast import recommendations
from rota.forecast.arrays import Floats
from rota.forecast.histograms import SHARES, DecayingHistograms
from rota.forecast.holt_winters import HoltWinters
from rota.forecast.peaks import PERCENTILE, Reserve, bounded, limit_norm, n_sigma, rc_like, with_reserve
from rota.forecast.records import Record

#: How much higher the training peaks are taken when the parameters are chosen.
RAISED = 1.1
SIGMAS = tuple(step / 2 for step in range(13))
BURSTS = tuple(step / 20 for step in range(21))
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The times of the protocol, in samples."""

    warm_up: int
    history: int
    horizon: int


@dataclass(frozen=True, slots=True)
class Observations:
    """What predictors see, and the true peaks; arrays of shape (machines, predictions)."""

    used: Floats
    mean: Floats
    deviation: Floats
    #: RC-like's sum of percentiles.
    rc: Floats
    #: The sum of limits and the root of the sum of squared limits; shape (machines, 1).
    limit: Floats
    norm: Floats
    true_peak: Floats


def observe(usage: Floats, limits: Floats, times: Times) -> Observations:
    """Compute what predictors see of recorded usage: shape (machines, pods, samples), without gaps."""
    total = usage.sum(axis=1)
    samples = total.shape[1]
    if samples <= times.warm_up + times.horizon:
        raise ValueError("the recording is shorter than warm-up and horizon")
    moments = range(times.warm_up, samples - times.horizon)
    windows = [slice(max(0, at - times.history + 1), at + 1) for at in moments]
    ahead = sliding_window_view(total, times.horizon + 1, axis=1).max(axis=-1)
    return Observations(
        used=total[:, moments.start : moments.stop],
        mean=np.stack([total[:, each].mean(axis=1) for each in windows], axis=1),
        deviation=np.stack([total[:, each].std(axis=1) for each in windows], axis=1),
        rc=np.stack([rc_like(_percentile(usage[:, :, each])) for each in windows], axis=1),
        limit=limits.sum(axis=1, keepdims=True),
        norm=limit_norm(limits)[:, None],
        true_peak=ahead[:, moments.start : moments.stop],
    )


def judge(peak: Floats, seen: Observations, *, raised: float = 1.0) -> Record:
    """The record of predicted peaks; `raised` multiplies the true peaks."""
    predicted = bounded(peak, seen.used, seen.limit)
    true_peak = np.minimum(seen.true_peak * raised, seen.limit)
    low = predicted < true_peak - _TOLERANCE
    violations = int(np.count_nonzero(low))
    missing = np.where(low, 1 - predicted / np.maximum(true_peak, _TOLERANCE), 0.0)
    return Record(
        low.size,
        violations,
        float(missing.sum() / violations) if violations else 0.0,
        float((1 - predicted / seen.limit).mean()),
    )


def reference(seen: Observations) -> Floats:
    """The published predictor: the greater of N-sigma and RC-like."""
    return np.maximum(n_sigma(seen.mean, seen.deviation), seen.rc)


def reserved(seen: Observations, parameters: Reserve) -> Floats:
    """The reserve predictor."""
    return with_reserve(seen.mean, seen.deviation, seen.used, seen.norm, parameters)


def choose(training: Observations) -> Reserve:
    """The parameters that save most in training, with no more violations at raised peaks than the reference."""
    allowed = judge(reference(training), training).violation_rate
    best, most = Reserve(SIGMAS[-1], BURSTS[-1]), -np.inf
    for bursts in BURSTS:
        for sigmas in SIGMAS:
            candidate = Reserve(sigmas, bursts)
            peak = reserved(training, candidate)
            if judge(peak, training, raised=RAISED).violation_rate <= allowed:
                # More deviations only save less.
                if (savings := judge(peak, training).savings) > most:
                    best, most = candidate, savings
                break
    return best


def choose_by_savings(training: Observations) -> Reserve:
    """The parameters with the fewest violations in training that save at least as much as the reference."""
    least = judge(reference(training), training).savings
    best, fewest = Reserve(0.0, 0.0), (np.inf, np.inf)
    for bursts in BURSTS:
        for sigmas in SIGMAS:
            candidate = Reserve(sigmas, bursts)
            record = judge(reserved(training, candidate), training)
            if record.savings < least:
                break
            if (found := (record.violations, -record.savings)) < fewest:
                best, fewest = candidate, found
    return best


def by_histograms(usage: Floats, limits: Floats, times: Times, *, interval_s: float) -> dict[str, Floats]:
    """The sums of what VPA, Koordinator and Autopilot would give the pods, by name."""
    machines, pods, samples = usage.shape
    day = DecayingHistograms(machines * pods, SHARES, half_life_s=recommendations.VPA_HALF_LIFE_S)
    half = DecayingHistograms(machines * pods, SHARES, half_life_s=recommendations.AUTOPILOT_HALF_LIFE_S["cpu"])
    found: dict[str, list[Floats]] = {"VPA": [], "Koordinator": [], "Autopilot": []}
    hour: list[Floats] = []
    for at in range(samples - times.horizon):
        shares = (usage[:, :, at] / limits).ravel()
        day.add(shares, at * interval_s)
        half.add(shares, at * interval_s)
        if at < times.warm_up:
            continue
        p95 = half.percentile(recommendations.KOORDINATOR_SHARES["cpu"])
        before = np.stack(hour, axis=1) if hour else np.empty((len(p95), 0))
        given = {
            "VPA": day.percentile(recommendations.VPA_PERCENTILES[1]) * recommendations.VPA_MARGIN,
            "Koordinator": p95 * recommendations.KOORDINATOR_MARGIN,
            "Autopilot": recommendations.autopilot_limit(p95, before),
        }
        hour = [*hour, given["Koordinator"]][-int(3600 / interval_s) :]
        for name, each in given.items():
            found[name].append((np.minimum(each.reshape(machines, pods), 1.0) * limits).sum(axis=1))
    return {name: np.stack(each, axis=1) for name, each in found.items()}


def by_holt_winters(usage: Floats, times: Times) -> Floats:
    """The greatest upper bound of Holt-Winters' band within the horizon, without a season."""
    total = usage.sum(axis=1)
    smoothed = HoltWinters(len(total), level=0.1, trend=0.0)
    found = []
    for at in range(total.shape[1] - times.horizon):
        smoothed.add(total[:, at])
        if at >= times.warm_up:
            found.append((smoothed.ahead(times.horizon) + smoothed.band(times.horizon)).max(axis=1))
    return np.stack(found, axis=1)


def _percentile(samples: Floats) -> Floats:
    """The published percentile over the last axis, interpolated linearly; two partitions are cheaper than a sort."""
    place = (samples.shape[-1] - 1) * PERCENTILE / 100
    below = int(place)
    above = min(below + 1, samples.shape[-1] - 1)
    parted = np.partition(samples, (below, above), axis=-1)
    return np.asarray(parted[..., below] + (parted[..., above] - parted[..., below]) * (place - below))
