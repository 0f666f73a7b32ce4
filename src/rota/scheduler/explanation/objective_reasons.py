"""Why objectives chose a node: the front, and one sentence that names the method and the costs. Pure."""

import numpy as np

from rota.columns.nodes import NodeInfo
from rota.scheduler.framework import objectives
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.plugins.objective_combiner import ObjectiveCombiner


def front(evaluation: Evaluation, combiner: ObjectiveCombiner) -> frozenset[int]:
    """The feasible rows that no other feasible row dominates."""
    rows, costs, _ = evaluation.objectives()
    if not len(rows):
        return frozenset()
    return frozenset(rows[objectives.non_dominated(combiner.normalized(costs))].tolist())


def sentence(evaluation: Evaluation, combiner: ObjectiveCombiner, chosen: NodeInfo) -> str:
    """The costs of the chosen node beside those of the best node of each objective."""
    rows, costs, _ = evaluation.objectives()
    own = costs[int(np.searchsorted(rows, chosen.row))]
    parts = []
    for at, (name, plugin) in enumerate(zip(combiner.objectives, combiner.plugins, strict=True)):
        least = costs[:, at].min()
        told = f"{name} {_amount(own[at])} {plugin.unit}"
        limit = combiner.args.objectives[at].limit
        if limit is not None:
            told += f" (limit {_amount(limit)}{', exceeded' if own[at] > limit else ''})"
        elif own[at] > least:
            told += f" (least {_amount(least)})"
        parts.append(told)
    size = len(front(evaluation, combiner))
    of_front = f"{size} of {len(rows)} nodes are on the front"
    return f"{combiner.args.method} of {len(parts)} objectives chose {chosen.name}: {', '.join(parts)}; {of_front}"


def _amount(value: float) -> str:
    return f"{value:.4g}"
