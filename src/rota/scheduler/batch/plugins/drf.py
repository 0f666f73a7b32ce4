"""drf: groups with the smallest dominant share go first; with a hierarchy, so do the queues of a weighted tree.

A group's dominant share is the largest part that it has of any resource of the cluster. In a tree, an inner node counts
its children as if all that still want something had the share of the poorest; children that are served count in full.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from rota.scheduler.batch.amounts import Amounts, share
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin, Victims
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.quiet_groups import allocated
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task

#: Shares that differ by less are equal for preemption.
SHARE_DELTA: Final = 0.000001
_TREE_ONLY: Final = frozenset({"queue_order", "reclaimable"})


@dataclass(slots=True)
class Portion:
    """What a group or a part of the tree has."""

    allocated: Amounts = field(default_factory=Amounts)
    share: float = 0.0
    dominant: str = ""


@dataclass(slots=True)
class TreeNode:
    """A part of the tree: a queue's name, or a group."""

    portion: Portion
    weight: float = 1.0
    request: Amounts = field(default_factory=Amounts)
    #: None for a group.
    children: "dict[str, TreeNode] | None" = None
    #: Whether it has what it wants, or wants what is used up.
    saturated: bool = False

    def copy(self) -> "TreeNode":
        """Give an independent tree."""
        portion = Portion(self.portion.allocated.copy(), self.portion.share, self.portion.dominant)
        children = None if self.children is None else {name: each.copy() for name, each in self.children.items()}
        return TreeNode(portion, self.weight, self.request.copy(), children, self.saturated)


class DominantResourceFairness(BatchPlugin):
    """Order and preemption by dominant shares."""

    name: ClassVar[str] = "drf"

    def __init__(self, session: Session, arguments: object, *, hierarchy: bool) -> None:
        self._session = session
        self._hierarchy = hierarchy
        self._total = session.total
        self._names = self._total.names()
        self._portions: dict[str, Portion] = {}
        self._root = TreeNode(Portion(), children={})
        self._allocated = Amounts()

    def open(self) -> None:
        """Work out the shares of all groups for a tree; without one, those of quiet groups follow on demand."""
        session = self._session
        for job in (session.jobs if self._hierarchy else session.active).values():
            portion = self._portions[job.key] = Portion(allocated(job))
            self._update(portion)
            if self._hierarchy:
                self._allocated.add(portion.allocated)
                self._grow(self._root, job, portion, self._allocated)

    def _portion(self, key: str) -> Portion:
        """Give what a group has; a group that was quiet until now has what its pods use at this moment."""
        portion = self._portions.get(key)
        if portion is None:
            portion = self._portions[key] = Portion(allocated(self._session.jobs[key]))
            self._update(portion)
        return portion

    def offers(self, method: str) -> bool:
        """Without a tree there is no order of queues, and nothing to reclaim."""
        return (self._hierarchy or method not in _TREE_ONLY) and super().offers(method)

    def job_order(self, left: Job, right: Job) -> float:
        """The smaller share first."""
        one, other = self._portion(left.key).share, self._portion(right.key).share
        return (one > other) - (one < other)

    def job_key(self, job: Job) -> float:
        """The share."""
        return self._portion(job.key).share

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> Victims:
        """A pod may go if its group still has at least the share that the preemptor's would have."""
        mine = self._shared(self._portion(preemptor.job).allocated.copy().add(preemptor.request))[1]
        left: dict[str, Amounts] = {}
        victims = []
        for task in candidates:
            remains = left.setdefault(task.job, self._portion(task.job).allocated.copy()).sub(task.request)
            theirs = self._shared(remains)[1]
            if mine < theirs or abs(mine - theirs) <= SHARE_DELTA:
                victims.append(task)
        return victims

    def queue_order(self, left: Queue, right: Queue) -> float:
        """By the tree."""
        return self.compare(self._root, left, right)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> Victims:
        """A pod may go if the reclaimer's queue would still come before its own after the move."""
        session = self._session
        allocated, root = self._allocated.copy(), self._root.copy()
        job = session.jobs[reclaimer.job]
        queue = session.queues[job.queue]
        portion = Portion(self._portions[job.key].allocated.copy().add(reclaimer.request))
        allocated.add(reclaimer.request)
        self._update(portion)
        self._grow(root, job, portion, allocated)
        victims = []
        for task in candidates:
            theirs = session.jobs[task.job]
            allocated.sub(task.request)
            rest = Portion(self._portions[theirs.key].allocated.copy().sub(task.request))
            self._update(rest)
            self._grow(root, theirs, rest, allocated)
            difference = self.compare(root, queue, session.queues[theirs.queue])
            allocated.add(task.request)
            rest.allocated.add(task.request)
            self._update(rest)
            self._grow(root, theirs, rest, allocated)
            if difference < 0:
                victims.append(task)
        return victims

    def on_allocate(self, task: Task) -> None:
        """Count a pod in."""
        self._count(task, 1)

    def on_deallocate(self, task: Task) -> None:
        """Count a pod out."""
        self._count(task, -1)

    def _count(self, task: Task, sign: int) -> None:
        known = task.job in self._portions
        portion = self._portion(task.job)
        if not known:
            return  # The pod was moved before this call, so it is counted. Pods of quiet groups are only evicted.
        (portion.allocated.add if sign > 0 else portion.allocated.sub)(task.request)
        self._update(portion)
        if self._hierarchy:
            (self._allocated.add if sign > 0 else self._allocated.sub)(task.request)
            self._grow(self._root, self._session.jobs[task.job], portion, self._allocated)

    def report(self) -> Mapping[str, Any]:
        """Give the shares that were worked out."""
        return {key: {"share": each.share, "dominant": each.dominant} for key, each in self._portions.items()}

    # --- the tree ---------------------------------------------------------------------------------------------------

    def compare(self, root: TreeNode, left: Queue, right: Queue) -> float:
        """Compare two queues from the root down: what wants something first, then by share and weight."""
        paths = left.hierarchy.split("/"), right.hierarchy.split("/")
        one = other = root
        depth = min(len(path) for path in paths)
        for level in range(depth):
            if one.saturated != other.saturated:
                return 1.0 if one.saturated else -1.0
            difference = one.portion.share / one.weight - other.portion.share / other.weight
            if difference:
                return difference
            if level < depth - 1:
                one, other = (
                    (node.children or {})[path[level + 1]] for node, path in zip((one, other), paths, strict=True)
                )
        return 0.0

    def _grow(self, root: TreeNode, job: Job, portion: Portion, allocated: Amounts) -> None:
        """Put a group into the tree, and work all shares out anew."""
        queue = self._session.queues[job.queue]
        names, weights = queue.hierarchy.split("/"), queue.hierarchy_weights.split("/")
        node = root
        for position, name in enumerate(names[1:], start=1):
            assert node.children is not None
            child = node.children.get(name)
            if child is None:
                weight = _weight(weights[position]) if position < len(weights) else 1.0
                child = node.children[name] = TreeNode(Portion(), weight, children={})
            node = child
        assert node.children is not None
        node.children[job.key] = TreeNode(portion, request=job.requested.copy())
        wanted = {name for name in self._names if allocated.get(name) < self._total.get(name)}
        self._weigh(root, wanted)

    def _weigh(self, node: TreeNode, wanted: set[str]) -> None:
        if node.children is None:
            node.saturated = _saturated(node.portion.allocated, node.request, wanted)
            return
        lowest = 1.0
        for child in node.children.values():
            self._weigh(child, wanted)
            if child.portion.share != 0 and not child.saturated:
                lowest = min(lowest, self._shared(child.portion.allocated)[1])
        node.portion.allocated = Amounts()
        node.saturated = True
        for child in node.children.values():
            node.saturated &= child.saturated
            if child.portion.share != 0:
                part = child.portion.allocated
                if not child.saturated:
                    part = part.copy().scale(lowest / child.portion.share)
                node.portion.allocated.add(part)
        self._update(node.portion)

    def _update(self, portion: Portion) -> None:
        portion.dominant, portion.share = self._shared(portion.allocated)

    def _shared(self, allocated: Amounts) -> tuple[str, float]:
        dominant, highest = "", 0.0
        for name in self._names:
            part = share(allocated.get(name), self._total.get(name))
            if part > highest:
                dominant, highest = name, part
        return dominant, highest


def _weight(text: str) -> float:
    try:
        return max(float(text), 1.0)
    except ValueError:
        return 1.0


def _saturated(allocated: Amounts, request: Amounts, wanted: set[str]) -> bool:
    for name in allocated.names():
        asked = request.get(name)
        if allocated.get(name) != 0 and asked != 0 and allocated.get(name) >= asked:
            return True
        if name not in wanted and asked != 0:
            return True
    return False
