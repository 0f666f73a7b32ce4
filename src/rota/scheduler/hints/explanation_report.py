"""An explanation as a value that travels: the API's `pods/explain` answers with it, `rota explain` prints it.

Fields are the wire's, in camel case (`Explanation` of rota.dev/v1alpha1); nothing of the cluster is held on to.
"""

from typing import Any, Final, Literal

import msgspec

API_VERSION: Final = "rota.dev/v1alpha1"
KIND: Final = "Explanation"

Outcome = Literal["Schedulable", "Unschedulable", "Held", "Error"]


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of an explanation."""


class Refusal(_Wire, frozen=True):
    """Why a plugin, or an extender, will not have the pod on a node."""

    plugin: str
    #: A code of `framework.status`: whether evicting pods could help.
    code: str
    reasons: tuple[str, ...] = ()


class Score(_Wire, frozen=True):
    """What a plugin's opinion of a node came to."""

    plugin: str
    #: 0 to 100.
    score: int
    weighted: int
    weight: int = 1


class Victim(_Wire, frozen=True):
    """A pod that would have to go."""

    namespace: str
    name: str
    priority: int = 0


class Eviction(_Wire, frozen=True):
    """What evicting pods of lower priority from a node would come to."""

    #: Whom it would take; nobody if it cannot help.
    victims: tuple[Victim, ...] = ()
    #: How many of them their disruption budgets protect.
    budgets_broken: int = 0
    #: Why it cannot help.
    reason: str = ""


class Node(_Wire, frozen=True):
    """One node, seen by one pod."""

    name: str
    feasible: bool = False
    #: One of those with the highest total.
    best: bool = False
    #: All filters that refuse it, in the order of the profile; a scheduler stops at the first.
    refusals: tuple[Refusal, ...] = ()
    #: By plugin, the highest first.
    scores: tuple[Score, ...] = ()
    total: int = 0
    eviction: Eviction | None = None


class Change(_Wire, frozen=True):
    """Something that stands in the pod's way on some nodes, and so could be changed."""

    plugin: str
    text: str
    #: How many nodes it concerns, and on how many of them nothing else is in the way.
    nodes: int
    opens: int = 0
    #: Some of the nodes, those that it opens first.
    examples: tuple[str, ...] = ()


class Meta(_Wire, frozen=True):
    """Which pod."""

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
    #: Where the pod is already.
    current_node: str = ""
    #: Where it would go: one of the best.
    node: str = ""
    #: The node on which room would be made, if none is free.
    nominated: str = ""
    victims: tuple[Victim, ...] = ()
    #: Why no room can be made, in the words of the plugin that looked for it.
    no_room: str = ""
    #: What would have to change, the most promising first.
    changes: tuple[Change, ...] = ()
    #: The best first; then those with the fewest obstacles.
    nodes: tuple[Node, ...] = ()
    #: How many more there are that were not looked at in detail.
    omitted: int = 0


def to_wire(explanation: Explanation) -> dict[str, Any]:
    """Give plain JSON data, with kind and version."""
    document: dict[str, Any] = msgspec.to_builtins(explanation)
    return {"apiVersion": API_VERSION, "kind": KIND, **document}


def from_wire(document: object) -> Explanation:
    """Read what `to_wire` wrote; `msgspec.ValidationError` if it is something else."""
    return msgspec.convert(document, Explanation)
