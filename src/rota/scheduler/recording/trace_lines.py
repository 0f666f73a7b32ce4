"""The lines of a trace: one format for a recording, a dump of a cluster and the input of a simulation. Pure.

A trace is text: a header, then one JSON object per line, in the order of time. `at` is in seconds since the beginning
that the header names. Pods that are alike refer to a template, so a line for a pod is short. The field `entry` names
the kind of line:

    {"entry": "header", "format": "rota-trace", "version": 2, "began": 1760000000.0}
    {"entry": "node", "at": 0, "node": {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4"}}}}
    {"entry": "template", "name": "web", "pod": {"metadata": {}, "spec": {"containers": []}}}
    {"entry": "pod", "at": 1.5, "name": "web-1", "template": "web", "duration": 60}
    {"entry": "podGone", "at": 40, "uid": "default/web-1"}

Recordings have two more kinds of lines. Those about the scheduler's cache (`placed`, `restated`, `removed`) and its
decisions are enough to replay each decision. Those about what the scheduler was told (`pod`, `updated`, `seen`,
`podGone`, `bound`, `evicted`) are enough to simulate the run.
"""

from typing import Any, Final

import msgspec

FORMAT: Final = "rota-trace"
VERSION: Final = 2


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="entry", rename="camel", omit_defaults=True, gc=False):
    """A line of a trace."""

    #: Seconds since the beginning.
    at: float = 0.0


class Header(Line, frozen=True, kw_only=True, tag="header"):
    """The first line."""

    format: str
    version: int
    #: The version of the program that wrote it.
    rota: str = ""
    #: The beginning in seconds since 1970.
    began: float = 0.0
    #: The scheduler's own clock at the beginning; backoffs depend on it.
    clock: float = 0.0
    #: What the trace shows, for its readers.
    about: str = ""
    #: The KubeSchedulerConfiguration in force at the beginning; none means the stock configuration.
    configuration: dict[str, Any] | None = None


class NodeSet(Line, frozen=True, kw_only=True, tag="node"):
    """A node was added or changed."""

    node: dict[str, Any]


class NodeGone(Line, frozen=True, kw_only=True, tag="nodeGone"):
    """A node was deleted, or failed."""

    name: str


class Template(Line, frozen=True, kw_only=True, tag="template"):
    """What pods have in common: a pod as on the wire, without its own name."""

    name: str
    pod: dict[str, Any]


class PodLine(Line, frozen=True, kw_only=True):
    """The fields of lines about one pod: a template and a name, or the whole pod."""

    name: str = ""
    #: The pod's uid; namespace/name if there is none.
    uid: str = ""
    template: str = ""
    pod: dict[str, Any] | None = None
    #: Its node, if it has one.
    node: str = ""
    nominated: str = ""
    start_time: str = ""
    preempted: bool = False
    #: The GPU devices that it has.
    devices: tuple[int, ...] = ()


class PodArrived(PodLine, frozen=True, kw_only=True, tag="pod"):
    """A pod was created; it waits for a node unless it has one."""

    #: Seconds that it runs once it has a node; without it, until a line says that it is gone.
    duration: float | None = None


class PodPlaced(PodLine, frozen=True, kw_only=True, tag="placed"):
    """A recorded scheduler counts the pod on its node from now on."""


class PodRestated(PodLine, frozen=True, kw_only=True, tag="restated"):
    """A recorded scheduler saw the pod on its node; its document changed without an effect on placement."""


class PodRemoved(Line, frozen=True, kw_only=True, tag="removed"):
    """A recorded scheduler no longer counts the pod on its node."""

    uid: str


class PodUpdated(PodLine, frozen=True, kw_only=True, tag="updated"):
    """A waiting pod changed."""


class PodSeen(PodLine, frozen=True, kw_only=True, tag="seen"):
    """A pod is on a node, or changed there."""


class PodGone(Line, frozen=True, kw_only=True, tag="podGone"):
    """A pod ended, or was deleted."""

    uid: str


class PodBound(Line, frozen=True, kw_only=True, tag="bound"):
    """A recorded binding ended."""

    uid: str
    #: Why it failed; empty if it succeeded. Whether another scheduler had taken the room.
    failure: str = ""
    conflict: bool = False


class PodsEvicted(Line, frozen=True, kw_only=True, tag="evicted"):
    """Evictions for a pod ended."""

    preemptor: str
    uids: tuple[str, ...] = ()
    failed: bool = False


class ObjectSet(Line, frozen=True, kw_only=True, tag="object"):
    """An object of another kind was added or changed."""

    kind: str
    document: dict[str, Any]


class ObjectGone(Line, frozen=True, kw_only=True, tag="objectGone"):
    """An object of another kind was deleted."""

    kind: str
    name: str
    namespace: str = ""


class ConfigurationSet(Line, frozen=True, kw_only=True, tag="configuration"):
    """Another KubeSchedulerConfiguration is in force."""

    configuration: dict[str, Any]


class Refused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A refusal by an extender; part of other lines."""

    code: str
    reasons: tuple[str, ...] = ()


class Advice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of extenders; part of other lines."""

    refusals: dict[str, Refused] = {}
    scores: dict[str, int] = {}


class Decision(PodLine, frozen=True, kw_only=True, tag="decision"):
    """An attempt to place a pod, with everything it depended on besides the cluster."""

    profile: str
    #: The first row of the search among equal nodes: the scheduler's seed.
    start: int = 0
    avoiding: tuple[str, ...] = ()
    make_room: bool = True
    #: The waiting pods that had a nominated node: node, and the pods as lines.
    nominations: dict[str, list[PodPlaced]] = {}
    advice: Advice | None = None
    #: The result: the chosen node, or why there is none, and the victims that make room on a nominated node.
    chosen: str = ""
    message: str = ""
    room: str = ""
    victims: tuple[str, ...] = ()


AnyLine = (
    Header
    | NodeSet
    | NodeGone
    | Template
    | PodArrived
    | PodPlaced
    | PodRestated
    | PodRemoved
    | PodUpdated
    | PodSeen
    | PodGone
    | PodBound
    | PodsEvicted
    | ObjectSet
    | ObjectGone
    | ConfigurationSet
    | Decision
)

_encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder(AnyLine).decode


def encoded(line: AnyLine) -> bytes:
    """A line as JSON, with its end."""
    return _encode(line) + b"\n"
