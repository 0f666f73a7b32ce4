"""The plugin interface of batch scheduling: every method is optional, and a configuration can disable each.

A plugin is built for one session. The session calls only the methods that a plugin overrides. `sessions` combines
the results of several plugins.
"""

from collections.abc import Hashable, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, ClassVar

from rota.columns.arrays import BoolArray, FloatArray, IndexArray
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.hypernodes import HyperNode
from rota.scheduler.batch.jobs import Job, SubJob
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import Verdicts


class Vote(IntEnum):
    """A vote, which may be an abstention."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class Purpose(StrEnum):
    """The purpose of a search for domains."""

    ALLOCATE = "Allocate"
    EVICT = "Evict"


class Eviction(StrEnum):
    """Which action asks a plugin whether whole gangs may be evicted."""

    GANG_PREEMPT = "GangPreempt"
    GANG_RECLAIM = "GangReclaim"


class Trial:
    """One plugin's part in a dry run on one node; it does not change the session."""

    def remove(self, other: Task) -> bool:
        """Count another pod out; no ends the trial."""
        return True

    def add(self, other: Task) -> bool:
        """Count another pod in again; no ends the trial."""
        return True

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether the queue may give the pod what it asks for."""
        return True

    def fits(self, task: Task) -> bool:
        """Whether the node will do."""
        return True


#: The victims that a plugin accepts; None is an abstention.
Victims = list[Task] | None


class BatchPlugin:
    """A plugin that abstains from everything."""

    name: ClassVar[str]
    #: The arguments that the plugin takes, by name; a name that ends in "." stands for all that begin so.
    arguments: ClassVar[Mapping[str, Argument]] = {}
    #: Arguments that must be given.
    required: ClassVar[tuple[str, ...]] = ()
    #: Whether `node_order` of a node depends on the shape of the pod and on that node alone, so that it can be kept.
    rates_alone: ClassVar[bool] = False
    #: Whether `predicate` offers `refused_alone` and `crowded`, see `shape_search.Filters`.
    filters_alone: ClassVar[bool] = False

    #: Whether `job_enqueueable` depends on a group's queue, namespace and minimum resources alone, has no effect, and
    #: rejects all groups that are equal in these to one that it rejected before, while groups are let in.
    admits_by_need: ClassVar[bool] = False

    def __init__(self, session: Any, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        """Take the arguments, checked and complete."""

    def open(self) -> None:
        """Read the state of the session."""

    def begin(self) -> None:
        """Called when the plugins of the session have read the state and can be asked."""

    def offers(self, method: str) -> bool:
        """Whether the plugin is active for this state."""
        return getattr(type(self), method) is not getattr(BatchPlugin, method)

    # --- order: below 0 if the first goes first ---------------------------------------------------------------------

    def job_order(self, left: Job, right: Job) -> float:
        """Compare two groups."""
        raise NotImplementedError

    def job_key(self, job: Job) -> Any:
        """Give a value that sorts groups as `job_order` does, as long as none of their pods is moved."""
        raise NotImplementedError

    def queue_order(self, left: Queue, right: Queue) -> float:
        """Compare two queues."""
        raise NotImplementedError

    def task_order(self, left: Task, right: Task) -> float:
        """Compare two pods."""
        raise NotImplementedError

    def subjob_order(self, left: SubJob, right: SubJob) -> float:
        """Compare two sub-groups."""
        raise NotImplementedError

    def victim_queue_order(self, left: Queue, right: Queue, asking: Queue) -> float:
        """Compare two queues from which a third reclaims."""
        raise NotImplementedError

    # --- groups -----------------------------------------------------------------------------------------------------

    def job_valid(self, job: Job) -> str | None:
        """Say why a group cannot be scheduled at all, or None."""
        raise NotImplementedError

    def job_ready(self, job: Job) -> bool:
        """Whether a group may be bound."""
        raise NotImplementedError

    def job_pipelined(self, job: Job) -> Vote:
        """Whether a group may be pipelined."""
        raise NotImplementedError

    def job_starving(self, job: Job) -> bool:
        """Whether a group may preempt others."""
        raise NotImplementedError

    def job_enqueueable(self, job: Job) -> Vote:
        """Whether a group may be enqueued."""
        raise NotImplementedError

    def job_enqueued(self, job: Job) -> None:
        """Called when a group was enqueued."""
        raise NotImplementedError

    def job_needed(self, job: Job) -> bool:
        """Whether a group is enqueued though idle resources are missing: it will be planned, or will get them back."""
        raise NotImplementedError

    def job_refused(self, job: Job) -> None:
        """Called when allocate found no places for a group."""
        raise NotImplementedError

    def subjob_ready(self, subjob: SubJob) -> bool:
        """Whether a sub-group may be bound."""
        raise NotImplementedError

    def subjob_pipelined(self, subjob: SubJob) -> Vote:
        """Whether a sub-group may be pipelined."""
        raise NotImplementedError

    # --- queues -----------------------------------------------------------------------------------------------------

    def overused(self, queue: Queue) -> bool:
        """Whether a queue has reached its deserved share."""
        raise NotImplementedError

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether a queue may allocate a pod's request."""
        raise NotImplementedError

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether a queue may reclaim from others for these pods."""
        raise NotImplementedError

    # --- victims ----------------------------------------------------------------------------------------------------

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> Victims:
        """Choose victims for a pod of the same queue."""
        raise NotImplementedError

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> Victims:
        """Choose victims for a pod of another queue."""
        raise NotImplementedError

    def evictable(self, kind: Eviction, candidates: list[Task]) -> Victims:
        """Choose victims that are evicted with their gang."""
        raise NotImplementedError

    def victim_tasks(self, running: list[Task]) -> list[Task]:
        """Choose pods to evict independent of any preemptor."""
        raise NotImplementedError

    # --- nodes ------------------------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> str | None:
        """Prepare filtering for a pod; a reason ends the search."""
        raise NotImplementedError

    def predicate(self, task: Task, rows: BoolArray) -> Verdicts | None:
        """Filter nodes for a pod; the result may include other rows."""
        raise NotImplementedError

    def node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Score nodes one by one."""
        raise NotImplementedError

    def compares(self, task: Task) -> bool:
        """Whether `batch_node_order` may make a difference for the pod."""
        return True

    def node_key(self, task: Task, row: int) -> Hashable:
        """Give what `node_order` reads of a node for pods of this shape: equal keys, equal scores."""
        raise NotImplementedError

    def batch_node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Score nodes in comparison."""
        raise NotImplementedError

    def hypernode_order(self, subjob: SubJob, hypernodes: Sequence[str]) -> Mapping[str, float]:
        """Score domains for a sub-group."""
        raise NotImplementedError

    def job_gradients(self, job: Job, root: HyperNode, purpose: Purpose) -> list[list[HyperNode]]:
        """Give the domains that a group may use, those to try first first."""
        raise NotImplementedError

    def subjob_gradients(self, subjob: SubJob, root: HyperNode, purpose: Purpose) -> list[list[HyperNode]]:
        """Give the domains that a sub-group may use, those to try first first."""
        raise NotImplementedError

    def trial(self, task: Task, row: int) -> "Trial":
        """Begin a dry run of evictions on a node for this pod."""
        raise NotImplementedError

    # --- ledgers ----------------------------------------------------------------------------------------------------

    def on_allocate(self, task: Task) -> None:
        """Called when a pod was allocated or pipelined."""
        raise NotImplementedError

    def on_deallocate(self, task: Task) -> None:
        """Called when a pod was deallocated."""
        raise NotImplementedError

    def close(self) -> None:
        """Called at the end of the session."""

    def report(self) -> Mapping[str, Any]:
        """Give the plugin's figures, for explanations."""
        return {}
