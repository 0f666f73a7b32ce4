"""Apportionment of replicas by weight: Webster's method (Sainte-Laguë), with ties broken by the resource's uid."""

import heapq
import math
from collections.abc import Mapping
from typing import Final

from rota.federation.fnv import fnv32a

#: With more replicas for each name than this, most are given at once: a user may ask for two thousand million.
_MANY: Final = 32
_HALVINGS: Final = 200


def divide(
    replicas: int, weights: Mapping[str, int], initial: Mapping[str, int] | None = None, uid: str = ""
) -> dict[str, int]:
    """Give out replicas by weight, on top of what each name has; by name, in the order of names.

    Without any weight nothing is given and what there was stays.
    """
    seats = dict(initial or {})
    if replicas == 0 and seats:
        return seats
    if sum(weights.values()) == 0:
        return seats
    for name in weights:
        seats.setdefault(name, 0)
    names = sorted(seats, reverse=bool(uid) and fnv32a(uid) & 1 == 1)
    if replicas > 0:
        _give(replicas, names, weights, seats)
    return {name: seats[name] for name in sorted(seats)}


def _give(replicas: int, names: list[str], weights: Mapping[str, int], seats: dict[str, int]) -> None:
    """Give one replica after the other to the highest quotient; of equals to the fewest seats, then by name."""
    if replicas > _MANY * len(names):
        replicas -= _give_ahead(replicas, names, weights, seats)
    heap = [(-(weights.get(name, 0) / (2 * seats[name] + 1)), seats[name], place) for place, name in enumerate(names)]
    heapq.heapify(heap)
    for _ in range(replicas):
        _, held, place = heap[0]
        held += 1
        heapq.heapreplace(heap, (-(weights.get(names[place], 0) / (2 * held + 1)), held, place))
    for _, held, place in heap:
        seats[names[place]] = held


def _give_ahead(replicas: int, names: list[str], weights: Mapping[str, int], seats: dict[str, int]) -> int:
    """Give most of many replicas at once, none that would go to another name one by one; how many were given.

    All replicas whose quotient is above a bound are given in any case if no more than `replicas` are; the least such
    bound is searched. Rounding shifts what a bound includes by one at most, so one more is counted and one fewer given.
    """
    weighted = [(name, weights[name]) for name in names if weights.get(name, 0) > 0]
    low, high = 0.0, float(max(weight for _, weight in weighted))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if sum(max(0, _above(weight, middle) + 1 - seats[name]) for name, weight in weighted) <= replicas:
            high = middle
        else:
            low = middle
    before = sum(seats.values())
    for name, weight in weighted:
        seats[name] = max(seats[name], _above(weight, high) - 1)
    return sum(seats.values()) - before


def _above(weight: int, bound: float) -> int:
    """How many quotients of a weight are above a bound: `weight / (2 * seats + 1) > bound`, up to rounding."""
    return math.ceil((weight / bound - 1) / 2)
