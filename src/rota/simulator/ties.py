"""The tie rule: which of several nodes with the highest score a simulated scheduler takes. Pure.

kube-scheduler takes one at random, and Rota's loop the first after a row that differs between schedulers. The authors
of OpenB's published figures take the smallest name, after they have put a random number before the names of all nodes.
Figures depend on it, so every report states the rule.
"""

from collections.abc import Callable
from enum import StrEnum

import numpy as np

from rota.columns.arrays import FloatArray, IndexArray
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.framework.evaluation import Evaluation


class TieRule(StrEnum):
    """What decides between nodes with the same score."""

    #: The first node of an order that the seed draws once, as in OpenB's published runs.
    SHUFFLED_NAME = "shuffled-name"
    #: The node with the smallest name.
    NAME = "name"
    #: Any of them, by the seed.
    RANDOM = "random"
    #: The node that has the least left of its resources after the pod, then the smallest name.
    BEST_FIT = "best-fit"


Chooser = Callable[[Evaluation, PodInfo], int]


def chooser(rule: TieRule, cluster: Cluster, rng: np.random.Generator) -> Chooser:
    """A function from an evaluation to the chosen row, or -1; names are ranked when it is made."""
    names = [(node.name if node is not None else "", row) for row, node in enumerate(cluster.nodes)]
    ranks = np.empty(len(names), dtype=np.int64)
    ranks[[row for _, row in sorted(names)]] = np.arange(len(names))
    in_order = bool((ranks == np.arange(len(names))).all())

    def by_name(evaluation: Evaluation, pod: PodInfo) -> int:
        return evaluation.best_row(0) if in_order else _first(evaluation.best_rows(), ranks)

    order = rng.permutation(len(names)) if rule is TieRule.SHUFFLED_NAME else ranks

    def by_order(evaluation: Evaluation, pod: PodInfo) -> int:
        return _first(evaluation.best_rows(), order)

    def at_random(evaluation: Evaluation, pod: PodInfo) -> int:
        rows = evaluation.best_rows()
        return int(rows[int(rng.integers(len(rows)))]) if len(rows) else -1

    def by_fit(evaluation: Evaluation, pod: PodInfo) -> int:
        rows = evaluation.best_rows()
        if len(rows) > 1:
            left = _left(cluster, rows, pod)
            rows = rows[left <= left.min() + 1e-12]
        return _first(rows, ranks)

    return {
        TieRule.SHUFFLED_NAME: by_order,
        TieRule.NAME: by_name,
        TieRule.RANDOM: at_random,
        TieRule.BEST_FIT: by_fit,
    }[rule]


def _first(rows: IndexArray, order: IndexArray) -> int:
    """The row that comes first in an order, or -1."""
    if len(rows) < 2:
        return int(rows[0]) if len(rows) else -1
    return int(rows[order[rows].argmin()])


def _left(cluster: Cluster, rows: IndexArray, pod: PodInfo) -> FloatArray:
    """What nodes have left: the sum over the pod's resources, each as a part of what the largest node has."""
    total = np.zeros(len(rows))
    for resource in pod.shape.requests:
        index = cluster.resources.get(resource)
        if index is None:
            continue
        largest = max(int(cluster.allocatable[index, : cluster.size].max()), 1)
        total += (cluster.allocatable[index, rows] - cluster.requested[index, rows]) / largest
    return total
