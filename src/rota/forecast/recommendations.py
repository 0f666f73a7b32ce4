"""Requests derived from histograms, by the formulas of VPA, Koordinator and Autopilot.

The percentiles are arguments here; `histograms` computes them. CPU is in cores, memory in bytes, or both in any unit.
"""

from dataclasses import dataclass

import numpy as np

from rota.forecast.arrays import Floats

#: VPA's percentiles of lower bound, target and upper bound, and the margin on all of them.
VPA_PERCENTILES = (0.5, 0.9, 0.95)
VPA_MARGIN = 1.15
VPA_HALF_LIFE_S = 86_400.0
#: VPA counts a sample of a CPU by the pod's request, at least this.
VPA_LEAST_WEIGHT = 0.1
#: What VPA assumes that a container needs that was killed for its memory.
_OOM_FACTOR, _OOM_BYTES = 1.2, 100 * 2.0**20

#: Koordinator: percentiles of CPU and memory, half-lives, margin, and the age below which a pod counts by its request.
KOORDINATOR_SHARES = {"cpu": 0.95, "memory": 0.98}
KOORDINATOR_HALF_LIFE_S = {"cpu": 43_200.0, "memory": 86_400.0}
KOORDINATOR_MARGIN = 1.10
KOORDINATOR_COLD_START_S = 86_400.0

#: Autopilot's moving window: half-lives, and the shares by kind of work.
AUTOPILOT_HALF_LIFE_S = {"cpu": 43_200.0, "memory": 172_800.0}
AUTOPILOT_SHARES = {"cpu": 0.95, "memory": 0.98}
AUTOPILOT_MARGIN = 1.10


@dataclass(frozen=True, slots=True)
class Range:
    """A recommended request, and the bounds within which a present request need not change."""

    lower: Floats
    target: Floats
    upper: Floats


def vpa_confidence(lifespan_s: Floats, samples: Floats) -> Floats:
    """The days that a history is worth: its age, or one day for each 1,440 samples, whichever is less."""
    return np.minimum(lifespan_s / 86_400.0, samples / 1_440.0)


def vpa_range(p50: Floats, p90: Floats, p95: Floats, confidence_days: Floats) -> Range:
    """VPA's recommendation; the bounds approach the percentiles as the history grows."""
    with np.errstate(divide="ignore"):
        upper = p95 * VPA_MARGIN * (1 + 1 / confidence_days)
        lower = p50 * VPA_MARGIN * (1 + 0.001 / confidence_days) ** -2.0
    return Range(lower, p90 * VPA_MARGIN, upper)


def vpa_after_oom(used_bytes: Floats) -> Floats:
    """The memory sample that VPA records for a container that was killed at this usage."""
    return np.maximum(used_bytes * _OOM_FACTOR, used_bytes + _OOM_BYTES)


def koordinator_peak(percentile: Floats, request: Floats, age_s: Floats) -> Floats:
    """Koordinator's peak of a pod; a pod that is younger than the cold start, or has no samples, counts by request."""
    cold = (age_s < KOORDINATOR_COLD_START_S) | np.isnan(percentile)
    return np.where(cold, request, percentile * KOORDINATOR_MARGIN)


def koordinator_reclaimable(requests: Floats, peaks: Floats, priority_estimate: float) -> float:
    """What pods of high priority requested and will not use.

    It is the sum over the pods, and at most the estimate over the whole priority level.
    """
    return float(min(np.maximum(requests - peaks, 0.0).sum(), max(priority_estimate, 0.0)))


def koordinator_batch(
    *, capacity: float, margin: float, system_used: float, system_reserved: float, high_priority_used: float
) -> float:
    """The allocatable batch resource of a node by the policy `usage`."""
    return max(0.0, capacity - margin - max(system_used, system_reserved) - high_priority_used)


def autopilot_limit(percentile: Floats, last_hour: Floats) -> Floats:
    """Autopilot's limit: the percentile with its margin, and at least every limit of the last hour.

    `last_hour` has one column for each earlier recommendation of the last hour; the maximum damps the changes.
    """
    current = percentile * AUTOPILOT_MARGIN
    return current if not last_hour.size else np.fmax(current, np.nanmax(last_hour, axis=1))
