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
    parts = [_Part(component, rooms) for component in components]
    if not any(part.replicas > 0 for part in parts):
        return at_most
    done = 0
    while done < at_most and all(part.place() for part in parts):
        done += 1
    return done


def deduct(rooms: Sequence[Room], assumed: Iterable[Mapping[str, Any]]) -> None:
    """Subtract the resources of assumed workloads, as far as they fit."""
    for workload in assumed:
        components = workload.get("components") or ()
        if components:
            complete_sets(rooms, components, 1)


class _Part:
    """A component, and the nodes that it may use."""

    __slots__ = ("_first", "_request", "_rooms", "replicas")

    def __init__(self, component: Component, rooms: Sequence[Room]) -> None:
        requirements = component.get("replicaRequirements") or {}
        self.replicas = int(component.get("replicas") or 0)
        self._request = amounts.read(requirements.get("resourceRequest"))
        claim = requirements.get("nodeClaim")
        self._rooms = [room for room in rooms if room.admits(claim)] if self.replicas else []
        #: The first node that may have room: what is free only becomes less, so those before it stay full.
        self._first = 0

    def place(self) -> bool:
        """Take the room of all replicas; whether there was enough."""
        remaining = self.replicas
        for position in range(self._first, len(self._rooms)):
            if remaining == 0:
                break
            free = self._rooms[position].free
            count = min(amounts.times_contained(free, self._request), remaining)
            if count > 0:
                amounts.take(free, self._request, count)
                remaining -= count
            elif position == self._first:
                self._first += 1
        return remaining == 0
