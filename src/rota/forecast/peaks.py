"""The peak of a machine: the greatest total use of its pods within a horizon.

N-sigma and RC-like are the predictors of "Take it to the limit" (EuroSys 2021), which takes the greater of both.
N-sigma assumes that totals are normal; RC-like adds up percentiles, as if all pods peaked together. The reserve
predictor is ours: N-sigma with a small N for what was seen, and a reserve for bursts that were not. If each pod may
burst towards its limit independently of the others, the deviation of their sum grows with the root of the sum of
squared limits, and so does the reserve. It starts from the mean or the present use, whichever is greater, so that a
rise counts at once.

All predictors return at most the sum of limits, and at least the present use.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rota.forecast.arrays import Floats

#: The published parameters.
SIGMAS = 5.0
PERCENTILE = 99.0


@dataclass(frozen=True, slots=True)
class Reserve:
    """The parameters of the reserve predictor."""

    #: Standard deviations above the mean.
    sigmas: float = 1.0
    #: The reserve as a part of the root of the sum of squared limits.
    bursts: float = 0.5


#: What `rota bench forecast` chose for CPU and one hour, on the training half of its data.
DEFAULT_RESERVE = Reserve()
#: By resource. Pods do not give back memory, and their peaks are close to their mean.
RESERVES = {"cpu": DEFAULT_RESERVE, "memory": Reserve(1.5, 0.2)}


def bounded(peak: ArrayLike, used: ArrayLike, limit: ArrayLike) -> Floats:
    """Bound a peak by the sum of limits from above and by the present use from below; the present use wins."""
    return np.maximum(np.minimum(peak, limit), used)


def n_sigma(mean: Floats, deviation: Floats, *, sigmas: float = SIGMAS) -> Floats:
    """The mean and N standard deviations of a machine's total."""
    return np.asarray(mean + sigmas * deviation)


def rc_like(percentiles: Floats) -> Floats:
    """The sum of the pods' percentiles; shape (machines, pods), NaN for a place without a pod."""
    return np.asarray(np.nansum(percentiles, axis=-1))


def with_reserve(
    mean: Floats, deviation: Floats, used: Floats, norm: Floats, parameters: Reserve = DEFAULT_RESERVE
) -> Floats:
    """The reserve predictor; `norm` is the root of the sum of the pods' squared limits."""
    return np.asarray(np.fmax(mean, used) + parameters.sigmas * deviation + parameters.bursts * norm)


def limit_norm(limits: Floats) -> Floats:
    """The root of the sum of squared limits; shape (machines, pods), NaN for a place without a pod."""
    return np.asarray(np.sqrt(np.nansum(limits * limits, axis=-1)))
