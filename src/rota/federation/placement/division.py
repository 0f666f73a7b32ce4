"""Apportionment of replicas by weight: Webster's method (Sainte-Laguë), with ties broken by the resource's uid."""

import heapq
from collections.abc import Mapping

from rota.federation.fnv import fnv32a


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
    heap = [(-(weights.get(name, 0) / (2 * seats[name] + 1)), seats[name], place) for place, name in enumerate(names)]
    heapq.heapify(heap)
    for _ in range(replicas):
        _, held, place = heap[0]
        held += 1
        heapq.heapreplace(heap, (-(weights.get(names[place], 0) / (2 * held + 1)), held, place))
    for _, held, place in heap:
        seats[names[place]] = held
