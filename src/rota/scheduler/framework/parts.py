"""One plugin's share in the evaluation of all nodes: the verdicts of a filter, the ratings of a scorer.

A part keeps what its plugin said about every row and can ask again about some rows or about all. It uses the scalar
form for a few rows and the vector form for many, and makes do with whichever the plugin has. What a plugin raises leaves
as a `PluginFailure`, which `evaluation` turns into the outcome.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rota.columns.arrays import BoolArray, CodeArray, IndexArray, IntArray, Rows
from rota.columns.cluster import Cluster
from rota.columns.journal import Facet
from rota.columns.nodes import NodeInfo
from rota.columns.pods import PodInfo
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.points import MAX_SCORE, MIN_SCORE
from rota.scheduler.framework.runtime import as_error
from rota.scheduler.framework.state import CycleState
from rota.scheduler.framework.status import Code, Status

#: Up to so many changed rows are asked about one by one.
FEW_ROWS = 12

#: Codes below zero: not asked yet, or (from -2 down) the number of a status given by a scalar filter.
_UNKNOWN = -1
_NO_SCORE = np.iinfo(np.int64).min


class PluginFailure(Exception):
    """Carries an Error status out of the middle of an evaluation."""

    def __init__(self, status: Status) -> None:
        self.status = status
        super().__init__(status.reasons)


class FilterPart:
    """One filter's verdicts on all rows."""

    __slots__ = ("_given", "_sieve", "codes", "name", "plugin", "scalar", "vector", "watches")

    def __init__(self, plugin: Any, sieve: tuple[BoolArray, Status] | None) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.scalar = getattr(plugin, "filter", None)
        self.vector = getattr(plugin, "filter_nodes", None)
        self.watches: Facet = getattr(plugin, "watches", Facet.BOTH)
        self.codes: CodeArray = np.zeros(0, dtype=np.int64)
        self._sieve = sieve
        self._given: list[Status] = []

    def judge_all(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> None:
        """Judge every row; a plugin without a vector form is asked only about rows that are still feasible."""
        if self.vector is not None:
            self.codes = self._vector_codes(state, pod, cluster, cluster.rows)
            return
        self.codes = np.full(cluster.size, _UNKNOWN, dtype=np.int64)
        if self._sieve is not None:
            candidates, refusal = self._sieve
            self.codes[~candidates] = self._number(refusal)
            feasible = feasible & candidates
        for row in np.flatnonzero(feasible).tolist():
            self.judge(state, pod, cluster, row)

    def judge_some(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Sequence[int]) -> None:
        """Judge some rows again."""
        if self.scalar is None or (self.vector is not None and len(rows) > FEW_ROWS):
            index: IndexArray = np.asarray(rows, dtype=np.intp)
            self.codes[index] = self._vector_codes(state, pod, cluster, index)
        else:
            for row in rows:
                self.judge(state, pod, cluster, row)

    def judge(self, state: CycleState, pod: PodInfo, cluster: Cluster, row: int) -> None:
        """Judge one row."""
        node = cluster.nodes[row]
        if node is None:
            self.codes[row] = 0
            return
        if self.scalar is None:
            self.judge_some(state, pod, cluster, (row,))
            return
        try:
            answer: Status = self.scalar(state, pod, node)
        except Exception as error:
            raise PluginFailure(statuses.fault(error, plugin=self.name)) from error
        if answer.ok:
            self.codes[row] = 0
        elif answer.rejected:
            self.codes[row] = self._number(answer)
        else:
            raise PluginFailure(as_error(answer.by(self.name)))

    def status(self, state: CycleState, pod: PodInfo, row: int) -> Status:
        """Say why a row was refused."""
        code = int(self.codes[row])
        if code < _UNKNOWN:
            return self._given[-code - 2].by(self.name)
        try:
            answer: Status = self.plugin.explain(state, pod, code)
        except Exception as error:  # noqa: BLE001 - plugins are other people's code
            return statuses.fault(error, plugin=self.name)
        return answer.by(self.name)

    def _number(self, answer: Status) -> int:
        for number, known in enumerate(self._given):
            if known is answer or known == answer:
                return -number - 2
        self._given.append(answer)
        return -len(self._given) - 1

    def _vector_codes(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> CodeArray:
        try:
            return np.asarray(self.vector(state, pod, cluster, rows), dtype=np.int64)
        except Exception as error:
            raise PluginFailure(statuses.fault(error, plugin=self.name)) from error


class ScorePart:
    """One scorer's ratings of all rows."""

    __slots__ = (
        "_bounded",
        "_named",
        "bounds",
        "name",
        "plugin",
        "raw",
        "scalar",
        "vector",
        "watches",
        "weight",
        "weighted",
    )

    def __init__(self, plugin: Any, weight: int) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.weight = weight
        self.scalar = getattr(plugin, "score", None)
        self.vector = getattr(plugin, "score_nodes", None)
        self.watches: Facet = getattr(plugin, "watches", Facet.BOTH)
        self._bounded = hasattr(plugin, "bounds")
        self._named = getattr(plugin, "normalize_scores", None)
        #: Shape (N,): as the plugin rated, and normalised times weight. Infeasible rows hold anything.
        self.raw: IntArray = np.zeros(0, dtype=np.int64)
        self.weighted: IntArray = np.zeros(0, dtype=np.int64)
        self.bounds: Any = None

    def rate_all(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> None:
        """Rate every row, or the feasible ones if the plugin has no vector form; then normalise."""
        if self.vector is not None:
            self.raw = self._vector_scores(state, pod, cluster, cluster.rows)
        else:
            self.raw = np.full(cluster.size, _NO_SCORE, dtype=np.int64)
            for row in np.flatnonzero(feasible).tolist():
                self.raw[row] = self._one(state, pod, cluster.nodes[row])
        self.normalize_all(state, pod, cluster, feasible)

    def rate_some(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Sequence[int]) -> bool:
        """Rate some feasible rows again; whether any raw score changed."""
        if self.scalar is None or (self.vector is not None and len(rows) > FEW_ROWS):
            index: IndexArray = np.asarray(rows, dtype=np.intp)
            scores = self._vector_scores(state, pod, cluster, index)
            changed = bool((self.raw[index] != scores).any())
            self.raw[index] = scores
            return changed
        changed = False
        raw = self.raw
        for row in rows:
            score = self._one(state, pod, cluster.nodes[row])
            if raw[row] != score:
                raw[row] = score
                changed = True
        return changed

    def unrated(self, rows: Sequence[int]) -> list[int]:
        """Give those of the rows that were never rated."""
        return [] if self.vector is not None else [row for row in rows if self.raw[row] == _NO_SCORE]

    @property
    def normalizes(self) -> bool:
        """Whether one row's score can depend on other rows' raw scores."""
        return self._bounded or self._named is not None

    def normalize_all(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> None:
        """Bring all scores into range and weigh them."""
        try:
            final = self._normalized(state, pod, cluster, feasible)
        except Exception as error:
            raise PluginFailure(statuses.fault(error, plugin=self.name)) from error
        relevant = final[feasible]
        if len(relevant) and (relevant.min() < MIN_SCORE or relevant.max() > MAX_SCORE):
            worst = relevant.min() if relevant.min() < MIN_SCORE else relevant.max()
            raise PluginFailure(self._out_of_range(int(worst)))
        self.weighted = final * self.weight

    def normalize_some(
        self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray, rows: Sequence[int]
    ) -> bool:
        """Bring changed rows into range; whether all rows had to be done, because the bounds moved."""
        if self._named is not None:
            self.normalize_all(state, pod, cluster, feasible)
            return True
        index: IndexArray = np.asarray(rows, dtype=np.intp)
        scores = self.raw[index]
        try:
            if self._bounded:
                if self.plugin.bounds(state, pod, self.raw[feasible]) != self.bounds:
                    self.normalize_all(state, pod, cluster, feasible)
                    return True
                scores = self.plugin.normalize(state, pod, scores, self.bounds)
        except Exception as error:
            raise PluginFailure(statuses.fault(error, plugin=self.name)) from error
        here = scores[feasible[index]]
        for score in here.tolist():
            if not MIN_SCORE <= score <= MAX_SCORE:
                raise PluginFailure(self._out_of_range(score))
        self.weighted[index] = scores * self.weight
        return False

    def _normalized(self, state: CycleState, pod: PodInfo, cluster: Cluster, feasible: BoolArray) -> IntArray:
        if self._bounded:
            self.bounds = self.plugin.bounds(state, pod, self.raw[feasible])
            return np.asarray(self.plugin.normalize(state, pod, self.raw, self.bounds))
        if self._named is None:
            return self.raw
        rows = np.flatnonzero(feasible).tolist()
        names = {row: node.name for row in rows if (node := cluster.nodes[row]) is not None}
        final = self._named(state, pod, {name: int(self.raw[row]) for row, name in names.items()})
        scores = np.zeros(cluster.size, dtype=np.int64)
        for row, name in names.items():
            scores[row] = final[name]
        return scores

    def _one(self, state: CycleState, pod: PodInfo, node: NodeInfo | None) -> int:
        assert self.scalar is not None
        try:
            return int(self.scalar(state, pod, node))
        except Exception as error:
            raise PluginFailure(statuses.fault(error, plugin=self.name)) from error

    def _vector_scores(self, state: CycleState, pod: PodInfo, cluster: Cluster, rows: Rows) -> IntArray:
        try:
            return np.array(self.vector(state, pod, cluster, rows), dtype=np.int64)
        except Exception as error:
            raise PluginFailure(statuses.fault(error, plugin=self.name)) from error

    def _out_of_range(self, score: int) -> Status:
        reason = f"score {score} is outside of {MIN_SCORE}..{MAX_SCORE}; normalise it"
        return Status(Code.ERROR, (reason,), self.name)
