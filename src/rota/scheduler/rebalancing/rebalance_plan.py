"""What a rebalancing is told, and what it comes up with."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


class Strategy(enum.Enum):
    """A kind of drift. What is wrong comes before what is uneven, in this order."""

    #: A pod on a node that its own node affinity or selector excludes by now.
    NODE_AFFINITY = "node-affinity"
    #: A pod on a node with a taint that it does not tolerate.
    TAINTS = "taints"
    #: A pod next to one that it, or who, cannot stand, or away from one that it needs.
    POD_AFFINITY = "pod-affinity"
    #: More skew than a hard spread constraint allows.
    SPREAD = "spread"
    #: Several pods of one owner on one node while others have fewer.
    DUPLICATES = "duplicates"
    #: A pod that crashes again and again where it is.
    CRASHES = "crashes"
    #: A pod that has run for very long, and that the scheduler would place elsewhere today.
    LIFETIME = "lifetime"
    #: Full nodes beside empty ones.
    BALANCE = "balance"
    #: Nodes that are nearly empty and could be.
    COMPACT = "compact"


#: The usual ones. Compacting wants a profile that prefers full nodes, and is the opposite of balancing.
USUAL = (
    Strategy.NODE_AFFINITY,
    Strategy.TAINTS,
    Strategy.POD_AFFINITY,
    Strategy.SPREAD,
    Strategy.DUPLICATES,
    Strategy.BALANCE,
)


class SettingsError(ValueError):
    """The settings contradict themselves; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator decides."""

    strategies: tuple[Strategy, ...] = USUAL
    #: Of balancing: nodes below are empty, nodes above are full; shares of what can be allocated.
    empty_below: float = 0.2
    full_above: float = 0.7
    most_per_node: int = 5
    most_per_namespace: int = 20
    most_at_once: int = 50
    #: How many pods may move within an hour, over all plans.
    most_per_hour: int = 200
    #: Pods of this priority and above stay; system-critical ones always do.
    priority_below: int = 2_000_000_000
    youngest_s: float = 300.0
    oldest_s: float = 7 * 24 * 3600.0
    most_restarts: int = 20
    #: Move pods though what is in their emptyDir volumes is lost.
    local_storage: bool = False
    #: Move pods whose work has an end, though they begin it anew.
    jobs: bool = False
    #: How full nodes are is measured, instead of what their pods ask for.
    by_usage: bool = False

    def __post_init__(self) -> None:
        if Strategy.BALANCE in self.strategies and Strategy.COMPACT in self.strategies:
            raise SettingsError("balance and compact undo each other; choose one of them")
        if not 0 <= self.empty_below <= self.full_above <= 1:
            raise SettingsError("thresholds are shares: 0 <= empty <= full <= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What placement does not look at, but moving does."""

    running: bool = True
    #: Controlled by something that makes another one; "" for a pod of its own.
    owner_kind: str = "ReplicaSet"
    mirror: bool = False
    age_s: float = 3600.0
    restarts: int = 0
    #: Whether a container waits to be started again after a crash.
    crashing: bool = False
    local_storage: bool = False
    #: Whether its work has an end, as a Job's or a pipeline's; whoever moves it throws away what is done of it.
    ends: bool = False
    #: What an annotation of the pod says against moving it.
    objection: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What is really used: of nodes and of pods by uid, by resource, in the units of `rota.api.resources`."""

    nodes: Mapping[str, Mapping[str, int]]
    pods: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A pod that would be better off elsewhere."""

    uid: str
    namespace: str
    name: str
    source: str
    #: Where the scheduler would put it today.
    target: str
    strategy: Strategy
    #: In words, for people.
    why: str
    #: The scheduler's scores of both nodes; None where it would refuse the source.
    score_before: int | None
    score_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftMeasurement:
    """A cluster in numbers, to be compared: the less the better, the first that differs counts."""

    violations: int
    duplicates: int
    unevenness: float
    #: Nodes with pods that could be moved.
    nodes_in_use: int
    #: How full each node is: the fullest of its resources.
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All moves of one run, in their order, and who stays though somewhere else would be better, and why."""

    moves: Sequence[Move]
    #: By namespace/name.
    stays: Mapping[str, str]
    before: DriftMeasurement
    after: DriftMeasurement
