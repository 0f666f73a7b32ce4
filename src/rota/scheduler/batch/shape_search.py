"""The best node for a pod, kept by shape: only nodes that changed since the last pod of that shape are looked at again.

It gives the same node as judging and rating all nodes anew, and is used only where that is certain: filters judge the
pod by its shape and by each node alone, ratings depend on the shape and on each node alone, and ratings in comparison
make no difference. Otherwise, and where no node fits (then reasons are wanted), the whole search is made.
"""

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, IndexArray
from rota.columns.pods import PodShape
from rota.scheduler.batch.nodes import NodeTable
from rota.scheduler.batch.ratings import Rating
from rota.scheduler.batch.tasks import Task

#: Up to so many changed nodes are looked at one by one.
_FEW: Final = 8
#: More changed nodes than this are looked at by computing everything anew.
_MOST_CHANGED: Final = 512

#: What a rating for a pod reads of the node in a row.
Describe: TypeAlias = Callable[[Task, int], Hashable]


class Filters(Protocol):
    """What filters say of nodes for a pod, if they judge each node alone."""

    def refused_alone(self, task: Task) -> BoolArray | None:
        """The nodes that are refused whatever happens in this session; None if other pods matter to the pod."""

    def crowded(self, rows: IndexArray) -> BoolArray:
        """Which of the nodes have no place for another pod."""

    def is_crowded(self, row: int) -> bool:
        """Whether a node has no place for another pod."""


class Found(NamedTuple):
    """A node, and whether it has the resources already."""

    row: int
    idle: bool


class _Known:
    """What is known for a shape; the arrays are by row."""

    __slots__ = ("future", "idle", "open", "ratings", "scores", "seen")

    def __init__(self, open_rows: BoolArray) -> None:
        #: Not refused by filters whatever happens.
        self.open: Final = open_rows
        self.idle: BoolArray = open_rows
        self.future: BoolArray = open_rows
        #: Ratings, minus infinity where the pod does not fit idle resources.
        self.scores: FloatArray = np.zeros(len(open_rows))
        #: Ratings by what the plugins read of a node.
        self.ratings: Final[dict[tuple[Hashable, ...], float]] = {}
        self.seen = 0


class ShapeSearch:
    """Searches of one session."""

    def __init__(self, nodes: NodeTable, filters: Filters | None, ratings: list[Rating], keys: list[Describe]) -> None:
        """Without `filters`, nodes are judged by resources alone. `keys` give what each rating reads of a node."""
        self._nodes: Final = nodes
        self._filters: Final = filters
        self._ratings: Final = ratings
        self._keys: Final = keys
        self._known: Final[dict[PodShape, _Known]] = {}

    def best(self, task: Task, rows: BoolArray | None) -> Found | None:
        """Give the best of some nodes, or of all; None if no node fits, or if the search does not apply."""
        known = self._updated(task)
        if known is None:
            return None
        scores = known.scores if rows is None else np.where(rows, known.scores, -np.inf)
        row = int(scores.argmax())
        if scores[row] > -np.inf:
            return Found(row, idle=True)
        later = known.future if rows is None else known.future & rows
        candidates = np.flatnonzero(later)
        if not len(candidates):
            return None
        return Found(int(candidates[int(self._rate(task, candidates).argmax())]), idle=False)

    def decides(self, task: Task) -> bool:
        """Whether the search applies to a pod."""
        return self._filters is None or self._filters.refused_alone(task) is not None

    def _updated(self, task: Task) -> _Known | None:
        shape, nodes = task.info.shape, self._nodes
        refused = None if self._filters is None else self._filters.refused_alone(task)
        if refused is None and self._filters is not None:
            return None
        known = self._known.get(shape)
        if known is None:
            usable = nodes.usable
            known = self._known[shape] = _Known(usable.copy() if refused is None else usable & ~refused)
            self._renew(known, task, np.arange(len(nodes)))
        else:
            changed = nodes.changes[known.seen :]
            if len(changed) > _MOST_CHANGED:
                self._renew(known, task, np.arange(len(nodes)))
            elif len(rows := set(changed)) <= _FEW:
                for row in rows:
                    self._renew_one(known, task, row)
            else:
                self._renew(known, task, np.array(sorted(rows), dtype=np.int64))
        known.seen = len(nodes.changes)
        return known

    def _renew(self, known: _Known, task: Task, rows: IndexArray) -> None:
        """Judge and rate some nodes again."""
        nodes = self._nodes
        open_rows = known.open[rows]
        if self._filters is not None:
            open_rows = open_rows & ~self._filters.crowded(rows)
        future = open_rows & nodes.fits(task.request, nodes.future, rows)
        idle = future & nodes.fits(task.request, nodes.idle, rows)
        scores = np.full(len(rows), -np.inf)
        if idle.any():
            scores[idle] = self._rate(task, rows[idle])
        if len(rows) == len(nodes):
            known.future, known.idle, known.scores = future, idle, scores
        else:
            known.future[rows], known.idle[rows], known.scores[rows] = future, idle, scores

    def _renew_one(self, known: _Known, task: Task, row: int) -> None:
        """Judge and rate one node again, by a rating of an equal node if there was one."""
        nodes = self._nodes
        free = bool(known.open[row]) and not (self._filters is not None and self._filters.is_crowded(row))
        known.future[row] = free and nodes.fits_later(task.request, row)
        known.idle[row] = free = bool(known.future[row]) and nodes.fits_now(task.request, row)
        if not free:
            known.scores[row] = -np.inf
            return
        key = tuple([describe(task, row) for describe in self._keys])
        score = known.ratings.get(key)
        if score is None:
            score = known.ratings[key] = float(self._rate(task, np.array([row]))[0])
        known.scores[row] = score

    def _rate(self, task: Task, rows: IndexArray) -> FloatArray:
        total = np.zeros(len(rows))
        for rating in self._ratings:
            total += rating(task, rows)
        return total
