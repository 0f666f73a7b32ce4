"""The entries of a recording: the initial state, the changes of the cluster, and the decisions, in order.

Shapes of pods come once and are then referred to by number; a pod is then a few short strings. Times are in seconds
since 1970. Version 1 of recordings has entries as arrays in MessagePack, with a letter for their kind; since version 2
they are written as lines of a trace (`line_codec`).
"""

from typing import Any, Final

import msgspec

VERSION: Final = 1


class _Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry of a recording."""


class Beginning(_Entry, frozen=True, tag="B"):
    """The first entry of every file: the configuration, and the nodes row by row."""

    version: int
    rota: str
    at: float
    configuration: dict[str, Any]
    #: By row, as on the wire; None for a row without a node.
    nodes: list[dict[str, Any] | None]
    #: Rows without a node, in the order in which they became free.
    free: list[int]
    #: The scheduler's own clock at that time.
    clock: float = 0.0


class ShapeMade(_Entry, frozen=True, tag="S"):
    """A shape that is new in this file."""

    number: int
    content: bytes


class Pod(_Entry, frozen=True):
    """A pod; part of other entries."""

    uid: str
    name: str
    shape: int
    node: str = ""
    nominated: str = ""
    start_time: str = ""
    preempted: bool = False
    gpu_devices: tuple[int, ...] = ()


class NodeSet(_Entry, frozen=True, tag="N"):
    """A node was added or changed."""

    node: dict[str, Any]


class NodeGone(_Entry, frozen=True, tag="n"):
    """A node was deleted."""

    name: str


class PodPlaced(_Entry, frozen=True, tag="P"):
    """A pod is on a node, or is assumed there."""

    pod: Pod


class PodRestated(_Entry, frozen=True, tag="R"):
    """A pod stays on its node; its document changed without an effect on placement."""

    pod: Pod


class PodGone(_Entry, frozen=True, tag="p"):
    """A pod is no longer on a node."""

    uid: str


class ObjectPut(_Entry, frozen=True, tag="O"):
    """An object of another kind was added or changed."""

    kind: str
    document: dict[str, Any]


class ObjectGone(_Entry, frozen=True, tag="o"):
    """An object of another kind was deleted."""

    kind: str
    namespace: str
    name: str


class Refused(_Entry, frozen=True):
    """A refusal by an extender; part of other entries."""

    code: str
    reasons: list[str]


class Advised(_Entry, frozen=True):
    """The result of extenders; part of other entries."""

    refusals: dict[str, Refused]
    scores: dict[str, int]


class Outcome(_Entry, frozen=True):
    """The result of an attempt; part of other entries. Equal outcomes are the same decision."""

    #: The chosen node, or "".
    node: str = ""
    #: Why there is none.
    message: str = ""
    #: The nominated node, and the uids of the victims, sorted.
    nominated: str = ""
    victims: tuple[str, ...] = ()


class Decided(_Entry, frozen=True, tag="D"):
    """An attempt with everything it depended on besides the cluster."""

    at: float
    profile: str
    pod: Pod
    #: The first row of the search among equal nodes: the scheduler's seed.
    start: int
    avoiding: list[str]
    make_room: bool
    nominations: dict[str, list[Pod]]
    advice: Advised | None
    outcome: Outcome
    #: The pod's whole document, for plugins that read more than its shape.
    manifest: dict[str, Any] | None = None


Entry = (
    Beginning | ShapeMade | NodeSet | NodeGone | PodPlaced | PodRestated | PodGone | ObjectPut | ObjectGone | Decided
)
