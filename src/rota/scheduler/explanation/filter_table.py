"""The result of every filter on every node, not only the first refusal.

The scheduler stops at the first refusal; a user who wants to know what to change needs all of them. Costs about as much
as an evaluation.
"""

from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_results import UNKNOWN, FilterResults, PluginFailure
from rota.scheduler.framework.status import Status


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
