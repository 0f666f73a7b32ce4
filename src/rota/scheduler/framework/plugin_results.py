"""The results of one plugin for all nodes: the codes of a filter, the scores of a scorer.

A result object keeps what its plugin returned for every row and can call it again for some rows or for all. It uses the
scalar form for a few rows and the vector form for many, or whichever the plugin has. Exceptions of a plugin pass
through; `evaluation` knows which plugin it called and turns them into a failure.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rota.columns.arrays import BoolArray, CodeArray, IndexArray, IntArray
from rota.columns.change_log import ChangeScope
from rota.columns.cluster import Cluster
from rota.columns.pods import PodInfo
from rota.scheduler.framework.plugin_interfaces import MAX_SCORE, MIN_SCORE
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Code, Status

#: Up to this many rows the scalar form is used.
FEW_ROWS = 12

_NOTHING: IntArray = np.zeros(0, dtype=np.int64)
_NO_ROWS: BoolArray = np.zeros(0, dtype=np.bool_)

#: Codes below zero: not called yet, or (from -2 down) the number of a status returned by a scalar filter.
UNKNOWN = -1


class PluginFailure(Exception):
    """Carries an Error status out of the middle of an evaluation."""

    def __init__(self, status: Status) -> None:
        self.status = status
        super().__init__(status.reasons)


class PluginMethods:
    """The methods of a plugin that take part in a decision, looked up once."""

    __slots__ = (
        "bounds",
        "explain",
        "filter",
        "filter_nodes",
        "name",
        "named",
        "normalize",
        "plugin",
        "score",
        "score_nodes",
        "watches",
        "watches_pods",
        "weight",
    )

    def __init__(self, plugin: Any, weight: int = 1) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.weight = weight
        self.watches: ChangeScope = getattr(plugin, "watches", ChangeScope.BOTH)
        self.watches_pods = bool(self.watches & ChangeScope.PODS)
        self.filter: Callable[..., Status | None] | None = getattr(plugin, "filter", None)
        self.filter_nodes: Callable[..., CodeArray | None] | None = getattr(plugin, "filter_nodes", None)
        self.explain: Callable[..., Status] | None = getattr(plugin, "explain", None)
        self.score: Callable[..., int] | None = getattr(plugin, "score", None)
        self.score_nodes: Callable[..., IntArray] | None = getattr(plugin, "score_nodes", None)
        self.bounds: Callable[..., Any] | None = getattr(plugin, "bounds", None)
        self.normalize: Callable[..., IntArray] | None = getattr(plugin, "normalize", None)
        self.named: Callable[..., Any] | None = getattr(plugin, "normalize_scores", None)


class FilterResults:
    """The codes of one filter for all rows."""

    __slots__ = ("_given", "_prefilter_mask", "codes", "forms")

    def __init__(self, forms: PluginMethods, prefilter_mask: tuple[BoolArray, Status] | None) -> None:
        self.forms = forms
        #: Shape (N,): 0 where the pod may go.
        self.codes: CodeArray = _NOTHING
        self._prefilter_mask = prefilter_mask
        self._given: list[Status] = []

    def filter_all(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> None:
        """Filter every row and clear refused rows in `feasible`.

        A plugin without a vector form is called only for rows that are still feasible.
        """
        judge = self.forms.filter_nodes
        if judge is not None:
            codes = judge(state, pod, cluster, cluster.rows)
            if codes is None:
                self.codes = np.zeros(cluster.size, dtype=np.int64)
            else:
                self.codes = np.asarray(codes, dtype=np.int64)
                feasible &= self.codes == 0
            return
        self.codes = np.full(cluster.size, UNKNOWN, dtype=np.int64)
        if self._prefilter_mask is not None:
            candidates, refusal = self._prefilter_mask
            self.codes[~candidates] = self._number(refusal)
            feasible &= candidates
        for row in np.flatnonzero(feasible).tolist():
            if self.judge(state, pod, cluster, row):
                feasible[row] = False

    def filter_some(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Sequence[int]) -> None:
        """Filter some rows again."""
        judge = self.forms.filter_nodes
        if judge is not None and (self.forms.filter is None or len(rows) > FEW_ROWS):
            index: IndexArray = np.asarray(rows, dtype=np.intp)
            codes = judge(state, pod, cluster, index)
            self.codes[index] = 0 if codes is None else codes
        else:
            for row in rows:
                self.judge(state, pod, cluster, row)

    def judge(self, state: CycleState, pod: PodInfo, cluster: Cluster, row: int) -> int:
        """Filter one row and return its code."""
        node = cluster.nodes[row]
        if node is None:
            code = 0
        elif self.forms.filter is None:
            self.filter_some(state, pod, cluster, (row,))
            return int(self.codes[row])
        else:
            answer = self.forms.filter(state, pod, node)
            if answer is None or answer.code is Code.SUCCESS:
                code = 0
            elif answer.rejected:
                code = self._number(answer)
            else:
                raise PluginFailure(Status(Code.ERROR, answer.reasons, self.forms.name, answer.error))
        self.codes[row] = code
        return code

    def status(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        """The status of a code other than 0."""
        if code < UNKNOWN:
            return self._given[-code - 2].by(self.forms.name)
        assert self.forms.explain is not None
        return self.forms.explain(state, pod, code).by(self.forms.name)

    def _number(self, answer: Status) -> int:
        for number, known in enumerate(self._given):
            if known is answer or known == answer:
                return -number - 2
        self._given.append(answer)
        return -len(self._given) - 1


class ScoreResults:
    """The scores of one scorer: of all rows, or (`rows` is set) of a selection, until more are needed."""

    __slots__ = ("bounds", "forms", "normalizes", "rated", "raw", "rows", "weighted")

    def __init__(self, forms: PluginMethods) -> None:
        self.forms = forms
        #: Whether one row's score can depend on other rows' raw scores.
        self.normalizes = forms.bounds is not None or forms.named is not None
        #: The rows, in order, that the columns below hold; None: all of them.
        self.rows: IndexArray | None = None
        #: As the plugin rated, and normalised times weight. Infeasible rows hold anything.
        self.raw: IntArray = _NOTHING
        self.weighted: IntArray = _NOTHING
        self.bounds: Any = None
        #: Rows whose raw score is up to date; all feasible ones are.
        self.rated: BoolArray = _NO_ROWS

    def score_all(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> None:
        """Score every row, or the feasible ones if the plugin has no vector form; then normalise."""
        self.rows = None
        rate, rate_one = self.forms.score_nodes, self.forms.score
        if rate is not None:
            self.rated = np.ones(cluster.size, dtype=np.bool_)
            self.raw = np.array(rate(state, pod, cluster, cluster.rows), dtype=np.int64)
        else:
            assert rate_one is not None
            self.rated = feasible.copy()
            self.raw = np.zeros(cluster.size, dtype=np.int64)
            for row in np.flatnonzero(feasible).tolist():
                self.raw[row] = rate_one(state, pod, cluster.nodes[row])
        self.normalize_all(state, pod, cluster, feasible)

    def score_selection(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: IndexArray) -> bool:
        """Score only the feasible rows, if the plugin's forms allow it; returns whether they do."""
        if self.forms.score_nodes is None or self.forms.named is not None:
            return False
        self.rows = rows
        self.raw = np.asarray(self.forms.score_nodes(state, pod, cluster, rows), dtype=np.int64)
        final = self.raw
        if self.forms.bounds is not None and self.forms.normalize is not None:
            self.bounds = self.forms.bounds(state, pod, self.raw)
            final = self.forms.normalize(state, pod, self.raw, self.bounds)
        self._check_all(final)
        self.weighted = final * self.forms.weight if self.forms.weight != 1 else final
        return True

    def expand(self, size: int) -> None:
        """Extend the arrays to all rows."""
        rows = self.rows
        if rows is None:
            return
        self.rows = None
        raw, weighted = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        raw[rows], weighted[rows] = self.raw, self.weighted
        self.raw, self.weighted = raw, weighted
        self.rated = np.zeros(size, dtype=np.bool_)
        self.rated[rows] = True

    def weighted_at(self, row: int) -> int:
        """The weighted score of a feasible row."""
        return int(self.weighted[row if self.rows is None else self.rows.searchsorted(row)])

    def score_some(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Sequence[int]) -> list[int]:
        """Score some feasible rows again; returns those whose raw score changed."""
        rate, rate_one = self.forms.score_nodes, self.forms.score
        raw = self.raw
        if rate is not None and (rate_one is None or len(rows) > FEW_ROWS):
            index: IndexArray = np.asarray(rows, dtype=np.intp)
            scores = rate(state, pod, cluster, index)
            changed: list[int] = index[raw[index] != scores].tolist()
            raw[index] = scores
            return changed
        assert rate_one is not None
        changed = []
        for row in rows:
            score = rate_one(state, pod, cluster.nodes[row])
            if raw[row] != score:
                raw[row] = score
                changed.append(row)
        return changed

    def unrated(self, rows: Sequence[int] | IndexArray, feasible: BoolArray) -> list[int]:
        """The rows that have become feasible and must be scored; marks them as scored."""
        if len(rows) > FEW_ROWS:
            index: IndexArray = np.asarray(rows, dtype=np.intp)
            found: list[int] = index[feasible[index] & ~self.rated[index]].tolist()
        else:
            found = [row for row in rows if feasible[row] and not self.rated[row]]
        if found:
            self.rated[found] = True
        return found

    def normalize_all(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> None:
        """Normalise and weight all scores."""
        final = self.raw
        if self.forms.bounds is not None and self.forms.normalize is not None:
            self.bounds = self.forms.bounds(state, pod, self.raw[feasible])
            final = self.forms.normalize(state, pod, self.raw, self.bounds)
        elif self.forms.named is not None:
            final = self._named(state, pod, cluster, feasible)
        self._check_all(final, feasible)
        self.weighted = final * self.forms.weight if self.forms.weight != 1 else final.copy()

    def bounds_moved(self, state: CycleState, pod: PodInfo, feasible: BoolArray) -> bool:
        """Whether all scores must be normalised again because the bounds have changed."""
        if getattr(self.forms.plugin, "fixed_bounds", False):
            return False
        if self.forms.bounds is not None:
            return bool(self.forms.bounds(state, pod, self.raw[feasible]) != self.bounds)
        return self.forms.named is not None

    def normalize_some(self, state: CycleState, pod: PodInfo, rows: Sequence[int]) -> None:
        """Normalise feasible rows by the current bounds, and weight them."""
        plugin = self.forms.plugin
        one = getattr(plugin, "normalize_one", None) if getattr(plugin, "fixed_bounds", False) else None
        if one is not None and len(rows) <= FEW_ROWS:
            scores = [one(int(self.raw[row])) for row in rows]
        elif self.forms.normalize is not None and self.forms.bounds is not None:
            index: IndexArray = np.asarray(rows, dtype=np.intp)
            scores = self.forms.normalize(state, pod, self.raw[index], self.bounds).tolist()
        else:
            scores = [int(self.raw[row]) for row in rows]
        weight, weighted = self.forms.weight, self.weighted
        for row, score in zip(rows, scores, strict=True):
            self._check(score)
            weighted[row] = score * weight

    def _named(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> IntArray:
        assert self.forms.named is not None
        rows = np.flatnonzero(feasible).tolist()
        names = {row: node.name for row in rows if (node := cluster.nodes[row]) is not None}
        final = self.forms.named(state, pod, {name: int(self.raw[row]) for row, name in names.items()})
        scores = np.zeros(cluster.size, dtype=np.int64)
        for row, name in names.items():
            scores[row] = final[name]
        return scores

    def _check_all(self, scores: IntArray, feasible: BoolArray | None = None) -> None:
        # As unsigned integers, negative numbers are too large as well. Infeasible rows may hold any value.
        if len(scores) and np.maximum.reduce(scores.view(np.uint64)) > MAX_SCORE:
            relevant = scores if feasible is None else scores[feasible]
            self._check(int(relevant.min(initial=MIN_SCORE)))
            self._check(int(relevant.max(initial=MIN_SCORE)))

    def _check(self, score: int) -> None:
        if not MIN_SCORE <= score <= MAX_SCORE:
            reason = f"score {score} is outside of {MIN_SCORE}..{MAX_SCORE}; normalise it"
            raise PluginFailure(Status(Code.ERROR, (reason,), self.forms.name))
