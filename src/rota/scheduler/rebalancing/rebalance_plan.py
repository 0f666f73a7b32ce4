"""Settings and results of rebalancing."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


class Strategy(enum.Enum):
    """A kind of drift. Violations come before imbalance, in this order."""

    #: A pod on a node that its own node affinity or selector now excludes.
    NODE_AFFINITY = "node-affinity"
    #: A pod on a node with a taint that it does not tolerate.
    TAINTS = "taints"
    #: A pod whose required affinity is violated, or that shares a domain with a pod by anti-affinity of either.
    POD_AFFINITY = "pod-affinity"
    #: More skew than a hard spread constraint allows.
    SPREAD = "spread"
    #: Several pods of one owner on one node while others have fewer.
    DUPLICATES = "duplicates"
    #: A pod that crashes repeatedly on its node.
    CRASHES = "crashes"
    #: A pod that has run for very long, and that the scheduler would place elsewhere today.
    LIFETIME = "lifetime"
    #: Full nodes beside empty ones.
    BALANCE = "balance"
    #: Nodes that are nearly empty and could be emptied.
    COMPACT = "compact"


#: The default strategies. COMPACT needs a profile that prefers full nodes, and is the opposite of BALANCE.
USUAL = (
    Strategy.NODE_AFFINITY,
    Strategy.TAINTS,
    Strategy.POD_AFFINITY,
    Strategy.SPREAD,
    Strategy.DUPLICATES,
    Strategy.BALANCE,
)


class SettingsError(ValueError):
    """The settings are inconsistent; the message names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of an operator."""

    strategies: tuple[Strategy, ...] = USUAL
    #: For BALANCE: nodes below are empty, nodes above are full; shares of allocatable.
    empty_below: float = 0.2
    full_above: float = 0.7
    most_per_node: int = 5
    most_per_namespace: int = 20
    most_at_once: int = 50
    #: Limit of moves within an hour, over all plans.
    most_per_hour: int = 200
    #: Pods of this priority and above stay; system-critical ones always do.
    priority_below: int = 2_000_000_000
    youngest_s: float = 300.0
    oldest_s: float = 7 * 24 * 3600.0
    most_restarts: int = 20
    #: Move pods although the data in their emptyDir volumes is lost.
    local_storage: bool = False
    #: Move pods whose work has an end, although they start it again.
    jobs: bool = False
    #: Compute the shares of nodes from measured usage instead of requests.
    by_usage: bool = False

    def __post_init__(self) -> None:
        if Strategy.BALANCE in self.strategies and Strategy.COMPACT in self.strategies:
            raise SettingsError("balance and compact undo each other; choose one of them")
        if not 0 <= self.empty_below <= self.full_above <= 1:
            raise SettingsError("thresholds are shares: 0 <= empty <= full <= 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """Facts of a pod that matter to moving it but not to placement."""

    running: bool = True
    #: The kind of its controller, which creates a replacement; "" for a pod without one.
    owner_kind: str = "ReplicaSet"
    mirror: bool = False
    age_s: float = 3600.0
    restarts: int = 0
    #: Whether a container waits for its restart after a crash.
    crashing: bool = False
    local_storage: bool = False
    #: Whether its work has an end, as that of a Job or a pipeline; a move discards its progress.
    ends: bool = False
    #: The objection of an annotation of the pod.
    objection: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Measured usage of nodes, and of pods by uid, by resource, in the units of `rota.api.resources`."""

    nodes: Mapping[str, Mapping[str, int]]
    pods: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The move of one pod."""

    uid: str
    namespace: str
    name: str
    source: str
    #: The node that the scheduler would choose today.
    target: str
    strategy: Strategy
    #: The reason, as text.
    why: str
    #: The scheduler's scores of both nodes; None if it would refuse the source.
    score_before: int | None
    score_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftMeasurement:
    """The drift of a cluster in numbers, compared in order: the lower the better."""

    violations: int
    duplicates: int
    unevenness: float
    #: Nodes with pods that could be moved.
    nodes_in_use: int
    #: The share of each node's most used resource.
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All moves of one run in order, and the pods that stay although another node would be better, with the reason."""

    moves: Sequence[Move]
    #: By namespace/name.
    stays: Mapping[str, str]
    before: DriftMeasurement
    after: DriftMeasurement
