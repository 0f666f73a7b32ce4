"""The candidates for an extender that does all of preemption: every pod that may be evicted. Pure.

In a profile without a PostFilter plugin no victims are computed. An extender with a preempt verb then gets every node
where evictions can help, with all pods of lower priority as victims, and responds with those to evict.
"""

from collections.abc import Mapping

import numpy as np

from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.preemption import victims
from rota.scheduler.preemption.victims import Candidate


def all_candidates(evaluation: Evaluation, refusals: Mapping[str, Status] | None = None) -> list[Candidate]:
    """All pods of lower priority on all nodes where evictions can help, the most important pods first.

    `refusals` are those of extenders by node; some of them may be unresolvable.
    """
    beyond = {name for name, status in (refusals or {}).items() if status.code is Code.UNRESOLVABLE}
    pod, cluster = evaluation.pod, evaluation.cluster
    if pod.shape.preemption_policy == "Never":
        return []
    limits = victims.budgets(cluster.catalog)
    offers: list[Candidate] = []
    for row in np.flatnonzero(~evaluation.unresolvable()).tolist():
        node = cluster.nodes[row]
        lower = [other for other in node.pods.values() if other.priority < pod.priority] if node is not None else []
        if node is not None and lower and node.name not in beyond:
            lower.sort(key=victims.importance)
            breaking, _ = victims.split(lower, limits)
            offers.append(Candidate(node.name, tuple(lower), len(breaking)))
    return offers
