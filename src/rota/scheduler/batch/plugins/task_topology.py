"""task-topology: pods of roles that belong together go to the same node, those of roles that do not to different ones.

Pods are put into buckets, one bucket being what would best share a node. A node is worth what it has of the bucket,
less what it has of roles to stay away from, and what else of the bucket would still fit.
"""

from collections.abc import Iterable, Mapping
from functools import cmp_to_key
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns.arrays import FloatArray, IndexArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.amounts import Amounts
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import ROLE, Task

AFFINITY: Final = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
ORDER: Final = "volcano.sh/task-topology-task-order"
MAX_SCORE: Final = 100.0
#: How much each kind of relation counts when pods are ordered.
_SELF_ANTI, _BETWEEN, _SELF, _BETWEEN_ANTI = 4, 3, 2, 1


class Bucket:
    """Pods that would best share a node."""

    def __init__(self, index: int) -> None:
        self.index: Final = index
        self.tasks: dict[str, Task] = {}
        self.roles: dict[str, int] = {}
        #: A sum of all that its waiting pods ask for, to keep buckets even.
        self.weight = 0.0
        self.request: Final = Amounts()
        self.bound = 0
        self.nodes: dict[str, int] = {}

    def add(self, role: str, task: Task) -> None:
        """Put a pod in."""
        self.roles[role] = self.roles.get(role, 0) + 1
        if task.node:
            self.nodes[task.node] = self.nodes.get(task.node, 0) + 1
            self.bound += 1
            return
        self.tasks[task.uid] = task
        self.weight += _size(task.request)
        self.request.add(task.request)

    def bind(self, task: Task) -> None:
        """Take note that one of its pods got a node."""
        self.nodes[task.node] = self.nodes.get(task.node, 0) + 1
        self.bound += 1
        self.tasks.pop(task.uid, None)
        self.weight -= _size(task.request)
        self.request.sub(task.request)


class Relations:
    """What a group says about its roles, and the buckets that follow from it."""

    def __init__(self, near: Iterable[list[str]], far: Iterable[list[str]], order: list[str]) -> None:
        self._near: dict[str, set[str]] = {}
        self._far: dict[str, set[str]] = {}
        self._ranks: dict[str, int] = {}
        self._order: Final = {role: len(order) - place for place, role in enumerate(order)}
        for groups, related, alone, between in (
            (near, self._near, _SELF, _BETWEEN),
            (far, self._far, _SELF_ANTI, _BETWEEN_ANTI),
        ):
            for group in groups:
                if len(group) == 1:
                    related.setdefault(group[0], set()).add(group[0])
                    self._rank(group[0], alone)
                    continue
                for place, role in enumerate(group):
                    for other in group[:place]:
                        related.setdefault(role, set()).add(other)
                        related.setdefault(other, set()).add(role)
                    self._rank(role, between)
        self.buckets: list[Bucket] = []
        self.largest = 0
        self._bucket_of: dict[str, Bucket] = {}
        self._role_of: dict[str, str] = {}
        #: By node, how many pods of each role the session put there.
        self._placed: dict[str, dict[str, int]] = {}

    def _rank(self, role: str, rank: int) -> None:
        self._ranks[role] = max(self._ranks.get(role, 0), rank)

    def compare(self, left: Task, right: Task) -> int:
        """Above 0 if the first pod counts more."""
        one, other = self._role_of.get(left.uid, ""), self._role_of.get(right.uid, "")
        if one == other:
            return 0
        for ranking in (self._order, self._ranks):
            difference = ranking.get(one, 0) - ranking.get(other, 0)
            if difference:
                return 1 if difference > 0 else -1
        return 0

    def closeness(self, role: str, roles: Mapping[str, int], *, only_far: bool) -> int:
        """Count the pods that a role belongs to, less those that it stays away from."""
        total = 0
        for other, number in roles.items() if role else ():
            if not only_far and other in self._near.get(role, ()):
                total += number
            if other in self._far.get(role, ()):
                total -= number
        return total

    def fill(self, tasks: Iterable[Task]) -> None:
        """Put pods into buckets, those that count more first."""
        related = []
        for task in tasks:
            role = task.annotations.get(ROLE, "")
            if role in self._ranks:
                self._role_of[task.uid] = role
                related.append(task)
        related.sort(key=cmp_to_key(self._before))
        by_node: dict[str, Bucket] = {}
        for task in related:
            role = self._role_of[task.uid]
            bucket = by_node.get(task.node) if task.node else self._closest(role)
            if bucket is None:
                bucket = Bucket(len(self.buckets))
                self.buckets.append(bucket)
                if task.node:
                    by_node[task.node] = bucket
            self._bucket_of[task.uid] = bucket
            bucket.add(role, task)
            self.largest = max(self.largest, len(bucket.tasks) + bucket.bound)

    def _before(self, left: Task, right: Task) -> int:
        if left.node or right.node:
            if bool(left.node) != bool(right.node):
                return -1 if left.node else 1
            return (left.node > right.node) - (left.node < right.node)
        difference = self.compare(left, right)
        return -difference if difference else (left.name > right.name) - (left.name < right.name)

    def _closest(self, role: str) -> Bucket | None:
        best: Bucket | None = None
        highest = 0
        for bucket in self.buckets:
            closeness = self.closeness(role, bucket.roles, only_far=False)
            if best is None or closeness > highest:
                best, highest = bucket, closeness
            elif closeness == highest and bucket.weight < best.weight:
                best = bucket
        return best if highest >= 0 else None

    def bucket(self, task: Task) -> Bucket | None:
        """Give the bucket of a pod."""
        return self._bucket_of.get(task.uid)

    def bind(self, task: Task) -> None:
        """Take note that a pod got a node."""
        role = task.annotations.get(ROLE, "")
        if role:
            placed = self._placed.setdefault(task.node, {})
            placed[role] = placed.get(role, 0) + 1
        bucket = self.bucket(task)
        if bucket is not None:
            bucket.bind(task)

    def repulsion(self, role: str, node: str) -> int:
        """Give what speaks against a node: below 0, or 0."""
        return min(self.closeness(role, self._placed.get(node, {}), only_far=True), 0)


class TaskTopology(BatchPlugin):
    """Order and rate by buckets."""

    name: ClassVar[str] = "task-topology"
    arguments: ClassVar[Mapping[str, Argument]] = {"task-topology.weight": Argument(args.integer, 1)}

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._session = session
        self._weight: int = arguments["task-topology.weight"]
        self._relations: dict[str, Relations] = {}

    def open(self) -> None:
        """Make buckets for all groups that say something about their roles."""
        for job in self._session.active.values():
            relations = _relations(job) if job.of(TaskStatus.PENDING) else None
            if relations is not None:
                relations.fill(job.members.values())
                self._relations[job.key] = relations

    def task_order(self, left: Task, right: Task) -> float:
        """Pods in buckets first, of large buckets before small ones, then as their group orders roles."""
        one, other = self._relations.get(left.job), self._relations.get(right.job)
        if one is None or other is None:
            return 0
        first, second = one.bucket(left), other.bucket(right)
        if (first is None) != (second is None):
            return 1 if first is None else -1
        if left.job != right.job or first is None or second is None:
            return 0
        if len(first.tasks) != len(second.tasks):
            return len(second.tasks) - len(first.tasks)
        if first is second:
            return -one.compare(left, right)
        return first.index - second.index

    def node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Rate nodes for a pod in a bucket."""
        relations = self._relations.get(task.job)
        bucket = relations.bucket(task) if relations is not None else None
        if relations is None or bucket is None:
            return np.zeros(len(rows))
        nodes = self._session.nodes
        role = task.annotations.get(ROLE, "")
        scores = []
        for row in rows.tolist():
            room = nodes.amounts(nodes.idle, row).add(nodes.amounts(nodes.releasing, row))
            score = 0
            if not room.some_less(task.request):
                name = nodes.names[row]
                score = bucket.nodes.get(name, 0) + relations.repulsion(role, name) + len(bucket.tasks)
                score -= _surplus(bucket, task, room)
                scores.append(float(score * self._weight) * MAX_SCORE / float(relations.largest or 1))
            else:
                scores.append(0.0)
        return np.asarray(scores)

    def on_allocate(self, task: Task) -> None:
        """Count a pod in; one that is taken back stays counted."""
        relations = self._relations.get(task.job)
        if relations is not None:
            relations.bind(task)


def _surplus(bucket: Bucket, task: Task, room: Amounts) -> int:
    """Count the other pods of a bucket that would have to stay away for the rest to fit."""
    rest, away = bucket.request.copy(), 0
    if rest.fits(room):
        return 0
    for other in bucket.tasks.values():
        if other.uid == task.uid:
            continue
        rest.sub(other.request)
        away += 1
        if rest.fits(room):
            break
    return away


def _size(request: Amounts) -> float:
    return request.cpu + request.memory / 1024 / 1024 + sum(request.others.values())


def _relations(job: Job) -> Relations | None:
    """Read what a group says about its roles; None if that is nothing, or makes no sense."""
    texts = [job.annotations.get(name) for name in (AFFINITY, ANTI_AFFINITY, ORDER)]
    if all(text is None for text in texts):
        return None
    near, far = ([group.split(",") for group in text.split(";")] if text is not None else [] for text in texts[:2])
    order = texts[2].split(",") if texts[2] is not None else []
    roles = {task.role for task in job.members.values()}
    for group in (*near, *far, order):
        named = [role for role in group if role]
        if len(set(named)) != len(named) or not roles.issuperset(named):
            return None
    return Relations(near, far, order)
