"""What a recording holds: how it began, what happened to the cluster, and what was decided, in order.

Entries are arrays in MessagePack with a letter that says which kind they are. Shapes of pods are written once and
called by number from then on; a pod is then a few short strings. Time is in seconds since 1970.
"""

from typing import Any, Final

import msgspec

VERSION: Final = 1


class _Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Something in a recording."""


class Beginning(_Entry, frozen=True, tag="B"):
    """The first entry of every file: by what was decided, and the nodes as they were, row by row."""

    version: int
    rota: str
    at: float
    configuration: dict[str, Any]
    #: By row, as on the wire; None where a row holds no node.
    nodes: list[dict[str, Any] | None]
    #: Rows without a node, in the order in which they became free.
    free: list[int]


class ShapeMade(_Entry, frozen=True, tag="S"):
    """A shape that was not met before in this file."""

    number: int
    content: bytes


class Pod(_Entry, frozen=True):
    """A pod; not an entry of its own."""

    uid: str
    name: str
    shape: int
    node: str = ""
    nominated: str = ""
    start_time: str = ""
    preempted: bool = False


class NodeSet(_Entry, frozen=True, tag="N"):
    """A node came or changed."""

    node: dict[str, Any]


class NodeGone(_Entry, frozen=True, tag="n"):
    """A node went."""

    name: str


class PodPlaced(_Entry, frozen=True, tag="P"):
    """A pod is on a node, or is assumed there."""

    pod: Pod


class PodRestated(_Entry, frozen=True, tag="R"):
    """A pod stays where it is; the API server says the same of it in other words."""

    pod: Pod


class PodGone(_Entry, frozen=True, tag="p"):
    """A pod is on no node any more."""

    uid: str


class ObjectPut(_Entry, frozen=True, tag="O"):
    """An object of another kind came or changed."""

    kind: str
    document: dict[str, Any]


class ObjectGone(_Entry, frozen=True, tag="o"):
    """An object of another kind went."""

    kind: str
    namespace: str
    name: str


class Refused(_Entry, frozen=True):
    """What an extender refused; not an entry of its own."""

    code: str
    reasons: list[str]


class Advised(_Entry, frozen=True):
    """What extenders said; not an entry of its own."""

    refusals: dict[str, Refused]
    scores: dict[str, int]


class Outcome(_Entry, frozen=True):
    """What came of an attempt; not an entry of its own. Equal outcomes are the same decision."""

    #: The chosen node, or "".
    node: str = ""
    #: Why there is none.
    message: str = ""
    #: Where room is to be made, and whom that costs the place (uids, sorted).
    nominated: str = ""
    victims: tuple[str, ...] = ()


class Decided(_Entry, frozen=True, tag="D"):
    """An attempt, with everything it depended on besides the cluster."""

    at: float
    profile: str
    pod: Pod
    #: Where the search among equals began: the scheduler's seed.
    start: int
    avoiding: list[str]
    make_room: bool
    nominations: dict[str, list[Pod]]
    advice: Advised | None
    outcome: Outcome
    #: The pod's whole document, for plugins that look further than its shape.
    manifest: dict[str, Any] | None = None


Entry = (
    Beginning | ShapeMade | NodeSet | NodeGone | PodPlaced | PodRestated | PodGone | ObjectPut | ObjectGone | Decided
)
