"""All nodes, filtered and scored for one pod, and kept right for equal pods at the cost of what changed.

When the cluster has changed, each plugin is asked how much of its part still holds; usually only the changed rows are
looked at again. An evaluation that a plugin failed in has a `failure` and knows no feasible node: nothing is placed on
a guess. Answers about single nodes (why not here, what made up the score) are worked out when somebody asks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rota.columns.arrays import BoolArray, IntArray
from rota.columns.cluster import Cluster
from rota.columns.journal import Changes
from rota.columns.pods import PodInfo
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.parts import FilterPart, PluginFailure, ScorePart
from rota.scheduler.framework.points import ExtensionPoint, PreFilterResult, Reuse
from rota.scheduler.framework.runtime import Framework, PreFiltered, as_error
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status

#: What nodes outside of a PreFilter result are told.
NOT_ELIGIBLE = Status(Code.UNRESOLVABLE, (), "PreFilter")
INFEASIBLE = -1

#: Pods that are to come to a node, by the node's name.
Nominations = Mapping[str, Sequence[PodInfo]]


class Evaluation:
    """What a profile thinks of every node for one pod. Arrays have shape (N,) and belong to the evaluation."""

    __slots__ = (
        "_catalog_generation",
        "_eligible",
        "_filters",
        "_generation",
        "_nominated",
        "_pre",
        "_scored",
        "_scorers",
        "cluster",
        "failure",
        "feasible",
        "framework",
        "pod",
        "state",
        "totals",
    )

    def __init__(
        self, framework: Framework, pod: PodInfo, cluster: Cluster, *, nominations: Nominations | None = None
    ) -> None:
        self.framework = framework
        self.pod = pod
        self.cluster = cluster
        self._nominated = _Nominated(framework, pod, nominations) if nominations else None
        self._start()

    # --- results ----------------------------------------------------------------------------------------------------

    @property
    def pre_filter_status(self) -> Status:
        """Success, or why PreFilter ended the attempt."""
        return self._pre.status

    def best_row(self, start: int = 0) -> int:
        """Give the row with the highest total, or -1 if no node is feasible.

        Of several, the first at or after `start` is taken, going round.
        """
        totals = self.totals
        if not len(totals):
            return -1
        row = int(totals.argmax())
        best = totals[row]
        if best == INFEASIBLE:
            return -1
        if start and row < start:
            later = totals[start:]
            if len(later) and later.max() == best:
                row = start + int(later.argmax())
        return row

    def best_rows(self) -> list[int]:
        """Give all rows with the highest total."""
        if not self.feasible.any():
            return []
        return np.flatnonzero(self.totals == self.totals.max()).tolist()

    def status_of(self, row: int) -> Status:
        """Say whether and why not a node will do; the first refusal in the order of the profile."""
        if self.failure is not None:
            return self.failure
        if not self._pre.status.ok:
            return self._pre.status
        if not self._eligible[row]:
            return NOT_ELIGIBLE
        for part in self._filters:
            if part.codes[row]:
                return part.status(self.state, self.pod, row)
        return SUCCESS if self._nominated is None else self._nominated.refusals.get(row, SUCCESS)

    def unresolvable(self) -> BoolArray:
        """Give the rows where evictions cannot help, rows without a node included."""
        found = ~self.cluster.alive[: len(self.feasible)]
        codes: dict[tuple[int, int], bool] = {}
        for row in np.flatnonzero(~found & ~self.feasible).tolist():
            key = self._reason_key(row)
            if key not in codes:
                codes[key] = self.status_of(row).code is Code.UNRESOLVABLE
            found[row] = codes[key]
        return found

    def scores_of(self, row: int) -> dict[str, int]:
        """Give the weighted scores of a feasible node by plugin; plugins that were skipped are absent."""
        return {part.name: int(part.weighted[row]) for part in self._scorers}

    # --- from scratch -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        cluster = self.cluster
        self._generation = cluster.journal.generation
        self._catalog_generation = cluster.catalog.generation
        self.state = CycleState()
        self.failure: Status | None = None
        self.feasible: BoolArray = np.zeros(cluster.size, dtype=np.bool_)
        self.totals: IntArray = np.full(cluster.size, INFEASIBLE, dtype=np.int64)
        self._filters: list[FilterPart] = []
        self._scorers: list[ScorePart] = []
        self._scored = False
        self._pre: PreFiltered = self.framework.pre_filter(self.state, self.pod, cluster)
        self._eligible = cluster.alive[: cluster.size].copy()
        if self._pre.status.code is Code.ERROR:
            self.failure = self._pre.status
        if not self._pre.status.ok:
            return
        if self._pre.node_names is not None:
            self._eligible[:] = False
            known = (cluster.by_name.get(name) for name in self._pre.node_names)
            self._eligible[[node.row for node in known if node is not None]] = True
        try:
            self._filter()
            self._score()
        except PluginFailure as failure:
            self._fail(failure.status)

    def _filter(self) -> None:
        feasible = self._eligible.copy()
        for plugin in self.framework.at(ExtensionPoint.FILTER):
            if plugin.name not in self.state.skip_filter:
                part = FilterPart(plugin, self._pre.sieves.get(plugin.name))
                part.judge_all(self.state, self.pod, self.cluster, feasible)
                self._filters.append(part)
                feasible &= part.codes == 0
        if self._nominated is not None:
            self._nominated.refuse(self.state, self.cluster, feasible)
        self.feasible = feasible

    def _score(self) -> None:
        self._scorers = []
        self._scored = bool(self.feasible.any())
        if not self._scored:
            self.totals = np.full(len(self.feasible), INFEASIBLE, dtype=np.int64)
            return
        self.state.skip_score.clear()
        for plugin in self.framework.at(ExtensionPoint.PRE_SCORE):
            self._pre_score(plugin)
        for plugin in self.framework.at(ExtensionPoint.SCORE):
            if plugin.name not in self.state.skip_score:
                part = ScorePart(plugin, self.framework.weights[plugin.name])
                part.rate_all(self.state, self.pod, self.cluster, self.feasible)
                self._scorers.append(part)
        self._add_up()

    def _pre_score(self, plugin: Any) -> None:
        try:
            answer: Status = plugin.pre_score(self.state, self.pod, self.cluster, self.feasible)
        except Exception as error:
            raise PluginFailure(statuses.fault(error, plugin=plugin.name)) from error
        if answer.skipped:
            self.state.skip_score.add(plugin.name)
        elif not answer.ok:
            raise PluginFailure(as_error(answer.by(plugin.name)))

    def _add_up(self) -> None:
        totals = np.zeros(len(self.feasible), dtype=np.int64)
        for part in self._scorers:
            totals += part.weighted
        totals[~self.feasible] = INFEASIBLE
        self.totals = totals

    def _fail(self, status: Status) -> None:
        self.failure = status
        self.feasible[:] = False
        self.totals = np.full(len(self.feasible), INFEASIBLE, dtype=np.int64)

    # --- keeping up -------------------------------------------------------------------------------------------------

    def refresh(self, pod: PodInfo) -> None:
        """Bring everything up to date for an equal pod."""
        self.pod = pod
        cluster = self.cluster
        generation = cluster.journal.generation
        if generation == self._generation and cluster.catalog.generation == self._catalog_generation:
            return
        changes = cluster.journal.since(self._generation)
        if (
            changes is None
            or self.failure is not None
            or not self._pre.status.ok
            or len(self.feasible) != cluster.size
            or (changes.node and self._pre.node_names is not None)
        ):
            self._start()
            return
        self._generation = generation
        self._catalog_generation = cluster.catalog.generation
        try:
            feasible_changed = self._refilter(changes)
            if feasible_changed is None:
                self._start()
            else:
                self._rescore(changes, feasible_changed)
        except PluginFailure as failure:
            self._fail(failure.status)

    def _refilter(self, changes: Changes) -> Sequence[int] | None:
        """Filter again what must be; gives the rows whose feasibility changed, or None if all must start over."""
        everything = False
        for plugin in self.framework.reusing_filter:
            reuse = self._ask(plugin, "reuse_filter", changes)
            if reuse is Reuse.ROWS:
                continue
            everything = True
            if reuse is Reuse.AGAIN and not self._pre_filter_again(plugin):
                return None
            for part in self._filters:
                if part.plugin is plugin:
                    part.judge_all(self.state, self.pod, self.cluster, self._eligible)
        for part in self._filters:
            rows = changes.watched(part.watches)
            if rows:
                part.judge_some(self.state, self.pod, self.cluster, rows)
        if changes.node:
            for row in changes.node:
                self._eligible[row] = self.cluster.alive[row]
        if everything:
            return self._combine()
        return self._combine_rows(changes)

    def _pre_filter_again(self, plugin: Any) -> bool:
        """Run one PreFilter again; False if its answer is of a kind that changes more than its own part."""
        try:
            result: PreFilterResult = plugin.pre_filter(self.state, self.pod, self.cluster)
        except Exception as error:
            raise PluginFailure(statuses.fault(error, plugin=plugin.name)) from error
        skips = plugin.name in self.state.skip_filter
        return (
            result.status.ok is not skips
            and result.status.skipped is skips
            and result.node_names is None
            and result.candidates is None
        )

    def _combine(self) -> Sequence[int]:
        feasible = self._eligible.copy()
        for part in self._filters:
            if part.vector is None:
                unknown = feasible & (part.codes < 0) & (part.codes == -1)
                for row in np.flatnonzero(unknown).tolist():
                    part.judge(self.state, self.pod, self.cluster, row)
            feasible &= part.codes == 0
        changed: list[int] = np.flatnonzero(feasible != self.feasible).tolist()
        self.feasible = feasible
        return changed

    def _combine_rows(self, changes: Changes) -> Sequence[int]:
        changed = []
        for row in {*changes.pods, *changes.node} if changes.node else changes.pods:
            will_do = bool(self._eligible[row])
            if will_do:
                for part in self._filters:
                    code = part.codes[row]
                    if code == -1:
                        part.judge(self.state, self.pod, self.cluster, row)
                        code = part.codes[row]
                    if code:
                        will_do = False
                        break
            if will_do != self.feasible[row]:
                self.feasible[row] = will_do
                changed.append(row)
        return changed

    def _rescore(self, changes: Changes, feasible_changed: Sequence[int]) -> None:
        if not self._scored or (feasible_changed and not self.feasible.any()):
            self._score()
            return
        again = False
        for plugin in self.framework.reusing_score:
            reuse = self._ask(plugin, "reuse_score", changes, feasible_changed=bool(feasible_changed))
            if reuse is Reuse.ROWS:
                continue
            skipped = plugin.name in self.state.skip_score
            if reuse is Reuse.AGAIN and hasattr(plugin, "pre_score"):
                self.state.skip_score.discard(plugin.name)
                self._pre_score(plugin)
            if skipped is not (plugin.name in self.state.skip_score):
                self._score()
                return
            again = True
            for part in self._scorers:
                if part.plugin is plugin:
                    part.rate_all(self.state, self.pod, self.cluster, self.feasible)
        rows = self._rescore_rows(changes, feasible_changed)
        if again or rows is None:
            self._add_up()
            return
        for row in rows:
            total = 0
            for part in self._scorers:
                total += part.weighted[row]
            self.totals[row] = total if self.feasible[row] else INFEASIBLE

    def _rescore_rows(self, changes: Changes, feasible_changed: Sequence[int]) -> set[int] | None:
        """Rate changed rows; gives the rows whose totals may have changed, or None if all may have."""
        touched: set[int] = set(feasible_changed)
        feasible, everything = self.feasible, False
        for part in self._scorers:
            rows = [row for row in changes.watched(part.watches) if feasible[row]]
            if feasible_changed:
                rows += part.unrated([row for row in feasible_changed if feasible[row] and row not in rows])
            moved = bool(rows) and part.rate_some(self.state, self.pod, self.cluster, rows)
            if moved or (feasible_changed and part.normalizes):
                where = [*rows, *(row for row in feasible_changed if feasible[row])]
                everything |= part.normalize_some(self.state, self.pod, self.cluster, feasible, where)
            if moved:
                touched.update(rows)
        return None if everything else touched

    def _ask(self, plugin: Any, method: str, changes: Changes, **facts: bool) -> Reuse:
        try:
            reuse: Reuse = getattr(plugin, method)(self.state, self.pod, self.cluster, changes, **facts)
        except Exception as error:
            raise PluginFailure(statuses.fault(error, plugin=plugin.name)) from error
        return reuse

    def _reason_key(self, row: int) -> tuple[int, int]:
        """Give something that is equal for rows that were refused for the same reason."""
        for position, part in enumerate(self._filters):
            if code := int(part.codes[row]):
                return position, code
        return -1, row if self._nominated is not None else 0


class _Nominated:
    """Pods that are to come to nodes, and what they leave for ours: only those of its priority or more count."""

    __slots__ = ("_by_node", "_framework", "_pod", "refusals")

    def __init__(self, framework: Framework, pod: PodInfo, nominations: Nominations) -> None:
        self._framework = framework
        self._pod = pod
        self._by_node = {
            name: ahead
            for name, pods in nominations.items()
            if (ahead := [each for each in pods if each.priority >= pod.priority and each.uid != pod.uid])
        }
        self.refusals: dict[int, Status] = {}

    def refuse(self, state: CycleState, cluster: Cluster, feasible: BoolArray) -> None:
        """Take back the feasibility of nodes that will not do once their nominated pods have come."""
        for name, pods in self._by_node.items():
            node = cluster.by_name.get(name)
            if node is None or not feasible[node.row]:
                continue
            answer = self._framework.filter_crowded(state, self._pod, node, pods)
            if answer.code is Code.ERROR:
                raise PluginFailure(answer)
            if not answer.ok:
                feasible[node.row] = False
                self.refusals[node.row] = answer
