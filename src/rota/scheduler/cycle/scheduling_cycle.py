"""One attempt to place a pod: ends with a node and everything reserved, or with a `FitError`.

Pure and serial. The scheduling loop around it pops pods, calls extenders (`ExtenderResult`), and sends the results to
the API server. When an attempt ends with a `FitError`, everything that was assumed or reserved has been released.
"""

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from rota.columns.arrays import BoolArray, IntArray
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.cycle.decision import NO_NODES, Decider
from rota.scheduler.framework import binding_points
from rota.scheduler.framework.binding_points import Permission
from rota.scheduler.framework.evaluation import INFEASIBLE, Evaluation
from rota.scheduler.framework.nominated_pods import Nominations
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.framework.state import GPU_DEVICES, CycleState
from rota.scheduler.framework.status import Code, Status
from rota.scheduler.status import fit_errors
from rota.scheduler.status.fit_errors import FitError

ALREADY_PLACED: Final = Status(Code.ERROR, ("the pod is on a node already",))


class AssumingCache(Protocol):
    """The part of the cache that an attempt changes: assumed pods."""

    def assume(self, pod: PodInfo, node: str, /) -> bool:
        """Count the pod on the node from now on; False if it is on a node already."""

    def forget(self, uid: str, /) -> PodInfo | None:
        """Remove an assumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderResult:
    """The result of extenders for the nodes that plugins found feasible."""

    #: The nodes that all extenders accepted.
    allowed: frozenset[str]
    #: By node, why it was refused.
    refusals: Mapping[str, Status] = field(default_factory=dict)
    #: By node, to be added to the plugins' totals.
    scores: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedPod:
    """A pod that is assumed on a node, with everything reserved."""

    pod: PodInfo
    node_name: str
    framework: Framework
    state: CycleState
    permission: Permission


class SchedulingCycle:
    """Scheduling attempts by one profile on one cluster."""

    def __init__(
        self, framework: Framework, cluster: Cluster, *, guard: AbstractContextManager[None] | None = None
    ) -> None:
        """`guard` is entered whenever plugins are called."""
        self._guard: Final = guard or nullcontext()
        self.framework: Final = framework
        self.decider: Final = Decider(framework, cluster)
        self._cluster: Final = cluster

    def evaluate(self, pod: PodInfo, *, nominations: Nominations | None = None) -> Evaluation:
        """Filter and score; the nominated node of the pod is evaluated first."""
        with self._guard:
            return self._evaluate(pod, _ahead_of(pod, nominations) if nominations else None)

    def _evaluate(self, pod: PodInfo, ahead: Nominations | None) -> Evaluation:
        node = self._cluster.by_name.get(pod.nominated_node) if pod.nominated_node else None
        if node is not None:
            there = np.zeros(self._cluster.size, dtype=np.bool_)
            there[node.row] = True
            evaluation = self.decider.evaluate(pod, nominations=ahead, within=there)
            if evaluation.failure is not None or evaluation.feasible.any():
                return evaluation
        return self.decider.evaluate(pod, nominations=ahead)

    def feasible_names(self, evaluation: Evaluation) -> list[str]:
        """The names of feasible nodes, for extenders."""
        nodes = self._cluster.nodes
        found = (nodes[row] for row in np.flatnonzero(evaluation.feasible).tolist())
        return [node.name for node in found if node is not None]

    def choose(
        self,
        evaluation: Evaluation,
        *,
        start: int = 0,
        avoiding: Collection[str] = (),
        advice: ExtenderResult | None = None,
    ) -> str | None:
        """The best node, or None; of equals, the first at or after row `start`, wrapping around."""
        if evaluation.failure is not None:
            return None
        first = start % self._cluster.size if self._cluster.size else 0
        if not avoiding and advice is None:
            row = evaluation.best_row(first)
        else:
            row = _best_of(self._adjusted(evaluation, avoiding, advice), first)
        node = self._cluster.nodes[row] if row >= 0 else None
        return None if node is None else node.name

    def reserve(
        self, cache: AssumingCache, evaluation: Evaluation, pod: PodInfo, node_name: str
    ) -> AssumedPod | FitError:
        """Assume the pod on the node, run Reserve and Permit; a failure undoes all of it."""
        framework, state = self.framework, evaluation.state.fork()
        if pod.gpu_devices:  # of an attempt that failed, on another node
            pod = pod.with_devices(())
        if not cache.assume(pod, node_name):
            return fit_errors.of_status(ALREADY_PLACED)
        permission = Permission()
        taken = AssumedPod(pod=pod, node_name=node_name, framework=framework, state=state, permission=permission)
        try:
            with self._guard:
                status = binding_points.reserve(framework, state, pod, node_name)
                if status.ok and framework.at(ExtensionPoint.PERMIT):
                    permission = binding_points.permit(framework, state, pod, node_name)
                    status = permission.status
        except Exception:
            self.give_back(cache, taken)
            raise
        if status.ok or permission.waits_s:
            devices = state.find(GPU_DEVICES, tuple)
            if not devices and permission is taken.permission:
                return taken
            return replace(taken, permission=permission, pod=pod.with_devices(devices) if devices else pod)
        self.give_back(cache, taken)
        return fit_errors.of_status(status)

    def give_back(self, cache: AssumingCache, taken: AssumedPod) -> None:
        """Undo `reserve`."""
        binding_points.unreserve(taken.framework, taken.state, taken.pod, taken.node_name)
        cache.forget(taken.pod.uid)

    def refuse(
        self, evaluation: Evaluation, *, start: int = 0, advice: ExtenderResult | None = None, make_room: bool = True
    ) -> FitError:
        """The reason why there is no node, after PostFilter has run if it is wanted."""
        if evaluation.failure is not None:
            return fit_errors.of_status(evaluation.failure)
        if not self._cluster.by_name:
            return fit_errors.of_status(NO_NODES)
        room = None
        if make_room:
            with self._guard:
                verdicts = _ExtendedStatuses(evaluation, advice.refusals) if advice is not None else None
                decision = self.decider.make_room(evaluation, start=start, verdicts=verdicts)
            if decision.status.code is Code.ERROR:
                return fit_errors.of_status(decision.status)
            room = decision.post_filter
        return fit_errors.of_evaluation(evaluation, room=room, others=advice.refusals if advice is not None else {})

    def _adjusted(self, evaluation: Evaluation, avoiding: Collection[str], advice: ExtenderResult | None) -> IntArray:
        totals = evaluation.totals.copy()
        rows = self._cluster.by_name
        for name in avoiding:
            if name in rows:
                totals[rows[name].row] = INFEASIBLE
        if advice is not None:
            allowed: BoolArray = np.zeros(len(totals), dtype=np.bool_)
            allowed[[rows[name].row for name in advice.allowed if name in rows]] = True
            totals[~allowed] = INFEASIBLE
            for name, score in advice.scores.items():
                if name in rows and totals[rows[name].row] != INFEASIBLE:
                    totals[rows[name].row] += score
        return totals


class _ExtendedStatuses:
    """Why nodes were refused, by plugins or by extenders; see `NodeStatuses`.

    Plugins would accept a node that only extenders refused, so preemption cannot find victims there.
    """

    def __init__(self, evaluation: Evaluation, refusals: Mapping[str, Status]) -> None:
        by_name = evaluation.cluster.by_name
        self._evaluation: Final = evaluation
        self._refusals: Final = {by_name[name].row: refusal for name, refusal in refusals.items() if name in by_name}

    def status_of(self, row: int) -> Status:
        return self._refusals.get(row) or self._evaluation.status_of(row)

    def unresolvable(self) -> BoolArray:
        found = self._evaluation.unresolvable().copy()
        found[list(self._refusals)] = True
        return found


def _ahead_of(pod: PodInfo, nominations: Nominations) -> Nominations | None:
    """The nominations that affect this pod; None if there are none, so that equal pods share an evaluation."""
    ahead = {
        name: bound
        for name, pods in nominations.items()
        if (bound := [each for each in pods if each.priority >= pod.priority and each.uid != pod.uid])
    }
    return ahead or None


def _best_of(totals: IntArray, first: int) -> int:
    if not len(totals):
        return -1
    rolled = np.roll(totals, -first)
    place = int(rolled.argmax())
    return -1 if rolled[place] == INFEASIBLE else (place + first) % len(totals)
