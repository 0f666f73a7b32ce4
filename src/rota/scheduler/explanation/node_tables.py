"""Two tables over all nodes: the result of every filter, and the pods that would have to be evicted. Pure.

The scheduler stops at the first refusal; a user who wants to know what to change needs all of them. Costs about as much
as an evaluation.
"""

import numpy as np

from rota.columns.pods import PodInfo
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_results import UNKNOWN, FilterResults, PluginFailure
from rota.scheduler.framework.status import Status
from rota.scheduler.hints.explanation_report import Eviction, Victim
from rota.scheduler.preemption import victims
from rota.scheduler.preemption.victims import Budget


class Obstacles:
    """The results of every filter for every row. Read it before the cluster changes."""

    __slots__ = ("_evaluation", "_parts")

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._parts: list[FilterResults] = []
        if evaluation.failure is not None or not evaluation.pre_filter_status.ok:
            return
        cluster, state = evaluation.cluster, evaluation.state
        for forms in evaluation.framework.filters:
            if forms.name in state.skip_filter:
                continue
            part = FilterResults(forms, None)
            try:
                part.filter_all(state, evaluation.pod, cluster, cluster.alive[: cluster.size].copy())
            except PluginFailure:
                continue  # the evaluation did not reach the rows where it fails
            except Exception:  # noqa: BLE001, S112 - plugins are other people's code, and this question was not planned
                continue
            self._parts.append(part)

    def of(self, row: int) -> list[Status]:
        """All refusals of a row, in the order of the profile; at least the one of the evaluation."""
        decided = self._evaluation.status_of(row)
        if decided.ok:
            return []
        found = [self._told(part, code) for part in self._parts if (code := int(part.codes[row])) not in {0, UNKNOWN}]
        return found if any(each.plugin == decided.plugin for each in found) else [decided, *found]

    def _told(self, part: FilterResults, code: int) -> Status:
        try:
            return part.status(self._evaluation.state, self._evaluation.pod, code)
        except Exception as error:  # noqa: BLE001 - plugins are other people's code
            return statuses.fault(error, plugin=part.forms.name)


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
