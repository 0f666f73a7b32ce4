"""The score of a node for a workload that runs on spot machines: one number from 0 to 1.

A weighted sum of five measures, each from 0 (bad) to 1 (good): capacity type, risk, price, utilization, and distance
from the workload's other pods. Unknown values are neutral, so that a node does not win by missing information.
"""

from dataclasses import dataclass
from typing import Final

from rota.spot.node_readings import Capacity
from rota.spot.policies import Policy, SpotPreference

#: The value of an unknown measure.
NEUTRAL: Final = 0.5
#: The value of a recommendation to leave, if nothing worse is known.
RISKY: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weight of each measure."""

    capacity: float = 5.0
    risk: float = 2.0
    price: float = 1.5
    load: float = 1.0
    distance: float = 0.5

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return self.capacity + self.risk + self.price + self.load + self.distance


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is known of a node; None where it is unknown."""

    capacity: Capacity
    #: The probability that it is reclaimed soon.
    risk: float = 0.0
    #: Whether a signal says that it has an elevated risk.
    risky: bool = False
    #: Per hour, in the currency of all candidates.
    price: float | None = None
    #: The larger of CPU and memory utilization, by requests.
    load: float | None = None
    #: From 0, on a node with the workload's other pods, to 1, in another region.
    distance: float | None = None


USUAL: Final = Weights()


def score(candidate: Candidate, policy: Policy, *, highest_price: float | None, weights: Weights = USUAL) -> float:
    """The score of a candidate, if the most expensive one costs `highest_price`."""
    prefers = policy.preference is SpotPreference.PREFER
    capacity = float(candidate.capacity.leaves) if prefers else 1.0
    risk = max(candidate.risk, RISKY if candidate.risky else 0.0) if candidate.capacity.leaves else 0.0
    price = NEUTRAL
    if candidate.price is not None and highest_price:
        price = 1.0 - min(1.0, candidate.price / highest_price)
    measured = (
        weights.capacity * capacity
        + weights.risk * (1.0 - risk)
        + weights.price * price
        + weights.load * _good(candidate.load)
        + weights.distance * _good(candidate.distance)
    )
    return measured / weights.total


def _good(bad: float | None) -> float:
    return NEUTRAL if bad is None else 1.0 - min(1.0, max(0.0, bad))
