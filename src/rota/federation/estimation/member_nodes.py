"""The nodes of members as they were last observed: how many replicas and sets of components fit on them.

The control plane observes the nodes of push members, and agents report those of pull members. A member whose nodes are
not known has no answer here, and its summary alone counts.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from rota.federation.estimation import nodes, simulation
from rota.federation.estimation.capacity_sources import PREFIX

Object: TypeAlias = Mapping[str, Any]

#: How many different answers of one member are kept before they are worked out anew.
_KEPT: Final = 4096
#: So many sets are enough for every binding; a node that claims to have endless room would be filled for hours.
MOST_SETS: Final = 10_000


class NodeCapacity(NamedTuple):
    """What is free on a node, and what decides which pods may use it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Object, ...]
    unschedulable: bool
    free: Mapping[str, int]

    def room(self) -> simulation.Room:
        """The node with amounts that a simulation may take."""
        spec = {"taints": self.taints, "unschedulable": self.unschedulable}
        return nodes.room(self.name, self.labels, spec, dict(self.free))


class MemberNodes:
    """By member, its nodes. Answers are kept until the nodes change."""

    def __init__(self) -> None:
        self._known: Final[dict[str, Sequence[NodeCapacity]]] = {}
        self._answers: Final[dict[str, dict[bytes, int]]] = {}

    def put(self, member: str, found: Sequence[NodeCapacity]) -> None:
        """Take over the nodes of a member."""
        if self._known.get(member) is not found:
            self._known[member] = found
            self._answers[member] = {}

    def drop(self, member: str) -> None:
        """Forget a member that does not answer, or has left."""
        self._known.pop(member, None)
        self._answers.pop(member, None)

    def replicas(self, requirements: Object | None) -> dict[str, int]:
        """By member, how many replicas fit on its nodes together."""
        needed = _on_nodes(requirements or {})
        return self._answered(("replicas", needed), lambda rooms: nodes.replicas(rooms, needed))

    def sets(self, components: Sequence[Object]) -> dict[str, int]:
        """By member, how many complete sets of components fit, at most `MOST_SETS`."""
        parts = [{**one, "replicaRequirements": _on_nodes(one.get("replicaRequirements") or {})} for one in components]
        return self._answered(("sets", parts), lambda rooms: nodes.sets(rooms, parts, at_most=MOST_SETS))

    def _answered(self, question: object, count: Callable[[Sequence[simulation.Room]], int]) -> dict[str, int]:
        key = msgspec.json.encode(question)
        found = {}
        for member, capacities in self._known.items():
            answers = self._answers[member]
            if key not in answers:
                if len(answers) >= _KEPT:
                    answers.clear()
                answers[key] = count([one.room() for one in capacities])
            found[member] = answers[key]
        return found


def _on_nodes(requirements: Object) -> dict[str, Any]:
    """Requirements without the capacity outside of nodes, which the summary counts."""
    request = requirements.get("resourceRequest") or {}
    kept = {name: amount for name, amount in request.items() if not name.startswith(PREFIX)}
    return {**requirements, "resourceRequest": kept}
