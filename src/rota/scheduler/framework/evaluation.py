"""The evaluation of all nodes for one pod: filter and score results, updated incrementally for equal pods.

When the cluster has changed, each plugin says how much of its result is still valid; usually only the changed rows are
evaluated again. An evaluation in which a plugin failed has a `failure` and no feasible node. Details about single nodes
(why it was refused, its scores) are computed on demand.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rota.columns.arrays import BoolArray, CodeArray, FloatArray, IndexArray, IntArray
from rota.columns.change_log import Changes
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework import stopwatch
from rota.scheduler.framework.nominated_pods import NominatedPodFilter, Nominations
from rota.scheduler.framework.objectives import Objective
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, PreFilterResult, Reuse
from rota.scheduler.framework.plugin_results import FEW_ROWS, UNKNOWN, FilterResults, PluginFailure, ScoreResults
from rota.scheduler.framework.runtime import Framework, PreFiltered, as_error
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import SUCCESS, Code, Status

#: The status of nodes outside of a PreFilter result.
NOT_ELIGIBLE = Status(Code.UNRESOLVABLE, (), "PreFilter")
INFEASIBLE = -1
_NO_ROWS: IndexArray = np.empty(0, dtype=np.intp)

#: Rows whose feasibility changed: a list if they are few.
Flipped = Sequence[int] | IndexArray


class Evaluation:
    """The results of a profile for one pod on all nodes. Arrays have shape (N,) and belong to the evaluation."""

    __slots__ = (
        "_asking",
        "_catalog_generation",
        "_combined",
        "_eligible",
        "_filters",
        "_generation",
        "_nominated",
        "_pod_filters",
        "_pod_scorers",
        "_pre",
        "_rows",
        "_scored",
        "_scorers",
        "_since",
        "_stage",
        "_sums",
        "_totals",
        "_within",
        "cluster",
        "failure",
        "feasible",
        "framework",
        "pod",
        "state",
    )

    def __init__(
        self,
        framework: Framework,
        pod: PodInfo,
        cluster: Cluster,
        *,
        nominations: Nominations | None = None,
        within: BoolArray | None = None,
    ) -> None:
        self.framework = framework
        self.pod = pod
        self.cluster = cluster
        #: The only rows to evaluate, if the caller limited them.
        self._within = within
        self._nominated = NominatedPodFilter(framework, pod, nominations) if nominations else None
        self.feasible: BoolArray
        #: If few rows are feasible, only those are scored; then these are the rows that `_sums` holds.
        self._rows: IndexArray | None = None
        #: Sums of weighted scores, whether feasible or not.
        self._sums: IntArray
        self._totals: IntArray | None
        #: The order that the combiner made, until something changes.
        self._combined: IntArray | None = None
        #: The plugin that is being called, in case it raises.
        self._asking = ""
        #: The current extension point, and when it began.
        self._stage = ""
        self._since = 0.0
        self._start()

    # --- results ----------------------------------------------------------------------------------------------------

    @property
    def pre_filter_status(self) -> Status:
        """Success, or why PreFilter ended the attempt."""
        return self._pre.status

    @property
    def totals(self) -> IntArray:
        """The order of nodes by row, the highest first: the sums of all weighted scores, or what the profile's combiner
        makes of its objectives. -1 where the pod may not go."""
        if self.framework.combiner is None or not self._scored or self.failure is not None:
            return self._added
        if self._combined is None:
            self._combined = np.full(len(self.feasible), INFEASIBLE, dtype=np.int64)
            rows, costs, others = self.objectives()
            if len(rows):
                self._combined[rows] = self.framework.combiner.combined(costs, others)
        return self._combined

    def objectives(self, within: IndexArray | None = None) -> tuple[IndexArray, FloatArray, IntArray]:
        """The feasible rows, the costs of the combiner's objectives there, and the sums of the other scores.

        Costs have shape (rows, objectives), in the order of the combiner and in the units of the objectives. `within`
        selects some of the rows once all of them are scored.
        """
        names = self.framework.combiner.objectives
        if self._rows is not None:
            rows = self._rows
        else:
            rows = np.flatnonzero(self.feasible) if within is None else within[self.feasible[within]]
        costs = np.zeros((len(rows), len(names)))
        others = self._added[rows].copy()
        for part in self._scorers:
            if part.forms.name in names:
                at = rows if part.rows is None else slice(None)
                costs[:, names.index(part.forms.name)] = part.raw[at] / part.forms.plugin.per_unit
                others -= part.weighted[at]
        return rows, costs, others

    @property
    def _added(self) -> IntArray:
        """The sums of all weighted scores by row."""
        if self._totals is None:
            self._totals = np.full(len(self.feasible), INFEASIBLE, dtype=np.int64)
            self._totals[self._rows] = self._sums
        return self._totals

    def best_row(self, start: int = 0) -> int:
        """The row with the highest total, or -1 if no node is feasible.

        Of several, the first at or after `start` is chosen, wrapping around.
        """
        rows = self._rows if self.framework.combiner is None else None
        totals = self.totals if rows is None else self._sums
        first = start if rows is None or not start else int(rows.searchsorted(start))
        if not len(totals):
            return -1
        place = int(totals.argmax())
        best = totals[place]
        if best == INFEASIBLE:
            return -1
        if place < first < len(totals):
            later = first + int(totals[first:].argmax())
            if totals[later] == best:
                place = later
        return place if rows is None else int(rows[place])

    def best_rows(self) -> IndexArray:
        """All rows with the highest total, in order."""
        totals = self.totals
        best = totals.max(initial=INFEASIBLE)
        return _NO_ROWS if best == INFEASIBLE else np.flatnonzero(totals == best)

    def status_of(self, row: int) -> Status:
        """The status of a node; the first refusal in the order of the profile."""
        if self.failure is not None:
            return self.failure
        if not self._pre.status.ok:
            return self._pre.status
        if not self._eligible[row]:
            return NOT_ELIGIBLE
        for part in self._filters:
            if code := int(part.codes[row]):
                return self._told(part, code)
        return SUCCESS if self._nominated is None else self._nominated.refusals.get(row, SUCCESS)

    def unresolvable(self) -> BoolArray:
        """The rows where evictions cannot help, including rows without a node."""
        if self.failure is not None or not self._pre.status.ok:
            cannot = self.failure is not None or self._pre.status.code is Code.UNRESOLVABLE
            return ~self.cluster.alive[: len(self.feasible)] | cannot
        found = ~self._eligible
        undecided = self._eligible.copy()
        for part in self._filters:
            refused = undecided & (part.codes != 0)
            for code in np.unique(part.codes[refused]).tolist():
                if self._told(part, code).code is Code.UNRESOLVABLE:
                    found |= refused & (part.codes == code)
            undecided &= ~refused
        for row, refusal in (self._nominated.refusals if self._nominated else {}).items():
            found[row] = refusal.code is Code.UNRESOLVABLE
        return found

    @property
    def narrowing(self) -> tuple[str, ...]:
        """The plugins whose PreFilter reduced the nodes."""
        return self._pre.narrowing

    def refusals(self) -> dict[Status, int]:
        """Count nodes by the reason of their refusal; the cost grows with the distinct reasons, not with the nodes."""
        alive = self.cluster.alive[: len(self.feasible)]
        if self.failure is not None or not self._pre.status.ok:
            return {self.failure or self._pre.status: int(np.count_nonzero(alive))}
        found: dict[Status, int] = {}
        left_out = int(np.count_nonzero(alive & ~self._eligible))
        if left_out:
            found[NOT_ELIGIBLE] = left_out
        undecided = self._eligible.copy()
        for part in self._filters:
            refused = undecided & (part.codes != 0)
            codes, numbers = np.unique(part.codes[refused], return_counts=True)
            for code, number in zip(codes.tolist(), numbers.tolist(), strict=True):
                told = self._told(part, code)
                found[told] = found.get(told, 0) + number
            undecided &= ~refused
        for refusal in (self._nominated.refusals if self._nominated else {}).values():
            found[refusal] = found.get(refusal, 0) + 1
        return found

    def verdicts(self) -> dict[str, CodeArray]:
        """The codes of every filter for all rows: 0 where the pod may go, `UNKNOWN` where the filter was not called."""
        return {part.forms.name: part.codes for part in self._filters}

    def scores_of(self, row: int) -> dict[str, int]:
        """The weighted scores of a feasible node by plugin; plugins that skipped are absent."""
        return {part.forms.name: part.weighted_at(row) for part in self._scorers}

    def costs_of(self, row: int) -> dict[str, tuple[float, str]]:
        """The costs of a feasible node and their units, by objective."""
        found = {}
        for part in self._scorers:
            if isinstance(part.forms.plugin, Objective):
                at = row if part.rows is None else int(part.rows.searchsorted(row))
                found[part.forms.name] = float(part.raw[at]) / part.forms.plugin.per_unit, part.forms.plugin.unit
        return found

    def _told(self, part: FilterResults, code: int) -> Status:
        try:
            return part.status(self.state, self.pod, code)
        except Exception as error:  # noqa: BLE001 - plugins are other people's code
            return statuses.fault(error, plugin=part.forms.name)

    # --- from scratch -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        cluster = self.cluster
        self._generation = cluster.change_log.generation
        self._catalog_generation = cluster.catalog.generation
        self.state = CycleState(cluster)
        self._combined = None
        self.failure: Status | None = None
        self._filters: list[FilterResults] = []
        self._scorers: list[ScoreResults] = []
        self._scored = False
        self._enter(stopwatch.PRE_FILTER)
        self._pre: PreFiltered = self.framework.pre_filter(self.state, self.pod, cluster)
        self._leave(self._pre.status.code)
        self._eligible = cluster.alive[: cluster.size].copy()
        if self._pre.status.code is Code.ERROR:
            self.failure = self._pre.status
        if not self._pre.status.ok:
            self._nowhere()
            return
        if self._pre.node_names is not None:
            self._eligible[:] = False
            named = (cluster.by_name.get(name) for name in self._pre.node_names)
            self._eligible[[node.row for node in named if node is not None]] = True
        if self._within is not None:
            # Nodes that were added since the limit was made are outside of it.
            known = min(len(self._within), cluster.size)
            self._eligible[:known] &= self._within[:known]
            self._eligible[known:] = False
        try:
            self._enter(stopwatch.FILTER)
            self._filter()
            self._leave()
            self._score()
        except PluginFailure as failure:
            self._fail(failure.status)
        except Exception as error:  # noqa: BLE001 - plugins are other people's code
            self._fail(statuses.fault(error, plugin=self._asking))

    def _filter(self) -> None:
        feasible = self._eligible.copy()
        for forms in self.framework.filters:
            if forms.name not in self.state.skip_filter:
                self._asking = forms.name
                part = FilterResults(forms, self._pre.sieves.get(forms.name))
                part.filter_all(self.state, self.pod, self.cluster, feasible)
                self._filters.append(part)
        if self._nominated is not None:
            self._nominated.refuse(self.state, self.cluster, feasible)
        self.feasible = feasible
        self._pod_filters = [part for part in self._filters if part.forms.watches_pods]

    def _score(self) -> None:
        self._scorers = []
        self._pod_scorers: list[ScoreResults] = []
        number = int(np.count_nonzero(self.feasible))
        self._scored = number > 0
        if not self._scored:
            self._nowhere()
            return
        self.state.skip_score.clear()
        self._enter(stopwatch.PRE_SCORE)
        for plugin in self.framework.at(ExtensionPoint.PRE_SCORE):
            self._pre_score(plugin)
        self._leave()
        self._enter(stopwatch.SCORE)
        chosen = [ScoreResults(forms) for forms in self.framework.scorers if forms.name not in self.state.skip_score]
        self._scorers = chosen
        self._pod_scorers = [part for part in chosen if part.forms.watches_pods]
        # Selecting rows from columns costs about as much as one operation on them; it pays off with few rows.
        if not (number * 5 < len(self.feasible) * 3 and self._score_selection()):
            for part in chosen:
                self._asking = part.forms.name
                part.score_all(self.state, self.pod, self.cluster, self.feasible)
            self._add_up()
        self._leave()

    def _score_selection(self) -> bool:
        """Score only the feasible rows; False if a plugin cannot do that."""
        rows = np.flatnonzero(self.feasible)
        sums: IntArray | None = None
        for part in self._scorers:
            self._asking = part.forms.name
            if not part.score_selection(self.state, self.pod, self.cluster, rows):
                return False
            sums = part.weighted.copy() if sums is None else np.add(sums, part.weighted, out=sums)
        self._sums = np.zeros(len(rows), dtype=np.int64) if sums is None else sums
        self._rows, self._totals = rows, None
        return True

    def _expand(self) -> None:
        """Switch from the feasible rows to all rows."""
        rows = self._rows
        if rows is None:
            return
        size = len(self.feasible)
        self._totals = self._added
        for part in self._scorers:
            part.expand(size)
        sums = np.zeros(size, dtype=np.int64)
        sums[rows] = self._sums
        self._sums, self._rows = sums, None

    def _pre_score(self, plugin: Any) -> None:
        self._asking = plugin.name
        answer: Status | None = plugin.pre_score(self.state, self.pod, self.cluster, self.feasible)
        if answer is None:
            return
        if answer.skipped:
            self.state.skip_score.add(plugin.name)
        elif not answer.ok:
            raise PluginFailure(as_error(answer.by(plugin.name)))

    def _add_up(self) -> None:
        if self._scorers:
            sums = self._scorers[0].weighted.copy()
            for part in self._scorers[1:]:
                sums += part.weighted
        else:
            sums = np.zeros(len(self.feasible), dtype=np.int64)
        self._sums = sums
        self._rows = None
        self._totals = np.where(self.feasible, sums, INFEASIBLE)

    def _enter(self, stage: str) -> None:
        self._stage, self._since = stage, self.framework.stopwatch.start()

    def _leave(self, code: Code = Code.SUCCESS) -> None:
        self.framework.stopwatch.observe_duration(self._stage, code, self._since)

    def _fail(self, status: Status) -> None:
        self._leave(status.code)
        self.failure = status
        self._nowhere()

    def _nowhere(self) -> None:
        self.feasible = np.zeros(self.cluster.size, dtype=np.bool_)
        self._totals = np.full(self.cluster.size, INFEASIBLE, dtype=np.int64)
        self._sums = self._totals
        self._rows = None

    # --- updates ------------------------------------------------------------------------------------------------------

    def refresh(self, pod: PodInfo) -> None:
        """Update all results for an equal pod."""
        self.pod = pod
        cluster = self.cluster
        generation = cluster.change_log.generation
        if generation == self._generation and cluster.catalog.generation == self._catalog_generation:
            return
        changes = cluster.change_log.since(self._generation)
        if (
            changes is None
            or self.failure is not None
            or not self._pre.status.ok
            or len(self.feasible) != cluster.size
            # Refusals by nominated pods concern a whole node, so every changed row would be filtered with them again.
            or self._nominated is not None
            or (changes.node and (self._pre.node_names is not None or self._pre.sieves))
        ):
            self._start()
            return
        self._generation = generation
        self._catalog_generation = cluster.catalog.generation
        combined, self._combined = self._combined, None
        try:
            self._enter(stopwatch.FILTER)
            flipped = self._refilter(changes)
            if flipped is None:
                self._start()
            else:
                self._leave()
                if not self._rescore(changes, flipped) and combined is not None:
                    self._combine_again(combined, [*changes.all, *flipped])
        except PluginFailure as failure:
            self._fail(failure.status)
        except Exception as error:  # noqa: BLE001 - plugins are other people's code
            self._fail(statuses.fault(error, plugin=self._asking))

    def _refilter(self, changes: Changes) -> Flipped | None:
        """Filter the rows that need it; returns the rows whose feasibility changed, or None to start over."""
        state, pod, cluster = self.state, self.pod, self.cluster
        everything = False
        for plugin in self.framework.reusing_filter:
            self._asking = plugin.name
            reuse = plugin.reuse_filter(state, pod, cluster, changes)
            if reuse is Reuse.ROWS:
                continue
            if reuse is Reuse.AGAIN and not self._pre_filter_again(plugin):
                return None
            for part in self._filters:
                if part.forms.plugin is plugin:
                    part.filter_all(state, pod, cluster, self._eligible.copy())
                    everything = True
        for part in self._filters if changes.node else self._pod_filters:
            rows = changes.watched(part.forms.watches)
            if rows:
                self._asking = part.forms.name
                part.filter_some(state, pod, cluster, rows)
        for row in changes.node:
            self._eligible[row] = cluster.alive[row] and (self._within is None or self._within[row])
        return self._combine() if everything else self._combine_rows(changes.all)

    def _pre_filter_again(self, plugin: Any) -> bool:
        """Run one PreFilter again; False if its result affects more than its own plugin."""
        result: PreFilterResult = plugin.pre_filter(self.state, self.pod, self.cluster)
        skips = plugin.name in self.state.skip_filter
        return (
            result.status.ok is not skips
            and result.status.skipped is skips
            and result.node_names is None
            and result.candidates is None
        )

    def _combine(self) -> Flipped:
        feasible = self._eligible.copy()
        for part in self._filters:
            if part.forms.filter_nodes is None:
                self._asking = part.forms.name
                for row in np.flatnonzero(feasible & (part.codes == UNKNOWN)).tolist():
                    part.judge(self.state, self.pod, self.cluster, row)
            feasible &= part.codes == 0
        flipped = np.flatnonzero(feasible != self.feasible)
        self.feasible = feasible
        return flipped if len(flipped) > FEW_ROWS else flipped.tolist()

    def _combine_rows(self, rows: Sequence[int]) -> Flipped:
        if len(rows) > FEW_ROWS:
            return self._combine_many(np.asarray(rows, dtype=np.intp))
        flipped = []
        for row in rows:
            will_do = bool(self._eligible[row])
            if will_do:
                for part in self._filters:
                    code = part.codes[row]
                    if code == UNKNOWN:
                        self._asking = part.forms.name
                        code = part.judge(self.state, self.pod, self.cluster, row)
                    if code:
                        will_do = False
                        break
            if will_do != self.feasible[row]:
                self.feasible[row] = will_do
                flipped.append(row)
        return flipped

    def _combine_many(self, rows: IndexArray) -> Flipped:
        will_do = self._eligible[rows]
        for part in self._filters:
            codes = part.codes[rows]
            unknown = will_do & (codes == UNKNOWN)
            if unknown.any():
                self._asking = part.forms.name
                for row in rows[unknown].tolist():
                    part.judge(self.state, self.pod, self.cluster, row)
                codes = part.codes[rows]
            will_do &= codes == 0
        flipped: IndexArray = rows[will_do != self.feasible[rows]]
        self.feasible[rows] = will_do
        return flipped if len(flipped) > FEW_ROWS else flipped.tolist()

    def _combine_again(self, combined: IntArray, changed: Sequence[int]) -> None:
        """Order only the changed rows again, if the order of a row does not depend on other rows."""
        combiner = self.framework.combiner
        if combiner.local and len(combined) == len(self.feasible):
            if combiner.has_rows and self._rows is None and len(changed) <= FEW_ROWS:
                for row in changed:
                    combined[row] = self._combined_row(row) if self.feasible[row] else INFEASIBLE
                self._combined = combined
                return
            within = np.unique(np.asarray(changed, dtype=np.intp))
            rows, costs, others = self.objectives(within)
            combined[within] = INFEASIBLE
            if len(rows):
                combined[rows] = self.framework.combiner.combined(costs, others)
            self._combined = combined

    def _combined_row(self, row: int) -> int:
        """As `objectives` and `combined`, of one row."""
        names = self.framework.combiner.objectives
        costs, others = [0.0] * len(names), int(self._added[row])
        for part in self._scorers:
            if part.forms.name in names:
                costs[names.index(part.forms.name)] = int(part.raw[row]) / part.forms.plugin.per_unit
                others -= int(part.weighted[row])
        found: int = self.framework.combiner.combined_row(costs, others)
        return found

    def _rescore(self, changes: Changes, flipped: Flipped) -> bool:
        """Score what changed; returns whether the scores of all rows may have changed."""
        any_flipped = len(flipped) > 0
        if not self._scored or (any_flipped and not self.feasible.any()):
            self._score()
            return True
        self._enter(stopwatch.SCORE)
        self._expand()
        state, pod, cluster = self.state, self.pod, self.cluster
        again = False
        for plugin in self.framework.reusing_score:
            self._asking = plugin.name
            reuse = plugin.reuse_score(state, pod, cluster, changes, feasible_changed=any_flipped)
            if reuse is Reuse.ROWS:
                continue
            skipped = plugin.name in state.skip_score
            if reuse is Reuse.AGAIN and hasattr(plugin, "pre_score"):
                state.skip_score.discard(plugin.name)
                self._pre_score(plugin)
            if skipped is not (plugin.name in state.skip_score):
                self._score()
                return True
            for part in self._scorers:
                if part.forms.plugin is plugin:
                    part.score_all(state, pod, cluster, self.feasible)
                    again = True
        again |= self._rescore_rows(changes, flipped)
        if again:
            self._add_up()
        elif len(flipped) > FEW_ROWS:
            self._totals = np.where(self.feasible, self._sums, INFEASIBLE)
        else:
            for row in flipped:
                self._added[row] = self._sums[row] if self.feasible[row] else INFEASIBLE
        self._leave()
        return again

    def _rescore_rows(self, changes: Changes, flipped: Flipped) -> bool:
        """Score changed rows and update their sums; returns whether a plugin had to renormalise all rows."""
        state, pod, cluster, feasible = self.state, self.pod, self.cluster, self.feasible
        renormalised, any_flipped = False, len(flipped) > 0
        for part in self._scorers if changes.node or any_flipped else self._pod_scorers:
            self._asking = part.forms.name
            rows, fresh = [], part.unrated(flipped, feasible) if any_flipped else []
            for row in changes.watched(part.forms.watches):
                part.rated[row] = feasible[row]
                if feasible[row] and row not in fresh:
                    rows.append(row)
            rows += fresh
            moved = part.score_some(state, pod, cluster, rows) if rows else rows
            if fresh:
                # A row that was never weighted must be, even if its raw score equals the stale value.
                moved = list({*moved, *fresh})
            suspect = part.normalizes and (moved or any_flipped)
            if len(moved) > FEW_ROWS or (suspect and part.bounds_moved(state, pod, feasible)):
                part.normalize_all(state, pod, cluster, feasible)
                renormalised = True
            elif moved:
                for row in moved:
                    self._sums[row] -= part.weighted[row]
                part.normalize_some(state, pod, moved)
                for row in moved:
                    self._sums[row] += part.weighted[row]
                    self._added[row] = self._sums[row]
        return renormalised
