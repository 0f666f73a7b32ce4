"""usage: nodes whose measured usage is above a threshold take no pods, and less used nodes are preferred.

The score of a node is the weighted mean of what is left of cpu and memory. To the measured usage it adds an estimate
for pods that the measurement does not contain: pods of groups that were placed after it, and those that this session
places. Without an estimate, all pods of a pass would go to the node that was idle at the last measurement.

A node without figures, or with figures older than five minutes, is not refused and gets no score.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, IndexArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.times import seconds
from rota.scheduler.batch.verdicts import Verdicts
from rota.scheduler.framework.status import Code

MAX_SCORE: Final = 100.0
_CPU: Final = 0
_MEMORY: Final = 1
#: The names of resources in `thresholds`, by row of the columns here.
_THRESHOLDS: Final = {"cpu": _CPU, "mem": _MEMORY}
_REASONS: Final = {
    _CPU: "measured cpu usage is above the threshold",
    _MEMORY: "measured memory usage is above the threshold",
}
#: The part of its request that a pod is expected to use.
_OF_REQUEST: Final = 0.7
#: On a node with more than this usage, the estimate is raised by the factor.
_BUSY: Final = 0.6
_RISK: Final = 1.2
#: The estimate for a pod without requests: thousandths of a core, and bytes.
_BEST_EFFORT: Final = (250.0, 200.0 * 2**20)


def thresholds(value: Any) -> dict[str, float]:
    """Read percentages of cpu and mem; a missing one is 80."""
    given = args.mapping(value)
    for name in given:
        if name not in _THRESHOLDS:
            raise ValueError(f'expected percentages of cpu and mem, found "{name}"')
    read = {name: args.number(given.get(name, 80)) for name in _THRESHOLDS}
    if not all(0 < percent <= 100 for percent in read.values()):
        raise ValueError("expected percentages above 0 and up to 100")
    return read


class Usage(BatchPlugin):
    """Filter and score by measured usage."""

    name: ClassVar[str] = "usage"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "usage.weight": Argument(args.integer, 5),
        "cpu.weight": Argument(args.integer, 1),
        "memory.weight": Argument(args.integer, 1),
        "thresholds": Argument(thresholds, {"cpu": 80.0, "mem": 80.0}),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._session: Final = session
        self._weight: Final[int] = arguments["usage.weight"]
        self._weights: Final = (arguments["cpu.weight"], arguments["memory.weight"])
        self._limits: Final = {_THRESHOLDS[name]: percent / 100 for name, percent in arguments["thresholds"].items()}
        nodes = session.nodes
        self._whole: Final[FloatArray] = nodes.allocatable[:2]
        #: Shape (2, N): measured usage as a part of the whole.
        self._part: Final[FloatArray] = np.zeros((2, len(nodes)))
        #: Shape (2, N): the estimate for pods that were not measured.
        self._added: Final[FloatArray] = np.zeros((2, len(nodes)))
        self._known: Final[BoolArray] = np.zeros(len(nodes), dtype=np.bool_)

    def open(self) -> None:
        """Read the figures, and add pods that came after them."""
        session, nodes = self._session, self._session.nodes
        for name, used in session.state.usage.items():
            row = nodes.rows.get(name)
            if row is None or not used.fresh(session.now):
                continue
            self._known[row] = True
            for index, amount in ((_CPU, used.cpu), (_MEMORY, used.memory)):
                whole = float(self._whole[index, row])
                self._part[index, row] = amount / whole if whole else 0.0
            for task in nodes.tasks[row].values():
                if task.status in (TaskStatus.BINDING, TaskStatus.BOUND) or _came_after(task, used.at):
                    self._count(task, row, 1.0)

    def predicate(self, task: Task, rows: BoolArray) -> Verdicts | None:
        """Refuse nodes above a threshold; evictions do not change a measurement."""
        verdicts = Verdicts(len(rows))
        for index, limit in self._limits.items():
            above = self._known & (self._part[index] > limit)
            if above.any():
                verdicts.refuse(above, Code.UNRESOLVABLE, _REASONS[index])
        return verdicts if verdicts.reasons else None

    def node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Rate what is left."""
        weights = float(sum(self._weights))
        if not weights or not self._weight:
            return np.zeros(len(rows))
        score: FloatArray = np.zeros(len(rows))
        for index, weight in enumerate(self._weights):
            whole = self._whole[index, rows]
            with np.errstate(divide="ignore", invalid="ignore"):
                added = np.where(whole > 0, self._added[index, rows] / whole, 0.0)
            score += weight * np.maximum(1.0 - self._part[index, rows] - added, 0.0)
        score *= MAX_SCORE * self._weight / weights
        score[~self._known[rows]] = 0.0
        return score

    def on_allocate(self, task: Task) -> None:
        """Add the estimate for a pod; one whose eviction was taken back is part of the measurement."""
        row = self._session.nodes.rows.get(task.node)
        if row is not None and task.status in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED):
            self._count(task, row, 1.0)

    def on_deallocate(self, task: Task) -> None:
        """Remove the estimate of a pod whose place was given up."""
        row = self._session.nodes.rows.get(task.node)
        if row is not None and task.status is TaskStatus.PENDING:
            self._count(task, row, -1.0)

    def _count(self, task: Task, row: int, sign: float) -> None:
        estimate = _BEST_EFFORT if task.best_effort else (task.request.cpu, task.request.memory)
        for index, amount in enumerate(estimate):
            expected = amount if task.best_effort else amount * _OF_REQUEST
            if self._part[index, row] > _BUSY:
                expected *= _RISK
            self._added[index, row] += sign * expected


def _came_after(task: Task, at: float) -> bool:
    return bool(task.member.scheduled_at) and seconds(task.member.scheduled_at) > at
