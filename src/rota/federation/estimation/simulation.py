"""First fit of components over nodes in a given order: how many complete sets fit.

What an incomplete set has taken stays taken, as upstream has it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rota.federation.estimation import amounts

Component: TypeAlias = Mapping[str, Any]


@dataclass(slots=True)
class Room:
    """What is free on one node, and which node claims may use it."""

    free: amounts.Amounts
    admits: Callable[[Mapping[str, Any] | None], bool]


def everyone(claim: Mapping[str, Any] | None) -> bool:
    """Admit every node claim: a virtual node has neither labels nor taints."""
    return True


def complete_sets(rooms: Sequence[Room], components: Iterable[Component], at_most: int) -> int:
    """Place sets of components until one does not fit, and say how many were complete."""
    parts = [_Part(component) for component in components]
    if not any(part.replicas > 0 for part in parts):
        return at_most
    done = 0
    while done < at_most and all(_place(rooms, part) for part in parts):
        done += 1
    return done


def deduct(rooms: Sequence[Room], assumed: Iterable[Mapping[str, Any]]) -> None:
    """Subtract the resources of assumed workloads, as far as they fit."""
    for workload in assumed:
        components = workload.get("components") or ()
        if components:
            complete_sets(rooms, components, 1)


class _Part:
    __slots__ = ("claim", "replicas", "request")

    def __init__(self, component: Component) -> None:
        requirements = component.get("replicaRequirements") or {}
        self.replicas = int(component.get("replicas") or 0)
        self.request = amounts.read(requirements.get("resourceRequest"))
        self.claim = requirements.get("nodeClaim")


def _place(rooms: Sequence[Room], part: _Part) -> bool:
    remaining = part.replicas
    for room in rooms:
        if remaining == 0:
            break
        if not room.admits(part.claim):
            continue
        count = min(amounts.times_contained(room.free, part.request), remaining)
        if count > 0:
            amounts.take(room.free, part.request, count)
            remaining -= count
    return remaining == 0
