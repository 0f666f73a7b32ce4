"""binpack: prefer nodes that are fuller, resource by resource."""

from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns.arrays import FloatArray, IndexArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.amounts import CPU, MEMORY
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task

MAX_SCORE: Final = 100
_PREFIX: Final = "binpack.resources."


def listed(text: str) -> list[str]:
    """Give the names in a list that is separated by commas."""
    return [name for each in text.split(",") if (name := each.strip())]


class Binpack(BatchPlugin):
    """Rate the share that would be in use."""

    name: ClassVar[str] = "binpack"
    rates_alone: ClassVar[bool] = True
    arguments: ClassVar[Mapping[str, Argument]] = {
        "binpack.weight": Argument(args.integer, 1),
        "binpack.cpu": Argument(args.integer, 1),
        "binpack.memory": Argument(args.integer, 1),
        "binpack.resources": Argument(args.text, ""),
        _PREFIX: Argument(args.integer),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._nodes = session.nodes
        self._weight: int = arguments["binpack.weight"]
        self._weights = {CPU: _or_one(arguments["binpack.cpu"]), MEMORY: _or_one(arguments["binpack.memory"])}
        for name in listed(arguments["binpack.resources"]):
            self._weights[name] = _or_one(arguments.get(_PREFIX + name, 1))

    def node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Add up the shares of the requested resources by their weights; nothing if one of them does not fit."""
        if not self._weight:
            return np.zeros(len(rows))
        nodes, score, weights = self._nodes, np.zeros(len(rows)), 0
        refused = np.zeros(len(rows), dtype=np.bool_)
        for name in task.request.names():
            weight = self._weights.get(name)
            if weight is None:
                continue
            weights += weight
            index = nodes.dimensions.get(name)
            if index is None or not weight:
                continue
            whole = nodes.allocatable[index, rows]
            would = task.request.get(name) + nodes.used[index, rows]
            with np.errstate(divide="ignore", invalid="ignore"):
                part = np.where(whole == 0, 0.0, would * float(weight) / whole)
            refused |= (would > whole) & (whole != 0)
            score += part
        if weights > 0:
            score /= float(weights)
        score *= float(MAX_SCORE * self._weight)
        score[refused] = 0.0
        return score

    def node_key(self, task: Task, row: int) -> Hashable:
        """What the node has, and what is used of it."""
        nodes = self._nodes
        return nodes.allocatable[:, row].tobytes(), nodes.used[:, row].tobytes()


def _or_one(weight: int) -> int:
    return 1 if weight < 0 else weight
