"""Amounts of resources as integers, and how often one fits into another.

CPU is counted in thousandths, everything else in whole units. Resources that are neither native nor scalar are left
out.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from rota.api import resources

Amounts: TypeAlias = dict[str, int]

PODS: Final = resources.PODS
_NATIVE: Final = frozenset({resources.CPU, resources.MEMORY, resources.EPHEMERAL_STORAGE, PODS})
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


def read(resource_list: Mapping[str, Any] | None) -> Amounts:
    """The amounts of a resource list of the wire."""
    return {
        name: resources.amount(name, quantity)
        for name, quantity in (resource_list or {}).items()
        if name in _NATIVE or resources.is_scalar(name)
    }


def times_contained(free: Mapping[str, int], request: Mapping[str, int]) -> int:
    """How many replicas fit into what is free; each takes one pod."""
    most = free.get(PODS, 0)
    for name, wanted in request.items():
        if wanted > 0 and name != PODS:
            most = min(most, free.get(name, 0) // wanted)
    return most


def take(free: Amounts, request: Mapping[str, int], count: int) -> None:
    """Take the request so many times, with one pod each; nothing goes below zero."""
    for name, wanted in request.items():
        if name in free and name != PODS:
            free[name] = max(free[name] - wanted * count, 0)
    free[PODS] = max(free.get(PODS, 0) - count, 0)


def int32(number: int) -> int:
    """A number as 32 bits hold it."""
    return (number + 2**31) % 2**32 - 2**31
