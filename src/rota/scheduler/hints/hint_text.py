"""The hint of a pod without a node: what would have to change, in one sentence. Pure, and fast with many nodes.

It is part of the pod's events, where kube-scheduler's counts ("3 Insufficient cpu") do not say how much is missing or
which taint refuses the pod. It uses an existing evaluation only. `scheduler.hints.required_changes` computes all
changes on demand.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from rota.api import resources
from rota.columns import taints
from rota.columns.arrays import BoolArray, IntArray
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_results import UNKNOWN
from rota.scheduler.hints import required_changes
from rota.scheduler.hints.required_changes import Shortage


class Hints:
    """Computes hints, and keeps the last one for equal pods on an unchanged cluster."""

    __slots__ = ("_evaluation", "_generation", "_hint")

    def __init__(self) -> None:
        self._evaluation: Evaluation | None = None
        self._generation = -1
        self._hint = ""

    def of(self, evaluation: Evaluation) -> str:
        """The hint for the pod of an evaluation."""
        generation = evaluation.cluster.change_log.generation
        if evaluation is not self._evaluation or generation != self._generation:
            self._evaluation, self._generation, self._hint = evaluation, generation, brief(evaluation)
        return self._hint


def brief(evaluation: Evaluation) -> str:
    """How much is missing where that is the only obstacle, and which taints refuse the pod; "" if neither applies."""
    if evaluation.failure is not None or not evaluation.pre_filter_status.ok:
        return ""
    alive = evaluation.cluster.alive[: len(evaluation.feasible)]
    refused = {
        name: alive & (codes != 0) & (codes != UNKNOWN)
        for name, codes in evaluation.verdicts().items()
        if len(codes) == len(alive)
    }
    told = "; ".join((*_short(evaluation, refused), *_tainted(evaluation, refused)))
    return f"{told[0].upper()}{told[1:]}." if told else ""


def _short(evaluation: Evaluation, refused: dict[str, BoolArray]) -> Iterator[str]:
    fit = refused.get("NodeResourcesFit")
    if fit is None:
        return
    others = [rows for name, rows in refused.items() if name != "NodeResourcesFit"]
    alone = fit & ~np.logical_or.reduce(others) if others else fit
    rows = np.flatnonzero(alone)
    if len(rows) and (found := _shortage(evaluation, rows)) is not None:
        yield required_changes.shortage(found)


def _shortage(evaluation: Evaluation, rows: IntArray) -> Shortage | None:
    """The shortage on most of the rows, without nodes that would be too small even if they were empty."""
    cluster, wanted = evaluation.cluster, evaluation.pod.shape.requests
    lacks: dict[str, IntArray] = {resources.PODS: (cluster.pods_left(rows) < 1).astype(np.int64)}
    small = np.zeros(len(rows), dtype=np.bool_)
    for name, amount in wanted.items():
        small |= cluster.allocatable[cluster.resource_index(name), rows] < amount
        lacks[name] = np.maximum(amount - cluster.free(name, rows), 0)
    # The missing resources of a row as the bits of a number.
    patterns = sum(((amounts > 0).astype(np.int64) << bit for bit, amounts in enumerate(lacks.values())), start=0)
    found, numbers = np.unique(np.where(small, 0, patterns), return_counts=True)
    numbers[found == 0] = 0
    common = int(found[numbers.argmax()])
    if not common:
        return None
    chosen = ~small & (patterns == common)
    names = tuple(name for bit, name in enumerate(lacks) if common >> bit & 1)
    table = np.stack([lacks[name][chosen] for name in names])
    nearest = int(table[0].argmin() if len(names) == 1 else np.lexsort(table[::-1])[0])
    node = cluster.nodes[int(rows[chosen][nearest])]
    assert node is not None, "rows that refuse a pod have a node"
    least, most = tuple(table[:, nearest].tolist()), tuple(table.max(axis=1).tolist())
    return Shortage(names, node.name, least, most, table.shape[1])


def _tainted(evaluation: Evaluation, refused: dict[str, BoolArray]) -> Iterator[str]:
    rows = refused.get("TaintToleration")
    if rows is None or not rows.any():
        return
    column = evaluation.cluster.taints.column[: len(rows)][rows]
    numbers: Counter[str] = Counter()
    for value, number in zip(*np.unique(column, return_counts=True), strict=True):
        for taint in evaluation.cluster.taints.values[int(value)] or ():
            if taint.effect != taints.PREFER_NO_SCHEDULE and not taints.tolerated(
                evaluation.pod.shape.tolerations, taint
            ):
                numbers[required_changes.taint_name(taint)] += int(number)
    for name, number in numbers.most_common(2):
        yield f"{required_changes.counted(number)} excluded by taint {name}"
