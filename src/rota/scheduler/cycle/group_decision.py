"""Decisions for groups of pods that are placed together or not at all. Pure.

A placement is a set of nodes on which a group is tried. Members are placed one after the other by the ordinary rules,
in a what-if transaction that is rolled back. The result is the best placement in which enough members found a node.
Without placement plugins there is one placement, the whole cluster, and `min_count` members are enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rota.columns.cluster import Cluster
from rota.scheduler.cycle.decision import Decider
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.plugin_interfaces import (
    MAX_SCORE,
    MIN_SCORE,
    ExtensionPoint,
    GroupPostFilterResult,
    GroupProgress,
    Placement,
    PodGroup,
)
from rota.scheduler.framework.runtime import guarded
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status, unschedulable

TOO_FEW = unschedulable("not enough members of the group found a node")
NO_PLACEMENT = unschedulable("no placement was generated for the group")
WAITING = Status(Code.WAIT)


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """The result for a group."""

    status: Status
    placement: str = ""
    #: Node names by pod uid, for the members that found one.
    placed: Mapping[str, str] = field(default_factory=dict)
    #: The result of PodGroupPostFilter if the group found no place.
    post_filter: GroupPostFilterResult | None = None


class GroupDecider:
    """Decides for groups, on the cluster and by the profile of a `Decider`."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._framework = decider.framework

    @property
    def _cluster(self) -> Cluster:
        return self._decider.cluster

    def decide(self, group: PodGroup) -> GroupDecision:
        """Find the best placement, or a way to make room. The cluster stays unchanged."""
        state = CycleState(self._cluster)
        try:
            found = self._best(state, group)
        except _PlacementFailure as failure:
            return GroupDecision(failure.status)
        return found if found.status.ok else self._make_room(state, group, found.status)

    def _best(self, state: CycleState, group: PodGroup) -> GroupDecision:
        refusal = NO_PLACEMENT
        feasible: list[tuple[Placement, GroupDecision]] = []
        for placement in self._placements(state, group):
            tried = self.try_placement(state, group, placement)
            if tried.status.code is Code.ERROR:
                return tried
            if tried.status.ok:
                feasible.append((placement, tried))
            else:
                refusal = tried.status
        if not feasible:
            return GroupDecision(refusal)
        if len(feasible) == 1:
            return feasible[0][1]
        scores = [self._score(state, group, placement, tried) for placement, tried in feasible]
        return feasible[scores.index(max(scores))][1]

    def try_placement(self, state: CycleState, group: PodGroup, placement: Placement | None = None) -> GroupDecision:
        """Try all members on one placement (None: the whole cluster), then roll back."""
        within = None if placement is None or placement.rows.all() else placement.rows
        placed: dict[str, str] = {}
        name = "" if placement is None else placement.name
        with self._cluster.what_if():
            status = self._feasible(state, group, placed, len(group.pods))
            for position, pod in enumerate(group.pods):
                if status.code not in {Code.SUCCESS, Code.WAIT}:
                    break
                evaluation = self._decider.evaluate(pod, within=within)
                if evaluation.failure is not None:
                    return GroupDecision(evaluation.failure, name)
                row = evaluation.best_row()
                node = self._cluster.nodes[row] if row >= 0 else None
                if node is not None:
                    self._cluster.add_pod(pod, node.name)
                    placed[pod.uid] = node.name
                if not status.ok:
                    status = self._feasible(state, group, placed, len(group.pods) - position - 1)
        if status.code is Code.WAIT:
            status = TOO_FEW
        return GroupDecision(status, name, placed if status.ok else {})

    def _placements(self, state: CycleState, group: PodGroup) -> list[Placement]:
        everything = Placement("", np.ones(self._cluster.size, dtype=np.bool_))
        for plugin in self._framework.at(ExtensionPoint.PLACEMENT_GENERATE):
            return list(_asked(plugin, "placement_generate", state, group, self._cluster, everything))
        return [everything]

    def _feasible(self, state: CycleState, group: PodGroup, placed: Mapping[str, str], remaining: int) -> Status:
        """Success if enough members are placed, wait if they may still be, unschedulable if they cannot be any more."""
        plugins = self._framework.at(ExtensionPoint.PLACEMENT_FEASIBLE)
        if not plugins:
            if len(placed) >= group.min_count:
                return SUCCESS
            return WAITING if len(placed) + remaining >= group.min_count else TOO_FEW
        progress = GroupProgress(placed=placed, remaining=remaining)
        verdict = SUCCESS
        for plugin in plugins:
            answer = guarded(plugin.name, plugin.placement_feasible, state, group, progress)
            if answer.code is Code.WAIT:
                verdict = answer
            elif not answer.ok:
                return answer
        return verdict

    def _score(self, state: CycleState, group: PodGroup, placement: Placement, tried: GroupDecision) -> int:
        total = 0
        with self._cluster.what_if():
            for pod in group.pods:
                if pod.uid in tried.placed:
                    self._cluster.add_pod(pod, tried.placed[pod.uid])
            for enabled in self._framework.profile.points.get(ExtensionPoint.PLACEMENT_SCORE, ()):
                plugin = self._framework.plugins[enabled.name]
                score = _asked(plugin, "placement_score", state, group, self._cluster, placement)
                if not MIN_SCORE <= score <= MAX_SCORE:
                    reason = f"score {score} is outside of {MIN_SCORE}..{MAX_SCORE}; normalise it"
                    raise _PlacementFailure(Status(Code.ERROR, (reason,), plugin.name))
                total += score * enabled.weight
        return total

    def _make_room(self, state: CycleState, group: PodGroup, refusal: Status) -> GroupDecision:
        def try_group(wanted: PodGroup) -> Mapping[str, str] | None:
            tried = self.try_placement(state, wanted)
            return tried.placed if tried.status.ok else None

        for plugin in self._framework.at(ExtensionPoint.POD_GROUP_POST_FILTER):
            try:
                with self._cluster.what_if():
                    result: GroupPostFilterResult = plugin.pod_group_post_filter(state, group, self._cluster, try_group)
                answer = result.status.by(plugin.name)
            except Exception as error:  # noqa: BLE001 - plugins are other people's code
                return GroupDecision(statuses.fault(error, plugin=plugin.name))
            if answer.ok or answer.code is Code.UNRESOLVABLE:
                return GroupDecision(refusal, post_filter=result)
            if answer.code is not Code.UNSCHEDULABLE:
                return GroupDecision(answer)
        return GroupDecision(refusal)


class _PlacementFailure(Exception):
    def __init__(self, status: Status) -> None:
        self.status = status
        super().__init__(status.reasons)


def _asked(plugin: Any, method: str, *args: Any) -> Any:
    try:
        return getattr(plugin, method)(*args)
    except Exception as error:
        raise _PlacementFailure(statuses.fault(error, plugin=plugin.name)) from error
