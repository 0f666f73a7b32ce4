"""The pods that would have to be evicted from each node, and the nodes where no eviction helps. Pure.

DefaultPreemption examines as many nodes as it needs and reports the best. Here every node is tried, one by one.
"""

import numpy as np

from rota.columns.pods import PodInfo
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.status import Status
from rota.scheduler.hints.explanation_report import Eviction, Victim
from rota.scheduler.preemption import victims
from rota.scheduler.preemption.victims import Budget


class Evictions:
    """The possible evictions on the nodes that refused a pod."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._limits: list[Budget] = victims.budgets(evaluation.cluster.catalog)
        self._hopeless = np.asarray(evaluation.unresolvable())

    def on(self, row: int) -> Eviction:
        """Try one node."""
        evaluation = self._evaluation
        node = evaluation.cluster.nodes[row]
        if evaluation.pod.shape.preemption_policy == "Never":
            return Eviction(reason="the pod's preemptionPolicy is Never")
        if node is None or self._hopeless[row]:
            return Eviction(reason="evicting pods would not help")
        found = victims.select_victims(
            evaluation.framework, evaluation.state.clone(), evaluation.pod, node.copy(), limits=self._limits
        )
        if isinstance(found, Status):
            if found == victims.NO_VICTIMS:
                return Eviction(reason="no pod of lower priority there")
            return Eviction(reason=f"not even then: {', '.join(found.reasons)}")
        return Eviction(victims=tuple(map(victim, found.victims)), budgets_broken=found.violations)


def victim(pod: PodInfo) -> Victim:
    """Describe a pod that would be evicted."""
    return Victim(namespace=pod.namespace, name=pod.name, priority=pod.priority)
