"""nodegroup: queues are bound to groups of nodes, given by a label; in a tree, queues inherit what they do not say."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, IndexArray
from rota.scheduler.batch import amounts
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.amounts import EPSILON, Amounts
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.queues import ROOT, Queue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import ALLOCATED
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import Verdicts
from rota.scheduler.framework.status import Code

LABEL: Final = "volcano.sh/nodegroup-name"
LIMITS: Final = "volcano.sh/nodegroup-resource-limits"
BASE_SCORE: Final = 100.0
NO_LABEL: Final = "node group label not found"
NO_AFFINITY: Final = "node group affinity not specified"
UNSATISFIED: Final = "node does not satisfy the node group affinity"
LIMIT_INVALID: Final = "queue node group resource limits invalid"
LIMIT_EXCEEDED: Final = "queue node group resource limit exceeded"

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class Affinity:
    """The groups that a queue wants, likes, dislikes and avoids."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        near, far = spec.get("nodeGroupAffinity") or {}, spec.get("nodeGroupAntiAffinity") or {}
        self.required: Final = frozenset(near.get(_REQUIRED) or ())
        self.preferred: Final[tuple[str, ...]] = tuple(near.get(_PREFERRED) or ())
        self.forbidden: Final = frozenset(far.get(_REQUIRED) or ())
        self.disliked: Final = frozenset(far.get(_PREFERRED) or ())

    @property
    def silent(self) -> bool:
        """Whether nothing is said."""
        return not (self.required or self.preferred or self.forbidden or self.disliked)

    def allows(self, group: str) -> bool:
        """Whether a queue may use a group: dislikes count before bans, bans before wishes."""
        if group in self.disliked:
            return True
        return group not in self.forbidden and (group in self.required or group in self.preferred)

    def score(self, group: str, *, ordered: bool) -> float:
        """Rate a group; earlier wishes more, if their order counts."""
        if group in self.disliked:
            return -1.0
        score = BASE_SCORE if group in self.required else 0.0
        if group in self.preferred:
            if ordered:
                places = {name: place for place, name in enumerate(self.preferred)}
                score += 0.5 * BASE_SCORE * float(len(places) - places[group]) / float(len(places))
            else:
                score += 0.5 * BASE_SCORE
        return score


class NodeGroup(BatchPlugin):
    """Nodes by queue."""

    name: ClassVar[str] = "nodegroup"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "strict": Argument(args.boolean, True),
        "enablePreferredOrder": Argument(args.boolean, False),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._session = session
        self._tree = hierarchy
        self._strict: bool = arguments["strict"]
        self._ordered: bool = arguments["enablePreferredOrder"]
        self._groups: Final = [labels.get(LABEL) for labels in session.nodes.labels]
        self._affinities: dict[str, Affinity | None] = {}
        #: By queue, what it may have in a group; None if what is written makes no sense.
        self._limits: dict[str, Mapping[str, Mapping[str, Any]] | None] = {}
        self._allocated: dict[tuple[str, str], Amounts] = {}

    def open(self) -> None:
        """Read affinities and limits of all queues."""
        session = self._session
        for queue in session.queues.values():
            self._affinities[queue.name] = self._affinity_of(queue)
            self._limits[queue.name] = _limits(queue)
        for job in session.jobs.values():
            for status in ALLOCATED:
                for task in job.of(status).values():
                    self._count(task, 1)

    def _affinity_of(self, queue: Queue) -> Affinity | None:
        seen: set[str] = set()
        current: Queue | None = queue
        while current is not None and current.name not in seen:
            if current.node_groups is not None:
                return Affinity(current.node_groups)
            seen.add(current.name)
            if not self._tree or current.name == ROOT:
                return None
            current = self._session.queues.get(current.parent or ROOT)
        return None

    def predicate(self, task: Task, rows: BoolArray) -> Verdicts | None:
        """Refuse nodes that the pod's queue may not use."""
        queue = self._session.jobs[task.job].queue
        affinity = self._affinities.get(queue)
        unset = affinity is None or affinity.silent
        reasons: dict[str, list[int]] = {}
        for row, group in enumerate(self._groups):
            reason = self._refusal(queue, affinity, unset, group, task)
            if reason:
                reasons.setdefault(reason, []).append(row)
        verdicts = Verdicts(len(rows))
        for reason, members in reasons.items():
            mask = np.zeros(len(rows), dtype=np.bool_)
            mask[members] = True
            verdicts.refuse(mask, Code.UNRESOLVABLE, reason)
        return verdicts if reasons else None

    def _refusal(
        self,
        queue: str,
        affinity: Affinity | None,
        unset: bool,
        group: str | None,
        task: Task,
    ) -> str:
        limits = self._limits.get(queue, {})
        if limits is None:
            return LIMIT_INVALID
        if group is None:
            return "" if not self._strict and unset else NO_LABEL
        if affinity is None or unset:
            return NO_AFFINITY
        if not affinity.allows(group):
            return UNSATISFIED
        if group in limits:
            would = self._allocated.get((queue, group), Amounts()).copy().add(task.request)
            bound = amounts.read(limits[group])
            if any(would.get(name) - bound.get(name) >= EPSILON for name in limits[group]):
                return LIMIT_EXCEEDED
        return ""

    def node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Rate nodes by their group."""
        affinity = self._affinities.get(self._session.jobs[task.job].queue)
        if affinity is None:
            return np.zeros(len(rows))
        groups = (self._groups[row] for row in rows.tolist())
        return np.asarray([0.0 if group is None else affinity.score(group, ordered=self._ordered) for group in groups])

    def on_allocate(self, task: Task) -> None:
        """Count a pod in."""
        self._count(task, 1)

    def on_deallocate(self, task: Task) -> None:
        """Count a pod out."""
        self._count(task, -1)

    def _count(self, task: Task, sign: int) -> None:
        row = self._session.nodes.rows.get(task.node)
        group = None if row is None else self._groups[row]
        if group is None:
            return
        figures = self._allocated.setdefault((self._session.jobs[task.job].queue, group), Amounts())
        (figures.add if sign > 0 else figures.sub)(task.request)


def _limits(queue: Queue) -> Mapping[str, Mapping[str, Any]] | None:
    text = queue.annotations.get(LIMITS, "")
    if not text:
        return {}
    try:
        read = json.loads(text)
        for each in read.values():
            amounts.read(each)
    except (ValueError, AttributeError, TypeError):
        return None
    return dict(read)
