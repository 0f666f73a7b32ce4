"""The extension points of the scheduler, and what a plugin implements to take part in them.

A plugin is one class in one file. It takes part in a point by having the point's method; it need not inherit anything.
Filter and Score come in two forms, and a plugin may have either or both:

- *scalar*: one node at a time, the contract that authors of kube-scheduler plugins know;
- *vector*: all nodes at once, arrays in and out. A filter answers with a reason code per node, 0 where the pod may go.

The runtime mixes both. With both forms present it asks the scalar one about a handful of changed nodes and the vector
one about many, so the two must agree exactly. `rows` is always something that indexes the node axis of a column (a
slice or an index array); answers have one entry per selected row. Where a status is due, None means success, as nil
does in Go. Every method is pure: no I/O, no clock, no chance.
The exceptions are PreBind, Bind and PostBind, which are coroutines.

Signatures speak of `PodInfo` (the pod to place), `NodeInfo` (one node) and `Cluster` (all of them, as columns).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, ClassVar, Protocol, runtime_checkable

from rota.columns.arrays import BoolArray, CodeArray, IntArray, Rows
from rota.columns.change_log import Changes, ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework.events import Subscription
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Status

MIN_SCORE = 0
MAX_SCORE = 100


class ExtensionPoint(StrEnum):
    """A place in the scheduling of a pod, or of a group of pods, where plugins are called; in order of passing."""

    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_FEASIBLE = "placementFeasible"
    PLACEMENT_SCORE = "placementScore"
    POD_GROUP_POST_FILTER = "podGroupPostFilter"


@runtime_checkable
class Plugin(Protocol):
    """What every plugin has. It is built once per profile as `PluginClass(args, handle)`."""

    #: The name in configuration files, statuses and metrics.
    name: ClassVar[str]


# --- before an attempt ----------------------------------------------------------------------------------------------


class SortsQueue(Protocol):
    """QueueSort: which waiting pod comes next. Exactly one per scheduler."""

    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """Give a value that orders waiting pods, smallest first."""


class GatesQueue(Protocol):
    """PreEnqueue: whether a pod may wait for an attempt at all; anything but success holds it back."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Say whether the pod may enter the queue."""


class WakesPods(Protocol):
    """EnqueueExtensions: which events may help a pod that this plugin refused. Without it, every event does."""

    def events_to_register(self) -> Sequence[Subscription]:
        """Give the subscriptions; asked once, at start."""


# --- filtering ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """What PreFilter found out. The status decides; the rest narrows the nodes.

    - success: go on; `skip`: leave out my Filter; unresolvable: the attempt ends here;
      unschedulable: the attempt fails after the other PreFilters ran.
    """

    status: Status = SUCCESS
    #: Only these nodes come into question (None: no opinion). All others count as unresolvable.
    node_names: frozenset[str] | None = None
    #: A coarse sieve: rows that Filter need not look at, because `refusal` is known to hold there (None: no opinion).
    candidates: BoolArray | None = None
    refusal: Status = SUCCESS


class PreFilters(Protocol):
    """PreFilter: work out once what Filter needs for every node, or end the attempt early."""

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Look at the pod and the cluster; write what Filter needs into `state`."""


class AdjustsPreFilter(Protocol):
    """PreFilterExtensions: keep the state right when a pod is added to or taken from a node in a what-if question.

    `node` shows the node with the change already made. The state is a copy; change it freely.
    """

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        """Count `other` in on `node`."""

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        """Count `other` out on `node`."""


class Filters(Protocol):
    """Filter, scalar form."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Say whether the pod may go to this node."""


class Reprieves(Protocol):
    """For filters that care about the other pods of a node only by what they add up to. Optional.

    Where such a filter is the only one that depends on pods, preemption need not ask it pod by pod.
    """

    def reprieve(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, others: Sequence[PodInfo]
    ) -> Sequence[bool] | Status:
        """Say which of the others, all on the node, can stay beside the pod.

        They are taken off, and put back one by one in the given order while the pod still fits. If it would not fit
        even without any of them, the answer is the refusal.
        """


class FiltersAll(Protocol):
    """Filter, vector form."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray | None:
        """Give one code per selected row: 0 where the pod may go, else a positive number that `explain` understands.

        None says that the pod may go to all of them.
        """

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """Turn a code other than 0 into the status it stands for."""


class NodeStatuses(Protocol):
    """Why each node was refused, as PostFilter plugins see it."""

    def status_of(self, row: int) -> Status:
        """Give the verdict on the node in this row."""

    def unresolvable(self) -> BoolArray:
        """Give the rows where evictions cannot help; shape (N,)."""


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What PostFilter achieved: success with a nominated node, or unschedulable with reasons."""

    status: Status
    #: None: leave the pod's nomination as it is; "": clear it.
    nominated_node: str | None = None
    #: Pods to evict first.
    victims: tuple[PodInfo, ...] = ()
    #: Every way that was found, for extenders with a say in it; values of
    #: `rota.scheduler.preemption.victims.Candidate`.
    candidates: tuple[Any, ...] = ()


class PostFilters(Protocol):
    """PostFilter: try to make room when no node was feasible."""

    def post_filter(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, statuses: NodeStatuses
    ) -> PostFilterResult:
        """Look for a way; the attempt ends unschedulable whatever the answer is."""


# --- scoring --------------------------------------------------------------------------------------------------------


class PreScores(Protocol):
    """PreScore: work out once what Score needs; skip leaves out my Score."""

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> Status | None:
        """Look at the feasible rows, a mask of shape (N,)."""


class Scores(Protocol):
    """Score, scalar form."""

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate a feasible node, 0 to 100 after normalisation, higher is better."""


class ScoresAll(Protocol):
    """Score, vector form."""

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Rate the selected rows; what is said about infeasible ones is ignored."""


class Normalizes(Protocol):
    """NormalizeScore, scalar form: bring the scores of all feasible nodes into 0..100."""

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: Mapping[str, int]) -> Mapping[str, int]:
        """Give the final scores by node name."""


class NormalizesAll(Protocol):
    """NormalizeScore, vector form, in two steps, so that one changed node need not touch all others."""

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> Hashable:
        """Summarise the raw scores of all feasible nodes (say, their maximum)."""

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        """Bring raw scores into 0..100; each entry may depend on itself and on `bounds` only."""


# --- sharing work between equal pods --------------------------------------------------------------------------------


class Reuse(Enum):
    """How much of an earlier answer for an equal pod still holds after the cluster changed."""

    #: Only the changed rows (those whose watched facets changed) must be looked at again.
    ROWS = "rows"
    #: What was prepared holds, or was brought up to date; all rows must be looked at again.
    ALL_ROWS = "all rows"
    #: PreFilter (or PreScore) must run again.
    AGAIN = "again"


class Signed(Protocol):
    """A plugin that can tell which pods are all the same to it. Optional; without it, no work is shared.

    Pods with equal signatures must get equal answers from every point of the plugin, on any cluster.
    """

    #: What on a node the plugin's per-node answers depend on; changes to other facets do not concern it.
    watches: ClassVar[ChangeScope]

    def signature(self, pod: PodInfo) -> Hashable | None:
        """Give what the plugin reads of the pod; None: this pod's answers cannot be shared."""


class ReusesFilter(Protocol):
    """For plugins whose Filter on one node depends on other nodes. Without it: `Reuse.ROWS`."""

    def reuse_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes) -> Reuse:
        """Say what still holds; may bring the state up to date in place."""


class ReusesScore(Protocol):
    """For plugins whose raw Score on one node depends on other nodes. Without it: `Reuse.ROWS`."""

    def reuse_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes, *, feasible_changed: bool
    ) -> Reuse:
        """Say what still holds; may bring the state up to date in place."""


# --- from decision to binding ---------------------------------------------------------------------------------------


class Reserves(Protocol):
    """Reserve and Unreserve: claim and give back what only this plugin accounts for."""

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Claim; a refusal ends the attempt and gives back everything."""

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give back; also called for plugins whose `reserve` never ran, so it must be harmless then."""


@dataclass(frozen=True, slots=True)
class PermitResult:
    """Allow (success), reject, or wait with a time-out."""

    status: Status = SUCCESS
    timeout_s: float = 0.0


class Permits(Protocol):
    """Permit: the last word before binding; may ask to wait for something."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        """Allow, reject, or wait."""


@dataclass(frozen=True, slots=True)
class PreBindPlan:
    """Whether PreBind has something to do, and whether it may run beside other plugins' PreBind."""

    status: Status = SUCCESS
    parallel: bool = False


class PreBinds(Protocol):
    """PreBind: work in the world that must be done before the pod is bound."""

    def pre_bind_plan(self, state: CycleState, pod: PodInfo, node_name: str) -> PreBindPlan:
        """Say what is to be done; skip leaves out `pre_bind`."""

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Do it."""


class Binds(Protocol):
    """Bind: make the placement known. The first plugin that does not skip decides."""

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Bind the pod, or skip."""


class PostBinds(Protocol):
    """PostBind: for the record, after a pod was bound."""

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Take note."""


# --- groups of pods -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """Pods that are placed together; `min_count` of them at once or none."""

    namespace: str
    name: str
    pods: tuple[PodInfo, ...]
    min_count: int = 0
    #: Topology key whose domains a placement must stay inside ("" for none).
    topology_key: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """A named set of nodes on which a group may be tried."""

    name: str
    #: Rows of the placement; shape (N,).
    rows: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProgress:
    """How far a placement has come: which members have a node, which have yet to be tried."""

    placed: Mapping[str, str] = field(default_factory=dict)  # pod uid -> node name
    remaining: int = 0


class GeneratesPlacements(Protocol):
    """PlacementGenerate: the node sets to try a group on. At most one per profile."""

    def placement_generate(
        self, state: CycleState, group: PodGroup, cluster: Cluster, parent: Placement
    ) -> Sequence[Placement]:
        """Give placements inside `parent`; none means unschedulable."""


class ChecksPlacements(Protocol):
    """PlacementFeasible: asked before the first and after every member."""

    def placement_feasible(self, state: CycleState, group: PodGroup, progress: GroupProgress) -> Status:
        """Success sticks; wait means it may still work; unschedulable gives this placement up."""


class ScoresPlacements(Protocol):
    """PlacementScore: rate feasible placements where there are several."""

    def placement_score(self, state: CycleState, group: PodGroup, cluster: Cluster, placement: Placement) -> int:
        """Rate, 0 to 100."""


class TriesGroup(Protocol):
    """A callable that tries to place the whole group on the cluster as it is now (what-if changes included)."""

    def __call__(self, group: PodGroup) -> Mapping[str, str] | None:
        """Give node names by pod uid, or None."""


@dataclass(frozen=True, slots=True)
class GroupPostFilterResult:
    """Nominated nodes by pod uid, and the pods to evict first."""

    status: Status
    nominated: Mapping[str, str] = field(default_factory=dict)
    victims: tuple[PodInfo, ...] = ()


class PostFiltersGroup(Protocol):
    """PodGroupPostFilter: try to make room for a whole group. May change the cluster inside a `trial`."""

    def pod_group_post_filter(
        self, state: CycleState, group: PodGroup, cluster: Cluster, try_group: TriesGroup
    ) -> GroupPostFilterResult:
        """Look for a way."""


#: By which methods a class is known to take part in a point; any one of them suffices.
METHODS: Mapping[ExtensionPoint, tuple[str, ...]] = {
    ExtensionPoint.PRE_ENQUEUE: ("pre_enqueue",),
    ExtensionPoint.QUEUE_SORT: ("sort_key",),
    ExtensionPoint.PRE_FILTER: ("pre_filter",),
    ExtensionPoint.FILTER: ("filter", "filter_nodes"),
    ExtensionPoint.POST_FILTER: ("post_filter",),
    ExtensionPoint.PRE_SCORE: ("pre_score",),
    ExtensionPoint.SCORE: ("score", "score_nodes"),
    ExtensionPoint.RESERVE: ("reserve",),
    ExtensionPoint.PERMIT: ("permit",),
    ExtensionPoint.PRE_BIND: ("pre_bind",),
    ExtensionPoint.BIND: ("bind",),
    ExtensionPoint.POST_BIND: ("post_bind",),
    ExtensionPoint.PLACEMENT_GENERATE: ("placement_generate",),
    ExtensionPoint.PLACEMENT_FEASIBLE: ("placement_feasible",),
    ExtensionPoint.PLACEMENT_SCORE: ("placement_score",),
    ExtensionPoint.POD_GROUP_POST_FILTER: ("pod_group_post_filter",),
}


def points_of(plugin: type) -> frozenset[ExtensionPoint]:
    """Give the points that a plugin class takes part in."""
    return frozenset(
        point for point, methods in METHODS.items() if any(callable(getattr(plugin, name, None)) for name in methods)
    )
