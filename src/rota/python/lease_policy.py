"""How many leases a client takes, and how many calls a lease has at a time. Pure.

Calls of unknown or long duration have a worker each, as far as there are workers. Short calls are sent ahead, so that
a worker need not wait for the next one. New leases are asked for in growing steps, and only while the present ones do
not keep up; so many short calls do not start many processes.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

#: The work that a worker may have ahead, in seconds and in calls.
AHEAD_S: Final = 0.02
MOST_AHEAD: Final = 128
#: Leases that are asked for at once in the beginning.
FIRST: Final = 4
#: Time in which the present leases should finish what waits.
_SOON_S: Final = 1.0
#: The weight of the latest duration in the estimate, if it was shorter and if it was longer: on a busy machine some
#: calls take long by chance, none is short by chance.
_SHORTER: Final = 0.5
_LONGER: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The state of one shape's calls and leases."""

    #: Calls that have no worker, and the seconds that they are expected to take; None if that is not known.
    waiting: int
    expected_s: float | None
    #: Leases that take calls, those of them that are occupied by a long call, and those that are not connected yet.
    ready: int
    occupied: int
    starting: int
    #: Whether a lease that was asked for found no node.
    unplaced: bool
    most: int


def leases_to_add(demand: Demand) -> int:
    """How many leases to ask for now."""
    if not demand.waiting or demand.unplaced:
        return 0
    keeping_up = demand.ready > demand.occupied and (
        demand.expected_s is None or demand.expected_s / (demand.ready - demand.occupied) < _SOON_S
    )
    if keeping_up:
        return 0
    step = max(FIRST, demand.ready)
    useful = demand.waiting
    if demand.expected_s is not None:
        useful = min(useful, max(1, math.ceil(demand.expected_s / _SOON_S)))
    return max(0, min(useful, step, demand.most - demand.ready) - demand.starting)


def takes_another(ahead: int, ahead_s: float, estimate_s: float | None) -> bool:
    """Whether a worker with so much ahead takes a call that is expected to take so long."""
    if not ahead:
        return True
    return estimate_s is not None and ahead < MOST_AHEAD and ahead_s + estimate_s <= AHEAD_S


def estimate(before: float | None, took: float) -> float:
    """The expected duration of a function, after it took so long."""
    if before is None:
        return took
    return before + (_SHORTER if took < before else _LONGER) * (took - before)


def nearest(sizes: Iterable[tuple[int, int]]) -> int | None:
    """The lease that has most bytes of what a call needs, from pairs of lease and size; None if none has any."""
    total: dict[int, int] = {}
    for lease, size in sizes:
        total[lease] = total.get(lease, 0) + size
    return max(total, key=lambda one: (total[one], -one), default=None)
