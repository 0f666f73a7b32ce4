"""Allocation scores, 0 to 100: the formulas, for one node and for columns.

`used` includes the pod, `whole` is allocatable and greater than 0. Divisions truncate towards zero, as in Go; the two
forms of every formula agree exactly. Plugins and profiles are not known here.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from rota.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY
from rota.columns.arrays import BoolArray, FloatArray, IntArray, Rows, count, pick
from rota.columns.cluster import Cluster
from rota.columns.floats import FloatColumns
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodShape

FULL = 100
#: Resources that count in a score even if a pod does not request them.
NATIVE = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


class Strategy(Protocol):
    """The score of one resource, and how the scores of several are averaged."""

    def rate(self, used: int, whole: int) -> int:
        """Score one node."""

    def score_all(self, used: IntArray, whole: IntArray) -> IntArray:
        """Score many nodes."""

    def rate_floats(self, used: FloatArray, whole: FloatArray) -> FloatArray:
        """Score many nodes; all amounts are integers that floats represent exactly. `used` may be overwritten."""

    #: Whether a score of 0 counts in the mean.
    counts_zero: bool


class Least:
    """LeastAllocated: the share that would be left."""

    counts_zero = True

    def rate(self, used: int, whole: int) -> int:
        """Score one node."""
        return 0 if used > whole else (whole - used) * FULL // whole

    def score_all(self, used: IntArray, whole: IntArray) -> IntArray:
        """Score many nodes."""
        return np.asarray(np.maximum(whole - used, 0) * FULL // whole)

    def rate_floats(self, used: FloatArray, whole: FloatArray) -> FloatArray:
        """Score many nodes."""
        left = np.subtract(whole, used, out=used)
        np.maximum(left, 0.0, out=left)
        left *= FULL
        left /= whole
        return np.floor(left, out=left)


class Most:
    """MostAllocated: the share that would be used."""

    counts_zero = True

    def rate(self, used: int, whole: int) -> int:
        """Score one node."""
        return min(used, whole) * FULL // whole

    def score_all(self, used: IntArray, whole: IntArray) -> IntArray:
        """Score many nodes."""
        return np.asarray(np.minimum(used, whole) * FULL // whole)

    def rate_floats(self, used: FloatArray, whole: FloatArray) -> FloatArray:
        """Score many nodes."""
        np.minimum(used, whole, out=used)
        used *= FULL
        used /= whole
        return np.floor(used, out=used)


class Ratio:
    """RequestedToCapacityRatio: a piecewise linear function of the used share; a score of 0 is left out of the mean."""

    counts_zero = False

    def __init__(self, corners: Sequence[tuple[int, int]]) -> None:
        #: The value at every integer percentage, which are the only arguments.
        self._values = [piecewise_linear(corners, share) for share in range(FULL + 1)]
        self._table = np.array(self._values, dtype=np.int64)

    def rate(self, used: int, whole: int) -> int:
        """Score one node."""
        return self._values[FULL if used > whole else used * FULL // whole]

    def score_all(self, used: IntArray, whole: IntArray) -> IntArray:
        """Score many nodes."""
        return self._table[np.minimum(used, whole) * FULL // whole]

    def rate_floats(self, used: FloatArray, whole: FloatArray) -> FloatArray:
        """Score many nodes."""
        np.minimum(used, whole, out=used)
        used *= FULL
        used /= whole
        return self._table[used.astype(np.intp)].astype(np.float64)


def piecewise_linear(corners: Sequence[tuple[int, int]], x: int) -> int:
    """The value at x of the piecewise linear function, constant before the first and after the last corner."""
    if x <= corners[0][0]:
        return corners[0][1]
    for (left, low), (right, high) in itertools.pairwise(corners):
        if x <= right:
            rise, run = (high - low) * (x - left), right - left
            return low + (rise // run if rise >= 0 else -(-rise // run))
    return corners[-1][1]


class Scorer:
    """The weighted mean of the scores of some resources."""

    def __init__(self, resources: Sequence[tuple[str, int]], strategy: Strategy) -> None:
        self._resources = tuple(resources)
        self._strategy = strategy

    def one(self, shape: PodShape, node: NodeInfo) -> int:
        """Score one node with the pod on it."""
        strategy, total, weights = self._strategy, 0, 0
        allocatable, cpu_and_memory = node.allocatable, shape.nonzero_requests
        for name, weight in self._resources:
            whole = allocatable.get(name, 0)
            if whole == 0:
                continue
            # As in `counted` and `counted_on`; this is called for every changed row.
            if name == CPU:
                used = node.nonzero_cpu + cpu_and_memory[0]
            elif name == MEMORY:
                used = node.nonzero_memory + cpu_and_memory[1]
            else:
                extra = shape.requests.get(name, 0)
                if extra == 0 and name not in NATIVE:
                    continue
                used = node.requested.get(name, 0) + extra
            rating = strategy.rate(used, whole)
            if rating > 0 or strategy.counts_zero:
                total += rating * weight
                weights += weight
        if not weights:
            return 0
        return total // weights if strategy.counts_zero else rounded_quotient(total, weights)

    def many(self, shape: PodShape, cluster: Cluster, rows: Rows) -> IntArray:
        """Score the selected rows with the pod on them."""
        chosen = []
        for name, weight in self._resources:
            index, extra = cluster.resources.get(name), counted(shape, name)
            if index is not None and (extra > 0 or name in NATIVE):
                chosen.append((index, extra, weight))
        floats = cluster.floats
        if self._strategy.counts_zero and chosen and all(floats.complete(index) for index, _, _ in chosen):
            return self._many_regular(chosen, floats, rows)
        return self._many_exact(chosen, cluster, rows)

    def _many_regular(self, chosen: Sequence[tuple[int, int, int]], floats: FloatColumns, rows: Rows) -> IntArray:
        """Every node has all the resources: the sum of weights is the same for all, and floats are exact."""
        total: FloatArray | None = None
        for index, extra, weight in chosen:
            used = pick((floats.nonzero if index < 2 else floats.requested)[index], rows) + extra
            rating = self._strategy.rate_floats(used, pick(floats.whole[index], rows))
            if weight != 1:
                rating *= weight
            total = rating if total is None else np.add(total, rating, out=total)
        assert total is not None
        total /= sum(weight for _, _, weight in chosen)
        return np.floor(total, out=total).astype(np.int64)

    def _many_exact(self, chosen: Sequence[tuple[int, int, int]], cluster: Cluster, rows: Rows) -> IntArray:
        """A resource that a node lacks is left out of its mean."""
        strategy = self._strategy
        total, weights = np.zeros(count(rows), dtype=np.int64), np.zeros(count(rows), dtype=np.int64)
        for index, extra, weight in chosen:
            whole = cluster.allocatable[index, rows]
            used = cluster.nonzero_requested[index, rows] if index < 2 else cluster.requested[index, rows]
            takes_part: BoolArray = whole > 0
            ratings = np.where(takes_part, strategy.score_all(used + extra, np.maximum(whole, 1)), 0)
            if not strategy.counts_zero:
                takes_part &= ratings > 0
            total += ratings * weight
            weights += takes_part * np.int64(weight)
        np.maximum(weights, 1, out=weights)
        if strategy.counts_zero:
            return np.asarray(total // weights)
        return np.asarray((2 * total + weights) // (2 * weights))


def counted(shape: PodShape, name: str) -> int:
    """The amount of a pod in a score."""
    if name == CPU:
        return shape.nonzero_requests[0]
    if name == MEMORY:
        return shape.nonzero_requests[1]
    return shape.requests.get(name, 0)


def counted_on(node: NodeInfo, name: str) -> int:
    """The amount of a node's pods in a score."""
    if name == CPU:
        return node.nonzero_cpu
    if name == MEMORY:
        return node.nonzero_memory
    return node.requested.get(name, 0)


def rounded_quotient(total: int, weights: int) -> int:
    """Divide two non-negative numbers, rounding halves up.

    Upstream divides as float64 and rounds; for numbers of this size (at most 100 times the weights) that is the same.
    """
    return (2 * total + weights) // (2 * weights)


def balance(fractions: Sequence[float]) -> int:
    """The balance of a node's used shares; 100 is perfectly balanced."""
    size = len(fractions)
    deviation = 0.0
    if size == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif size > 2:
        mean = _sum(fractions) / size
        deviation = math.sqrt(_sum([(each - mean) * (each - mean) for each in fractions]) / size)
    return int((1 - deviation) * FULL)


def balance_all(fractions: FloatArray, present: BoolArray) -> IntArray:
    """The balance of many nodes; both arrays have shape (resources, nodes), absent fractions are 0."""
    sizes = present.sum(axis=0)
    if len(fractions) == 2:
        deviation = np.where(sizes == 2, np.abs((fractions[0] - fractions[1]) / 2), 0.0)
        return ((1 - deviation) * FULL).astype(np.int64)
    highest = np.where(present, fractions, -np.inf).max(axis=0, initial=-np.inf)
    lowest = np.where(present, fractions, np.inf).min(axis=0, initial=np.inf)
    total = np.zeros(fractions.shape[1])
    for row in fractions:
        total += row
    divisor = np.maximum(sizes, 1)
    mean = total / divisor
    squares = np.zeros(fractions.shape[1])
    for row, here in zip(fractions, present, strict=True):
        squares += np.where(here, (row - mean) * (row - mean), 0.0)
    with np.errstate(invalid="ignore"):
        two = (highest - lowest) / 2
    deviation = np.where(sizes == 2, two, np.where(sizes > 2, np.sqrt(squares / divisor), 0.0))
    return ((1 - deviation) * FULL).astype(np.int64)


class BalanceColumn:
    """The balance of two resources on every node as it is; updated with one cluster row by row."""

    __slots__ = ("_generation", "_names", "_values")

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._generation = -1
        self._values: IntArray = np.zeros(0, dtype=np.int64)

    def values(self, cluster: Cluster) -> IntArray:
        """The balance, shape (N,); always of the same cluster, in which every node has both resources."""
        generation = cluster.change_log.generation
        if self._generation != generation:
            changes = cluster.change_log.since(self._generation) if len(self._values) == cluster.size else None
            if changes is None or len(changes.all) > _FEW:
                self._values = self._recounted(cluster)
            else:
                for row in changes.all:
                    node = cluster.nodes[row]
                    self._values[row] = 0 if node is None else balance(self._fractions(node))
            self._generation = generation
        return self._values

    def _recounted(self, cluster: Cluster) -> IntArray:
        floats, rows = cluster.floats, cluster.rows
        first, second = (
            np.minimum(floats.requested[index, rows] / floats.whole[index, rows], 1.0)
            for index in (cluster.resources[name] for name in self._names)
        )
        return even(first, second)

    def _fractions(self, node: NodeInfo) -> list[float]:
        return [min(node.requested.get(name, 0) / node.allocatable[name], 1.0) for name in self._names]


#: Up to this many rows are updated one by one.
_FEW = 12


def even(first: FloatArray, second: FloatArray) -> IntArray:
    """The balance of two shares; 100 if they are equal. Overwrites `first`."""
    first -= second
    first /= 2
    np.abs(first, out=first)
    np.subtract(1, first, out=first)
    first *= FULL
    return first.astype(np.int64)


def _sum(values: Sequence[float]) -> float:
    """Add from left to right; the built-in sum compensates rounding, which Go does not."""
    total = 0.0
    for value in values:
        total += value
    return total
