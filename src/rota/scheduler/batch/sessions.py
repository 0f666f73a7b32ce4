"""A session: a state with the plugins of a configuration. It judges and rates nodes, and moves pods.

Scores of plugins are added up; `combinations` has the other rules by which their results are combined.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, IndexArray
from rota.scheduler.batch.combinations import Combination
from rota.scheduler.batch.conf import BatchConfiguration
from rota.scheduler.batch.fit_errors import FitErrors
from rota.scheduler.batch.hypernodes import HyperNode
from rota.scheduler.batch.jobs import Job, SubJob
from rota.scheduler.batch.placements import Placements
from rota.scheduler.batch.plugin import BatchPlugin, Purpose
from rota.scheduler.batch.ratings import RatingCache
from rota.scheduler.batch.shape_search import Found, ShapeSearch
from rota.scheduler.batch.statements import Statement
from rota.scheduler.batch.states import Commit, State
from rota.scheduler.batch.statuses import PodGroupPhase, TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.trials import SessionTrial
from rota.scheduler.batch.verdicts import ErrorCache, Verdicts
from rota.scheduler.framework.status import Code

#: So many scorings are kept for explanations.
_SCORINGS: Final = 6


class Session(Combination):
    """A state with plugins."""

    def __init__(
        self,
        state: State,
        configuration: BatchConfiguration,
        *,
        on_commit: Callable[[Commit], None] | None = None,
        quick: bool = False,
    ) -> None:
        """`on_commit` is called with every group of bindings and evictions, as soon as it is decided.

        A `quick` session keeps what it knows of shapes (`shape_search`). Its moves are the same; reasons of refusals
        are those at the end of a search, where Volcano keeps some from its beginning.
        """
        self.state: Final = state
        self._on_commit: Final = on_commit
        self._commit: Commit | None = None
        self.nodes: Final = state.nodes
        self.cluster: Final = state.cluster
        self.placements: Final = Placements(state.cluster)
        self.jobs: Final = state.jobs
        #: The groups that this session may have to decide something for, in the order of their keys.
        self.active: Final = state.jobs if state.active is None else state.active
        #: What the other groups count for their queues.
        self.quiet: Final = state.quiet
        #: Groups whose pods this session moved, or that it let in.
        self.changed: Final[set[str]] = set()
        self.queues: Final = state.queues
        self.hypernodes: Final = state.hypernodes
        self.now: Final = state.now
        self.configuration: Final = configuration
        self.total: Final = state.nodes.total()
        #: What was sent out: ("bind", pod, node) and ("evict", pod, reason).
        self.sent: Final[list[tuple[str, str, str]]] = []
        #: Ratings of the first scorings, for explanations.
        self.scores: Final[list[tuple[str, dict[str, float]]]] = []
        self.plugins: Final[dict[str, BatchPlugin]] = {}
        for tier in configuration.tiers:
            for option in tier:
                plugin = option.plugin(self, option.arguments, hierarchy=option.hierarchy)
                self.plugins[plugin.name] = plugin
                plugin.open()
        super().__init__(configuration, self.plugins, state.jobs, state.queues, quick=quick)
        self._ratings: Final = [
            RatingCache(plugin.node_order, self.nodes).rate if plugin.rates_alone else plugin.node_order
            for plugin in self.plugins.values()
            if plugin.node_order in self._flat["node_order"]
        ]
        self._comparing: Final = [
            plugin for plugin in self.plugins.values() if plugin.batch_node_order in self._flat["batch_node_order"]
        ]
        self._shapes: Final = self._shape_search() if quick else None
        self._other_preparations: Final = [
            plugin.pre_predicate
            for plugin in self.plugins.values()
            if not plugin.filters_alone and plugin.pre_predicate in self._flat["pre_predicate"]
        ]
        self._trials: Final = [
            (self.plugins[option.plugin.name], option.switches)
            for tier in configuration.tiers
            for option in tier
            if self.plugins[option.plugin.name].offers("trial")
        ]
        for plugin in self.plugins.values():
            plugin.begin()

    def queues_in_use(self) -> set[str]:
        """Give the names of queues that have groups."""
        return {*self.quiet, *(job.queue for job in self.active.values())}

    def is_due(self, work: str, interval: float) -> bool:
        """Whether work that is done at intervals is due; if so, it counts as done now."""
        done_at = self.state.done_at
        if work in done_at and self.now - done_at[work] < interval:
            return False
        done_at[work] = self.now
        return True

    def _shape_search(self) -> ShapeSearch | None:
        """Give the search by shapes if all plugins of this configuration allow it."""
        judges = [one for one in self.plugins.values() if one.predicate in self._flat["predicate"]]
        raters = [one for one in self.plugins.values() if one.node_order in self._flat["node_order"]]
        if not all(one.filters_alone for one in judges) or not all(one.rates_alone for one in raters):
            return None
        filters: Any = judges[0] if judges else None
        if len(judges) > 1:
            return None
        return ShapeSearch(self.nodes, filters, [one.node_order for one in raters], [one.node_key for one in raters])

    def quick_best(self, task: Task, rows: BoolArray | None) -> Found | None:
        """Give the best of some nodes for a pod, or of all; None if the whole search has to be made."""
        if self._shapes is None or task.info.nominated_node:
            return None
        if any(plugin.compares(task) for plugin in self._comparing):
            return None
        return self._shapes.best(task, rows)

    def shapes_decide(self, task: Task) -> bool:
        """Whether nodes take or refuse a pod by its shape and their resources alone, and reasons may be shared."""
        return self._shapes is not None and not task.info.nominated_node and self._shapes.decides(task)

    def pre_predicate_quickly(self, task: Task) -> str | None:
        """Prepare plugins other than the one that judges nodes alone."""
        for prepare in self._other_preparations:
            reason: str | None = prepare(task)
            if reason is not None:
                return reason
        return None

    # --- nodes ------------------------------------------------------------------------------------------------------

    def pre_predicate(self, task: Task) -> str | None:
        """Prepare to judge nodes for a pod; a reason ends the search."""
        for prepare in self._flat["pre_predicate"]:
            reason: str | None = prepare(task)
            if reason is not None:
                return reason
        return None

    def judge(self, task: Task, rows: BoolArray) -> Verdicts:
        """Filter nodes for a pod: the first plugin that refuses a node gives the reason."""
        result = Verdicts(len(rows))
        left = rows
        for ask in self._flat["predicate"]:
            verdicts: Verdicts | None = ask(task, left)
            if verdicts is not None:
                result.absorb(verdicts, left)
                left = left & ~verdicts.refused
        return result

    def judge_room(self, task: Task, rows: BoolArray) -> Verdicts:
        """Filter nodes for a pod that cannot evict: first by future idle resources."""
        return self._judge_fitting(task, rows, self.judge)

    def judge_final_room(self, task: Task, rows: BoolArray) -> Verdicts:
        """Judge nodes for a pod whose victims are gone already: whether it will fit, and what no eviction mends."""
        return self._judge_fitting(task, rows, self.judge_final)

    def _judge_fitting(self, task: Task, rows: BoolArray, judge: Callable[[Task, BoolArray], Verdicts]) -> Verdicts:
        table = self.nodes.future
        fitting = np.zeros(len(rows), dtype=np.bool_)
        fitting[rows] = self.nodes.fits(task.request, table, np.flatnonzero(rows))
        crowded = rows & ~fitting
        if not crowded.any():
            return judge(task, rows)
        result = Verdicts(len(rows))
        undecided = crowded
        for name, lacks in self.nodes.insufficient(task.request, table):
            first = undecided & lacks
            if first.any():
                result.refuse(first, Code.UNSCHEDULABLE, f"Insufficient {name}")
                undecided = undecided & ~first
        result.absorb(judge(task, fitting), fitting)
        return result

    def judge_final(self, task: Task, rows: BoolArray) -> Verdicts:
        """Judge nodes for a pod that may evict: only what no eviction mends counts."""
        verdicts = self.judge(task, rows)
        result = Verdicts(len(rows))
        result.refused = verdicts.final
        result.final = verdicts.final
        result.unresolvable = verdicts.unresolvable
        result.reasons = verdicts.reasons
        return result

    def search(
        self,
        task: Task,
        rows: BoolArray,
        cache: ErrorCache,
        judge: Callable[[Task, BoolArray], Verdicts],
        *,
        cached: bool = True,
    ) -> tuple[BoolArray, FitErrors | None]:
        """Find the feasible nodes, or why there are none."""
        key = (task.job, task.role) if cached and task.role else None
        return cache.search(key, rows, lambda asked: judge(task, asked))

    def open_rows(self, task: Task) -> BoolArray:
        """Give the nodes where evictions may still help a pod."""
        rows = self.nodes.usable.copy()
        errors = self.jobs[task.job].fit_errors.get(task.uid)
        if errors is not None and len(errors.unresolvable):
            rows &= ~errors.unresolvable
        return rows

    def rate(self, task: Task, rows: IndexArray) -> FloatArray:
        """Rate nodes for a pod."""
        single = np.zeros(len(rows))
        for rating in self._ratings:
            single += rating(task, rows)
        together = np.zeros(len(rows))
        for rating in self._flat["batch_node_order"]:
            together += rating(task, rows)
        scores = single + together
        if len(self.scores) < _SCORINGS:
            named = {self.nodes.names[row]: float(score) for row, score in zip(rows.tolist(), scores, strict=True)}
            self.scores.append((task.key, named))
        return scores

    def best(self, task: Task, rows: IndexArray) -> int:
        """Give the best of some nodes; of equals, the first by name."""
        if len(rows) == 1:
            return int(rows[0])
        return int(rows[int(self.rate(task, rows).argmax())])

    def rate_hypernodes(self, subjob: SubJob, hypernodes: Sequence[str]) -> dict[str, float]:
        """Rate domains for a sub-group."""
        result = dict.fromkeys(hypernodes, 0.0)
        for rating in self._flat["hypernode_order"]:
            for name, score in rating(subjob, hypernodes).items():
                result[name] += score
        return result

    def job_gradients(self, job: Job, root: HyperNode, purpose: Purpose) -> list[list[HyperNode]]:
        """Give the domains that a group may use; the first plugin that knows domains decides."""
        for ask in self._flat["job_gradients"]:
            found: list[list[HyperNode]] = ask(job, root, purpose)
            return found
        return [[root]]

    def subjob_gradients(self, subjob: SubJob, root: HyperNode, purpose: Purpose) -> list[list[HyperNode]]:
        """Give the domains that a sub-group may use; the first plugin that knows domains decides."""
        for ask in self._flat["subjob_gradients"]:
            found: list[list[HyperNode]] = ask(subjob, root, purpose)
            return found
        return [[root]]

    def trial(self, task: Task, row: int) -> SessionTrial:
        """Begin a trial on one node."""
        return SessionTrial([(plugin.trial(task, row), switches) for plugin, switches in self._trials])

    # --- moves ------------------------------------------------------------------------------------------------------

    def let_in(self, job: Job) -> None:
        """Count a group as enqueued."""
        job.phase = PodGroupPhase.INQUEUE
        self.changed.add(job.key)

    def statement(self) -> Statement:
        """Begin a statement."""
        return Statement(self)

    def _move(self, task: Task, status: TaskStatus) -> None:
        self.jobs[task.job].move(task, status)
        self.changed.add(task.job)

    def shift(self, task: Task, status: TaskStatus) -> None:
        """Set a pod's state."""
        self._move(task, status)

    def place(self, task: Task, node: str, status: TaskStatus) -> None:
        """Put a pod on a node."""
        self._move(task, status)
        task.node = node
        self.nodes.add(task)
        for tell in self._flat["on_allocate"]:
            tell(task)

    def withdraw(self, task: Task) -> None:
        """Remove a pod from its node again."""
        self._move(task, TaskStatus.PENDING)
        self.nodes.remove(task, task.node)
        for tell in self._flat["on_deallocate"]:
            tell(task)
        task.node = ""
        task.topology_node = ""
        task.devices = ()

    def release(self, task: Task, *, room: bool = True) -> None:
        """Count a pod as terminating; without room, its resources are not reused in this session."""
        self._move(task, TaskStatus.RELEASING)
        if room:
            self.nodes.update(task)
        elif task.node in self.nodes.rows:
            self.nodes.touch(self.nodes.rows[task.node])
        for tell in self._flat["on_deallocate"]:
            tell(task)

    def reinstate(self, task: Task) -> None:
        """Count a terminating pod as running again."""
        self._move(task, TaskStatus.RUNNING)
        self.nodes.update(task)
        for tell in self._flat["on_allocate"]:
            tell(task)

    def send_eviction(self, task: Task, reason: str) -> None:
        """Ask for a pod to be evicted."""
        self.sent.append(("evict", task.key, reason))
        if self._on_commit is not None:
            self._open_commit().evictions.append((task, reason))

    def send_binding(self, task: Task) -> None:
        """Ask for a pod to be bound."""
        self.sent.append(("bind", task.key, task.node))
        job = self.jobs[task.job]
        if self._on_commit is not None:
            commit = self._open_commit()
            commit.job = job
            commit.bindings.append((task, task.node))
        self._move(task, TaskStatus.BINDING)

    def _open_commit(self) -> Commit:
        if self._commit is None:
            self._commit = Commit()
        return self._commit

    def committed(self) -> None:
        """Report what was sent since the last call."""
        commit, self._commit = self._commit, None
        if self._on_commit is not None and commit is not None:
            if commit.job is not None:
                commit.whole = commit.job.ready - len(commit.bindings) < commit.job.min_available
            self._on_commit(commit)

    def close(self) -> None:
        """Tell plugins that the session is over."""
        self.committed()
        for plugin in self.plugins.values():
            plugin.close()
