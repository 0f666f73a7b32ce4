"""Objectives: costs of a placement in absolute units, and the ways to combine several of them into one order of nodes.

An objective is a score plugin whose raw score is a cost (watts, currency per hour, probability) with fixed bounds. The
bounds do not depend on the candidates, so a further node changes the order of no other two. Without a combiner, an
objective's score from 0 to 100 is weighted and added like any other.

A combiner orders nodes by the costs of several objectives. Costs are normalised by their bounds to 0 (best) to 1. It
returns one number per node, the smaller the better; the sum of the other plugins' scores breaks ties.

- weighted sum;
- epsilon constraint: costs have limits; among the nodes within all limits, the weighted sum of the others decides;
- lexicographic: one objective after the other, each keeping the nodes within a tolerance of the best;
- Chebyshev: the greatest weighted cost decides, which also reaches the concave parts of a front;
- Pareto knee: of the nodes that no other dominates, the one farthest from the plane through the extremes of the front.

The lexicographic order and the knee depend on the set of candidates; the others do not.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, IntArray, Rows
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE
from rota.scheduler.framework.state import CycleState

#: A share of the weighted sum in Chebyshev's order, so that a dominated node never equals the one that dominates it.
_AUGMENTATION = 1e-3
#: Costs that differ by less are equal.
_EPSILON = 1e-9


class Objective:
    """The base class of objectives: the score and its normalisation follow from the costs and their bounds.

    A class that keeps `bounds` and `normalize` of this one may set `fixed_bounds`, so that one changed node does not
    normalise all others again. It is not the default: a class that normalises in a way of its own would be wrong then.
    """

    #: The unit of the costs, as explanations show it.
    unit: ClassVar[str]
    #: Raw scores are integers: costs in this part of the unit.
    per_unit: ClassVar[int] = 1000
    #: The bounds of the costs; costs outside of them count as the bound.
    least: float = 0.0
    greatest: float = 1.0

    def costs(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> FloatArray:
        """What the placement of the pod costs on each selected row; the smaller the better, never NaN."""
        raise NotImplementedError

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """The costs in parts of the unit."""
        costs = np.minimum(np.maximum(self.costs(state, pod, cluster, rows), self.least), self.greatest)
        return np.asarray(np.rint(costs * self.per_unit), dtype=np.int64)

    #: Whether normalised scores of other rows never change with one row, and `normalize_one` is `normalize` of one.
    fixed_bounds: ClassVar[bool] = False

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Refuse fixed bounds with another normalisation."""
        super().__init_subclass__(**arguments)
        own = cls.normalize is not Objective.normalize and cls.normalize_one is Objective.normalize_one
        if cls.fixed_bounds and (own or cls.bounds is not Objective.bounds):
            raise TypeError(f"{cls.__name__} has fixed_bounds and normalises differently; set fixed_bounds = False")

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> Hashable:
        """The bounds are fixed."""
        return ()

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        """From 100 at the least cost to 0 at the greatest."""
        least, greatest = self.least * self.per_unit, self.greatest * self.per_unit
        return np.asarray(np.rint((greatest - scores) * (MAX_SCORE / (greatest - least))), dtype=np.int64)

    def normalize_one(self, score: int) -> int:
        """As `normalize`, of one score."""
        least, greatest = self.least * self.per_unit, self.greatest * self.per_unit
        return round((greatest - score) * (MAX_SCORE / (greatest - least)))


class RowObjective(Objective):
    """An objective that also has a scalar form, which is faster for the few nodes that change from pod to pod.

    Both forms do the same operations in the same order, so they return the same numbers.
    """

    def cost(self, pod: PodInfo, node: NodeInfo) -> float:
        """What the placement of the pod costs on a node."""
        raise NotImplementedError

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The cost in parts of the unit."""
        return round(min(max(self.cost(pod, node), self.least), self.greatest) * self.per_unit)


@dataclass(frozen=True, slots=True)
class Term:
    """The part of one objective in a combination; limit and tolerance are normalised like costs."""

    weight: float = 1.0
    limit: float | None = None
    tolerance: float = 0.0


def weighted_sum(costs: FloatArray, terms: Sequence[Term]) -> FloatArray:
    """The mean of the costs by weight; shape (n, objectives) to (n,)."""
    total = sum(term.weight for term in terms)
    found = costs[:, 0] * (terms[0].weight / total)
    for at in range(1, len(terms)):
        # In a fixed order, so that a node's value does not depend on how many nodes are computed at once.
        found = found + costs[:, at] * (terms[at].weight / total)
    return np.asarray(found)


def epsilon_constraint(costs: FloatArray, terms: Sequence[Term]) -> FloatArray:
    """The weighted sum of the costs without a limit; above 1 by how much limits are exceeded."""
    limits = np.array([np.inf if term.limit is None else term.limit for term in terms])
    excess = np.maximum(costs - limits, 0.0).sum(axis=1)
    free = [at for at, term in enumerate(terms) if term.limit is None]
    inside = weighted_sum(costs[:, free], [terms[at] for at in free]) if free else np.zeros(len(costs))
    return np.where(excess > _EPSILON, 1.0 + excess, inside)


def lexicographic(costs: FloatArray, terms: Sequence[Term]) -> FloatArray:
    """One whole number for each objective that excluded a node, the earlier the more; then the last cost."""
    found = np.zeros(len(costs))
    left = np.arange(len(costs))
    for at, term in enumerate(terms):
        values = costs[left, at]
        kept = values <= values.min() + term.tolerance + _EPSILON
        found[left[~kept]] = len(terms) - at + 0.5 * values[~kept]
        left = left[kept]
    found[left] = 0.5 * costs[left, -1]
    return found


def chebyshev(costs: FloatArray, terms: Sequence[Term]) -> FloatArray:
    """The greatest weighted cost, measured from the least bounds, and a thousandth of the weighted sum."""
    weights = np.array([term.weight for term in terms])
    weights = weights / weights.max()
    greatest = costs[:, 0] * weights[0]
    for at in range(1, len(terms)):
        # Column by column, which is several times faster than a reduction over a short axis.
        greatest = np.maximum(greatest, costs[:, at] * weights[at])
    return np.asarray(greatest + _AUGMENTATION * weighted_sum(costs, terms))


def one_weighted_sum(costs: Sequence[float], terms: Sequence[Term]) -> float:
    """As `weighted_sum`, of one node."""
    total = sum(term.weight for term in terms)
    found = costs[0] * (terms[0].weight / total)
    for at in range(1, len(terms)):
        found += costs[at] * (terms[at].weight / total)
    return found


def one_chebyshev(costs: Sequence[float], terms: Sequence[Term]) -> float:
    """As `chebyshev`, of one node."""
    heaviest = max(term.weight for term in terms)
    greatest = max(cost * (term.weight / heaviest) for cost, term in zip(costs, terms, strict=True))
    return greatest + _AUGMENTATION * one_weighted_sum(costs, terms)


def pareto_knee(costs: FloatArray, terms: Sequence[Term]) -> FloatArray:
    """The weighted sum of the front's nodes, rescaled to the extremes of the front; above 2 for dominated nodes."""
    front = non_dominated(costs)
    ideal, nadir = costs[front].min(axis=0), costs[front].max(axis=0)
    width = np.where(nadir - ideal > _EPSILON, nadir - ideal, 1.0)
    scaled = weighted_sum((costs - ideal) / width, terms)
    return np.where(front, scaled, 2.0 + weighted_sum(costs, terms))


def non_dominated(costs: FloatArray) -> BoolArray:
    """The front: nodes for which no other is at least as good everywhere and better somewhere."""
    order = np.argsort(costs.sum(axis=1), kind="stable")
    front = np.zeros(len(costs), dtype=np.bool_)
    left = order
    while len(left):
        # No other node has a smaller sum, so nothing that is left dominates this one.
        best = costs[left[0]]
        equal = (np.abs(costs[left] - best) <= _EPSILON).all(axis=1)
        front[left[equal]] = True
        left = left[~(equal | (costs[left] >= best - _EPSILON).all(axis=1))]
    return front
