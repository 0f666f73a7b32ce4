"""How good a node is for a workload that lives with spot machines: one number from 0 to 1.

Five measures, each from 0 (bad) to 1 (good), and weights between them: what the machine is, how sure it is, what it
costs, how full it is, how far it is from the workload's others. What is not known is neutral, never best nor worst:
a node must not win by hiding something.
"""

from dataclasses import dataclass
from typing import Final

from rota.spot.node_readings import Capacity
from rota.spot.policies import Policy, SpotPreference

#: What is not known.
NEUTRAL: Final = 0.5
#: What a recommendation to leave is worth, where nothing worse is known.
RISKY: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much each measure counts."""

    capacity: float = 5.0
    risk: float = 2.0
    price: float = 1.5
    load: float = 1.0
    distance: float = 0.5

    @property
    def total(self) -> float:
        """Of all of them."""
        return self.capacity + self.risk + self.price + self.load + self.distance


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is known of a node; None where it is not."""

    capacity: Capacity
    #: The probability that it goes soon.
    risk: float = 0.0
    #: Whether a mark says that it is less sure than others of its pool.
    risky: bool = False
    #: Per hour, in whatever money all candidates' prices are.
    price: float | None = None
    #: The fuller of processor and memory, by requests.
    load: float | None = None
    #: From 0, the workload's other pods run there, to 1, another region.
    distance: float | None = None


USUAL: Final = Weights()


def score(candidate: Candidate, policy: Policy, *, highest_price: float | None, weights: Weights = USUAL) -> float:
    """How good a candidate is, where the dearest one costs `highest_price`."""
    prefers = policy.wish is SpotPreference.PREFER
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
