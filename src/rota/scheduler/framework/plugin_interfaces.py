"""The extension points of the scheduler, and the methods by which a plugin implements them.

A plugin is one class in one file. It takes part in an extension point by having the point's method; it need not inherit
anything. Filter and Score come in two forms, and a plugin may have either or both:

- *scalar*: one node at a time, the interface that authors of kube-scheduler plugins know;
- *vector*: all nodes at once, arrays in and out. A filter returns a reason code per node, 0 where the pod may go.

The runtime mixes both. If both forms are present it calls the scalar one for a few changed nodes and the vector one for
many, so the two must agree exactly. `rows` always indexes the node axis of a column (a slice or an index array);
results have one entry per selected row. Where a status is expected, None means success, as nil does in Go. Every method
is pure: no I/O, no clock, no randomness. The exceptions are PreBind, Bind and PostBind, which are coroutines.

In the signatures `PodInfo` is the pod to place, `NodeInfo` one node, and `Cluster` all nodes as columns.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
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
    """An extension point of the scheduling of a pod, in order."""

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


@runtime_checkable
class Plugin(Protocol):
    """What every plugin has. It is built once per profile as `PluginClass(args, handle)`."""

    #: The name in configuration files, statuses and metrics.
    name: ClassVar[str]


# --- before an attempt ----------------------------------------------------------------------------------------------


class SortsQueue(Protocol):
    """QueueSort: the order of waiting pods. Exactly one per scheduler."""

    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """Give a value that orders waiting pods, smallest first."""


class GatesQueue(Protocol):
    """PreEnqueue: whether a pod may enter the active queue; anything but success holds it back."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Say whether the pod may enter the queue."""


class WakesPods(Protocol):
    """EnqueueExtensions: the events that may help a pod that this plugin refused. Without it, every event does."""

    def events_to_register(self) -> Sequence[Subscription]:
        """The subscriptions; called once, at start."""


# --- filtering ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The result of PreFilter. The status decides; the other fields reduce the nodes.

    - success: go on; `skip`: do not call this plugin's Filter; unresolvable: the attempt ends here;
      unschedulable: the attempt fails after the other PreFilters ran.
    """

    status: Status = SUCCESS
    #: The only eligible nodes (None: no restriction). All others count as unresolvable.
    node_names: frozenset[str] | None = None
    #: A prefilter mask: rows outside of it need no Filter, because `refusal` holds there (None: no mask).
    candidates: BoolArray | None = None
    refusal: Status = SUCCESS


class PreFilters(Protocol):
    """PreFilter: compute once what Filter needs for every node, or end the attempt early."""

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> PreFilterResult:
        """Inspect the pod and the cluster; write what Filter needs into `state`."""


class AdjustsPreFilter(Protocol):
    """PreFilterExtensions: update the state when a pod is added to or removed from a node in a what-if transaction.

    `node` has the change already. The state is a copy and may be changed.
    """

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        """Add `other` on `node`."""

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> Status | None:
        """Remove `other` from `node`."""


class Filters(Protocol):
    """Filter, scalar form."""

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Say whether the pod may go to this node."""


class Reprieves(Protocol):
    """Optional: for filters that depend on the other pods of a node only by their sums.

    If such a filter is the only one that depends on pods, preemption need not call it pod by pod.
    """

    def reprieve(
        self, state: CycleState, pod: PodInfo, node: NodeInfo, others: Sequence[PodInfo]
    ) -> Sequence[bool] | Status:
        """Return which of the other pods on the node can stay beside the pod.

        They are removed, and put back one by one in the given order while the pod still fits. If it does not fit even
        without any of them, the result is the refusal.
        """


class FiltersAll(Protocol):
    """Filter, vector form."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray | None:
        """One code per selected row: 0 where the pod may go, else a positive number that `explain` translates.

        None means that the pod may go to all of them.
        """

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """Turn a code other than 0 into the status it stands for."""


class NodeStatuses(Protocol):
    """The reason why each node was refused, for PostFilter plugins."""

    def status_of(self, row: int) -> Status:
        """The status of the node in this row."""

    def unresolvable(self) -> BoolArray:
        """The rows where evictions cannot help; shape (N,)."""


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The result of PostFilter: success with a nominated node, or unschedulable with reasons."""

    status: Status
    #: None: leave the pod's nomination as it is; "": clear it.
    nominated_node: str | None = None
    #: Pods to evict before the pod is bound.
    victims: tuple[PodInfo, ...] = ()
    #: All candidates that were found, for extenders that take part in preemption; values of
    #: `rota.scheduler.preemption.victims.Candidate`.
    candidates: tuple[Any, ...] = ()


class PostFilters(Protocol):
    """PostFilter: try to make room when no node was feasible.

    A plugin with the class attribute `refuses_by_shape = True` says that a refusal without a nominated node depends on
    the pod's shape and the cluster only. It is then not asked again for equal pods until something changes.
    """

    def post_filter(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, statuses: NodeStatuses
    ) -> PostFilterResult:
        """Try to make room; the attempt ends unschedulable whatever the result."""


# --- scoring --------------------------------------------------------------------------------------------------------


class PreScores(Protocol):
    """PreScore: compute once what Score needs; `skip` leaves out this plugin's Score."""

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> Status | None:
        """Inspect the feasible rows, a mask of shape (N,)."""


class Scores(Protocol):
    """Score, scalar form."""

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score a feasible node, 0 to 100 after normalisation, higher is better."""


class ScoresAll(Protocol):
    """Score, vector form."""

    def score_nodes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        """Score the selected rows; scores of infeasible rows are ignored."""


class Normalizes(Protocol):
    """NormalizeScore, scalar form: bring the scores of all feasible nodes into 0..100."""

    def normalize_scores(self, state: CycleState, pod: PodInfo, scores: Mapping[str, int]) -> Mapping[str, int]:
        """The final scores by node name."""


class NormalizesAll(Protocol):
    """NormalizeScore, vector form, in two steps, so that one changed node need not change all others."""

    def bounds(self, state: CycleState, pod: PodInfo, scores: IntArray) -> Hashable:
        """Summarise the raw scores of all feasible nodes (for example their maximum)."""

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray, bounds: Any) -> IntArray:
        """Scale raw scores to 0..100; each entry may depend on itself and on `bounds` only."""


# --- sharing work between equal pods --------------------------------------------------------------------------------


class Reuse(Enum):
    """How much of an earlier result for an equal pod is valid after the cluster changed."""

    #: Only the changed rows (those with a change in a watched scope) must be evaluated again.
    ROWS = "rows"
    #: The prepared state is valid or was updated; all rows must be evaluated again.
    ALL_ROWS = "all rows"
    #: PreFilter (or PreScore) must run again.
    AGAIN = "again"


class Signed(Protocol):
    """Optional: a plugin that can tell which pods are equal to it. Without it, evaluations are not shared.

    Pods with equal signatures must get equal results from every point of the plugin, on any cluster.
    """

    #: The change scopes of a node that the plugin's per-node results depend on; it ignores other changes.
    watches: ClassVar[ChangeScope]

    def signature(self, pod: PodInfo) -> Hashable | None:
        """What the plugin reads of the pod; None: results for this pod cannot be shared."""


class ReusesFilter(Protocol):
    """For plugins whose Filter on one node depends on other nodes. Without it: `Reuse.ROWS`."""

    def reuse_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes) -> Reuse:
        """Say how much is still valid; may update the state in place."""


class ReusesScore(Protocol):
    """For plugins whose raw Score on one node depends on other nodes. Without it: `Reuse.ROWS`."""

    def reuse_score(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, changes: Changes, *, feasible_changed: bool
    ) -> Reuse:
        """Say how much is still valid; may update the state in place."""


# --- from decision to binding ---------------------------------------------------------------------------------------


class Reserves(Protocol):
    """Reserve and Unreserve: resources that only this plugin accounts for."""

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Reserve; a refusal ends the attempt and releases everything."""

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Release; also called for plugins whose `reserve` never ran, so it must be harmless then."""


@dataclass(frozen=True, slots=True)
class PermitResult:
    """Allow (success), reject, or wait with a time-out."""

    status: Status = SUCCESS
    timeout_s: float = 0.0


class Permits(Protocol):
    """Permit: the last check before binding; may ask to wait."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        """Allow, reject, or wait."""


@dataclass(frozen=True, slots=True)
class PreBindPlan:
    """Whether PreBind has work, and whether it may run concurrently with other plugins' PreBind."""

    status: Status = SUCCESS
    parallel: bool = False


class PreBinds(Protocol):
    """PreBind: work that must be done before the pod is bound."""

    def pre_bind_plan(self, state: CycleState, pod: PodInfo, node_name: str) -> PreBindPlan:
        """What is to be done; `skip` leaves out `pre_bind`."""

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Do the work."""


class Binds(Protocol):
    """Bind: write the placement to the API server. The first plugin that does not skip decides."""

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Bind the pod, or skip."""


class PostBinds(Protocol):
    """PostBind: called after a pod was bound, for information."""

    async def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Handle the bound pod."""


#: The methods that mark a class as taking part in a point; any one of them suffices.
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
}


def points_of(plugin: type) -> frozenset[ExtensionPoint]:
    """The points that a plugin class takes part in."""
    return frozenset(
        point for point, methods in METHODS.items() if any(callable(getattr(plugin, name, None)) for name in methods)
    )
