"""Amounts of resources in batch scheduling, and the comparisons that its rules use.

cpu is in thousandths of a core, memory in bytes, the number of pods in pods, every other resource in thousandths. There
are many comparisons because the rules differ in the dimensions that they compare, in the meaning of a missing
dimension, and in whether a difference below `EPSILON` counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rota.api import resources
from rota.api.quantities import parse

#: Smaller differences are ignored.
EPSILON: Final = 0.1
UNLIMITED: Final = float("inf")
PODS: Final = "pods"
CPU: Final = resources.CPU
MEMORY: Final = resources.MEMORY

_MILLI: Final = 10**6
_NANO: Final = 10**9


def _less_equal(left: float, right: float) -> bool:
    return left < right or abs(left - right) < EPSILON


@dataclass(slots=True)
class Amounts:
    """Amounts by resource; cpu and memory always exist, other dimensions only if they were set."""

    cpu: float = 0.0
    memory: float = 0.0
    others: dict[str, float] = field(default_factory=dict)

    def copy(self) -> "Amounts":
        """Give an independent copy."""
        return Amounts(self.cpu, self.memory, dict(self.others))

    def get(self, name: str) -> float:
        """Give the amount of one resource; 0 if it is not set."""
        if name == CPU:
            return self.cpu
        if name == MEMORY:
            return self.memory
        return self.others.get(name, 0.0)

    def items(self) -> Iterable[tuple[str, float]]:
        """Give every dimension with its amount."""
        yield CPU, self.cpu
        yield MEMORY, self.memory
        yield from self.others.items()

    def names(self) -> list[str]:
        """Give the dimensions with an amount of at least `EPSILON`."""
        found = [name for name, amount in ((CPU, self.cpu), (MEMORY, self.memory)) if amount >= EPSILON]
        found.extend(name for name, amount in self.others.items() if amount >= EPSILON)
        return found

    @property
    def empty(self) -> bool:
        """Whether all amounts, other than the number of pods, are below `EPSILON`."""
        if self.cpu >= EPSILON or self.memory >= EPSILON:
            return False
        return all(amount < EPSILON for name, amount in self.others.items() if name != PODS)

    # --- arithmetic, in place ---------------------------------------------------------------------------------------

    def add(self, other: "Amounts") -> "Amounts":
        """Add another's amounts to these."""
        self.cpu += other.cpu
        self.memory += other.memory
        others = self.others
        for name, amount in other.others.items():
            others[name] = others.get(name, 0.0) + amount
        return self

    def sub(self, other: "Amounts") -> "Amounts":
        """Subtract another's amounts; may go below zero."""
        self.cpu -= other.cpu
        self.memory -= other.memory
        others = self.others
        if others:
            for name, amount in other.others.items():
                others[name] = others.get(name, 0.0) - amount
        return self

    def scale(self, ratio: float) -> "Amounts":
        """Multiply every dimension."""
        self.cpu *= ratio
        self.memory *= ratio
        for name in self.others:
            self.others[name] *= ratio
        return self

    def cap(self, limit: "Amounts", *, missing_is_zero: bool = False) -> "Amounts":
        """Lower every dimension of these to the limit's; a dimension that the limit lacks is unlimited, or zero."""
        self.cpu = min(self.cpu, limit.cpu)
        self.memory = min(self.memory, limit.memory)
        for name, amount in self.others.items():
            bound = limit.others.get(name)
            if bound is not None:
                self.others[name] = min(amount, bound)
            elif missing_is_zero:
                self.others[name] = 0.0
        return self

    # --- comparisons ------------------------------------------------------------------------------------------------

    def fits(self, room: "Amounts", *, missing_is_free: bool = False) -> bool:
        """Whether every dimension is at most that of the capacity, which has 0 (or no limit) for a missing one."""
        if not (_less_equal(self.cpu, room.cpu) and _less_equal(self.memory, room.memory)):
            return False
        if missing_is_free and any(name not in self.others for name in room.others):
            return False
        for name, amount in self.others.items():
            bound = room.others.get(name)
            if bound is None:
                if missing_is_free:
                    continue
                bound = 0.0
            if not _less_equal(amount, bound):
                return False
        return True

    def excess_on(self, bound: "Amounts", asked: "Amounts") -> list[str]:
        """Give the requested dimensions (other than pods) in which these are above the bound."""
        found = []
        if asked.cpu > 0 and self.cpu > bound.cpu:
            found.append(CPU)
        if asked.memory > 0 and self.memory > bound.memory:
            found.append(MEMORY)
        if self.others:
            for name, amount in asked.others.items():
                if name != PODS and amount > 0 and self.others.get(name, 0.0) > bound.others.get(name, 0.0):
                    found.append(name)
        return found

    def some_within(self, bound: "Amounts", asked: "Amounts") -> bool:
        """Whether a requested dimension, other than pods, is within the bound and not zero in both."""
        for name, amount in asked.items():
            if amount <= 0 or name == PODS:
                continue
            mine, limit = self.get(name), bound.get(name)
            if mine < EPSILON and limit < EPSILON:
                continue
            if _less_equal(mine, limit):
                return True
        return False

    def some_above(self, bound: "Amounts", asked: "Amounts") -> bool:
        """Whether a requested dimension, other than pods, that the bound has is above it."""
        for name, amount in asked.items():
            if amount <= 0 or name == PODS:
                continue
            if name in (CPU, MEMORY):
                if bound.get(name) < EPSILON:
                    continue
            elif name not in bound.others:
                continue
            if self.get(name) > bound.get(name):
                return True
        return False

    def some_less(self, other: "Amounts") -> bool:
        """Whether some dimension is strictly less than the other's; one that only the other has is."""
        if self.cpu < other.cpu or self.memory < other.memory:
            return True
        if any(name not in self.others for name in other.others):
            return True
        return any(amount < other.others.get(name, 0.0) for name, amount in self.others.items())


def exceeded(left: Amounts, right: Amounts) -> Amounts:
    """Give what the left has beyond the right; never below zero."""
    result = Amounts(max(left.cpu - right.cpu, 0.0), max(left.memory - right.memory, 0.0))
    for name in {**left.others, **right.others}:
        gain = left.others.get(name, 0.0) - right.others.get(name, 0.0)
        if gain > 0:
            result.others[name] = gain
    return result


def maximum(left: Amounts, right: Amounts) -> Amounts:
    """Give the larger of the two in every dimension."""
    result = Amounts(max(left.cpu, right.cpu), max(left.memory, right.memory))
    for name in {**left.others, **right.others}:
        result.others[name] = max(left.others.get(name, 0.0), right.others.get(name, 0.0))
    return result


def shared(left: Amounts, right: Amounts) -> list[str]:
    """Give the dimensions with an amount in both."""
    others = set(right.names())
    return [name for name in left.names() if name in others]


def share(part: float, whole: float) -> float:
    """Give a part of a whole as a ratio; if the whole is 0, it is 0 for no part and 1 otherwise."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def total(parts: Iterable[Amounts]) -> Amounts:
    """Add amounts up."""
    result = Amounts()
    for each in parts:
        result.add(each)
    return result


def read(quantities: Mapping[str, str | float] | None) -> Amounts:
    """Read the resource list of an object."""
    result = Amounts()
    for name, quantity in (quantities or {}).items():
        nanos = parse(str(quantity)).nanos
        if name == CPU:
            result.cpu += _up(nanos, _MILLI)
        elif name == MEMORY:
            result.memory += _up(nanos, _NANO)
        elif name == PODS:
            result.others[name] = result.others.get(name, 0.0) + _up(nanos, _NANO)
        elif not name.startswith("count/") and (name == resources.EPHEMERAL_STORAGE or resources.is_scalar(name)):
            result.others[name] = result.others.get(name, 0.0) + _up(nanos, _MILLI)
    return result


def of_requests(requests: Mapping[str, int]) -> Amounts:
    """Give the amounts of one pod from its requests (cpu in thousandths, all else in units)."""
    result = Amounts(others={})
    for name, amount in requests.items():
        if name == CPU:
            result.cpu = float(amount)
        elif name == MEMORY:
            result.memory = float(amount)
        else:
            result.others[name] = amount * 1000.0
    result.others[PODS] = 1.0
    return result


def _up(nanos: int, unit: int) -> float:
    return float(-(-nanos // unit))
