"""The explanation of a pod as a document: returned by the API's `pods/explain`, printed by `rota explain`.

Fields are those of the wire, in camel case (`Explanation` of rota.dev/v1alpha1). It does not refer to the cluster.
"""

from typing import Any, Final, Literal

import msgspec

API_VERSION: Final = "rota.dev/v1alpha1"
KIND: Final = "Explanation"

Outcome = Literal["Schedulable", "Unschedulable", "Held", "Error"]


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of an explanation."""


class Refusal(_Wire, frozen=True):
    """Why a plugin or an extender refuses the pod on a node."""

    plugin: str
    #: A code of `framework.status`: whether evicting pods could help.
    code: str
    reasons: tuple[str, ...] = ()


class Score(_Wire, frozen=True):
    """The score of a plugin for a node."""

    plugin: str
    #: 0 to 100.
    score: int
    weighted: int
    weight: int = 1
    #: Of an objective: what the placement costs, in its unit.
    cost: float | None = None
    unit: str = ""


class Victim(_Wire, frozen=True):
    """A pod that would be evicted."""

    namespace: str
    name: str
    priority: int = 0


class Eviction(_Wire, frozen=True):
    """The result of evicting pods of lower priority from a node."""

    #: The pods to evict; empty if evictions cannot help.
    victims: tuple[Victim, ...] = ()
    #: How many of them are protected by disruption budgets.
    budgets_broken: int = 0
    #: Why evictions cannot help.
    reason: str = ""


class Node(_Wire, frozen=True):
    """One node, as evaluated for the pod."""

    name: str
    feasible: bool = False
    #: Whether it has the highest total, possibly with others.
    best: bool = False
    #: Whether no other node is at least as good in all combined objectives and better in one.
    on_front: bool = False
    #: All filters that refuse it, in the order of the profile; the scheduler stops at the first.
    refusals: tuple[Refusal, ...] = ()
    #: By plugin, the highest first.
    scores: tuple[Score, ...] = ()
    total: int = 0
    eviction: Eviction | None = None


class Change(_Wire, frozen=True):
    """An obstacle on some nodes, which could be changed."""

    plugin: str
    text: str
    #: How many nodes have it, and on how many of them it is the only obstacle.
    nodes: int
    opens: int = 0
    #: Some of the nodes; those where it is the only obstacle first.
    examples: tuple[str, ...] = ()


class Meta(_Wire, frozen=True):
    """The pod's identity."""

    namespace: str
    name: str
    uid: str = ""


class Explanation(_Wire, frozen=True):
    """Everything about one pod and all nodes, at one moment."""

    metadata: Meta
    scheduler_name: str
    outcome: Outcome
    #: One sentence.
    summary: str
    #: The pod's present node.
    current_node: str = ""
    #: The node that the scheduler would choose: one of the best.
    node: str = ""
    #: The node on which preemption would make room, if none is feasible.
    nominated: str = ""
    victims: tuple[Victim, ...] = ()
    #: Why no room can be made, as the PostFilter plugin says.
    no_room: str = ""
    #: How objectives are combined, if they are.
    combination: str = ""
    #: What would have to change, the most promising first.
    changes: tuple[Change, ...] = ()
    #: The best first; then those with the fewest obstacles.
    nodes: tuple[Node, ...] = ()
    #: Number of nodes that were not examined in detail.
    omitted: int = 0


def to_wire(explanation: Explanation) -> dict[str, Any]:
    """As plain JSON data, with kind and version."""
    document: dict[str, Any] = msgspec.to_builtins(explanation)
    return {"apiVersion": API_VERSION, "kind": KIND, **document}


def from_wire(document: object) -> Explanation:
    """Read the output of `to_wire`; `msgspec.ValidationError` if it is something else."""
    return msgspec.convert(document, Explanation)
