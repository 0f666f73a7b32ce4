"""Cached scores of nodes: for a pod of the same shape only changed nodes are scored again."""

from collections.abc import Callable
from typing import Final

import numpy as np

from rota.columns.arrays import FloatArray, IndexArray
from rota.columns.pods import PodShape
from rota.scheduler.batch.nodes import NodeTable
from rota.scheduler.batch.tasks import Task

Rating = Callable[[Task, IndexArray], FloatArray]


class RatingCache:
    """The scores of one plugin for all nodes, by pod shape.

    Only for plugins whose rating of a node depends on the pod's shape and on that node alone.
    """

    __slots__ = ("_known", "_nodes", "_rating")

    def __init__(self, rating: Rating, nodes: NodeTable) -> None:
        self._rating: Final = rating
        self._nodes: Final = nodes
        #: By shape, the ratings and the number of changes that they include.
        self._known: Final[dict[PodShape, tuple[FloatArray, int]]] = {}

    def rate(self, task: Task, rows: IndexArray) -> FloatArray:
        """Rate nodes for a pod."""
        changes = self._nodes.changes
        known = self._known.get(task.info.shape)
        if known is None:
            ratings = self._rating(task, np.arange(len(self._nodes)))
        else:
            ratings, seen = known
            stale = np.unique(np.asarray(changes[seen:], dtype=np.int64))
            if len(stale):
                ratings[stale] = self._rating(task, stale)
        self._known[task.info.shape] = ratings, len(changes)
        chosen: FloatArray = ratings[rows]
        return chosen
