"""A session: the state, the plugins of a configuration, and the combination of their results.

Order: the first plugin that makes a difference decides. Votes: a rejection decides at once, a permission ends with the
tier. Victims: inside a tier a pod must be on every list, and the first tier that ends with some pods decides alone; a
plugin that names none ends its tier, while after lists without a common pod the next plugin of the tier starts a new
list. Scores are added up.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, IndexArray
from rota.columns.cluster import Cluster
from rota.scheduler.batch.conf import BatchConfiguration, PluginOption
from rota.scheduler.batch.fit_errors import FitErrors
from rota.scheduler.batch.heaps import PriorityQueue
from rota.scheduler.batch.hypernodes import HyperNode, HyperNodes
from rota.scheduler.batch.jobs import Job, SubJob
from rota.scheduler.batch.node_usage import NodeUsage
from rota.scheduler.batch.nodes import NodeTable
from rota.scheduler.batch.numa_topologies import NumaTopology
from rota.scheduler.batch.placements import Placements
from rota.scheduler.batch.plugin import BatchPlugin, Eviction, Purpose, Trial, Victims, Vote
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.ratings import RatingCache
from rota.scheduler.batch.run_times import RunTimes
from rota.scheduler.batch.shape_search import Found, ShapeSearch
from rota.scheduler.batch.statements import Statement
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task, precedes
from rota.scheduler.batch.verdicts import ErrorCache, Verdicts
from rota.scheduler.framework.status import Code

#: The switch that enables each method of a plugin; None if there is none.
_SWITCH_OF: Final[Mapping[str, str | None]] = {
    "job_order": "enableJobOrder",
    "queue_order": "enableQueueOrder",
    "task_order": "enableTaskOrder",
    "subjob_order": "enabledSubJobOrder",
    "victim_queue_order": None,
    "job_valid": None,
    "job_ready": "enableJobReady",
    "job_pipelined": "enableJobPipelined",
    "job_starving": "enableJobStarving",
    "job_enqueueable": "enableJobEnqueued",
    "job_enqueued": "enableJobEnqueued",
    "job_needed": "enableJobEnqueued",
    "job_refused": None,
    "subjob_ready": "enabledSubJobReady",
    "subjob_pipelined": "enabledSubJobPipelined",
    "overused": "enabledOverused",
    "allocatable": "enabledAllocatable",
    "preemptive": "enablePreemptive",
    "preemptable": "enablePreemptable",
    "reclaimable": "enableReclaimable",
    "evictable": None,
    "victim_tasks": "enabledVictim",
    "pre_predicate": "enablePredicate",
    "predicate": "enablePredicate",
    "node_order": "enableNodeOrder",
    "batch_node_order": "enableNodeOrder",
    "hypernode_order": "enabledHyperNodeOrder",
    "job_gradients": "enabledHyperNodeGradient",
    "subjob_gradients": "enabledHyperNodeGradient",
    "trial": None,
    "on_allocate": None,
    "on_deallocate": None,
}

#: Sends a request to a program outside: address, body, and time limit in seconds; raises OSError.
Ask = Callable[[str, bytes, float], bytes]


@dataclass(slots=True, kw_only=True)
class State:
    """What a session works on; actions change it."""

    nodes: NodeTable
    #: The same nodes with their pods, for filters and scores of the stock scheduler.
    cluster: Cluster
    jobs: dict[str, Job]
    queues: dict[str, Queue]
    hypernodes: HyperNodes
    #: By namespace, what quotas allow and what is used of them.
    quotas: Mapping[str, Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]] = field(default_factory=dict)
    #: PodDisruptionBudgets.
    budgets: Sequence[Mapping[str, Any]] = ()
    #: The measured usage of nodes, by name; empty without metrics.
    usage: Mapping[str, NodeUsage] = field(default_factory=dict)
    #: The NUMA topology of nodes, by name.
    numa: Mapping[str, NumaTopology] = field(default_factory=dict)
    #: When work that plugins do at intervals was last done, by its name; outlives the session.
    done_at: dict[str, float] = field(default_factory=dict)
    #: How long groups run.
    run_times: RunTimes = field(default_factory=RunTimes)
    #: By group with a planned start, when it was first planned; outlives the session.
    planned: dict[str, float] = field(default_factory=dict)
    #: None if nothing outside may be asked.
    ask: Ask | None = None
    #: Seconds since the epoch.
    now: float = 0.0


@dataclass(slots=True)
class Commit:
    """Bindings and evictions that belong together."""

    #: The group whose pods are bound; None if only pods are evicted.
    job: Job | None = None
    #: Whether the group was below its minimum, so that its pods must be bound all or not at all.
    whole: bool = False
    #: Pods with their nodes.
    bindings: list[tuple[Task, str]] = field(default_factory=list)
    #: Pods with the reason.
    evictions: list[tuple[Task, str]] = field(default_factory=list)


class Session:
    """A state with plugins."""

    def __init__(
        self,
        state: State,
        configuration: BatchConfiguration,
        *,
        on_commit: Callable[["Commit"], None] | None = None,
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
        self.queues: Final = state.queues
        self.hypernodes: Final = state.hypernodes
        self.now: Final = state.now
        self.configuration: Final = configuration
        self.total: Final = state.nodes.total()
        #: What was sent out: ("bind", pod, node) and ("evict", pod, reason).
        self.sent: Final[list[tuple[str, str, str]]] = []
        #: Ratings of the first scorings, for explanations.
        self.scores: Final[list[tuple[str, dict[str, float]]]] = []
        #: By group that was not let in, the plugin that rejected it.
        self.kept_out: Final[dict[str, str]] = {}
        self.plugins: Final[dict[str, BatchPlugin]] = {}
        for tier in configuration.tiers:
            for option in tier:
                plugin = option.plugin(self, option.arguments, hierarchy=option.hierarchy)
                self.plugins[plugin.name] = plugin
                plugin.open()
        self._tiers: Final[dict[str, list[list[Callable[..., Any]]]]] = {
            name: [self._enabled(tier, name, switch) for tier in configuration.tiers]
            for name, switch in _SWITCH_OF.items()
        }
        self._flat: Final = {name: [call for tier in tiers for call in tier] for name, tiers in self._tiers.items()}
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

    def _enabled(self, tier: Sequence[PluginOption], name: str, switch: str | None) -> list[Callable[..., Any]]:
        return [
            getattr(self.plugins[option.plugin.name], name)
            for option in tier
            if self.plugins[option.plugin.name].offers(name) and (switch is None or option.switches[switch])
        ]

    # --- order ------------------------------------------------------------------------------------------------------

    def job_before(self, left: Job, right: Job) -> bool:
        """Whether a group goes before another; the older one, if plugins see no difference."""
        for compare in self._flat["job_order"]:
            difference = compare(left, right)
            if difference:
                return bool(difference < 0)
        return left.key < right.key if left.created == right.created else left.created < right.created

    def order_in(self, queue: Queue) -> Callable[[Job, Job], bool]:
        """Give the order of a queue's groups: that of plugins, or by priority and age in a strict queue."""
        return _older if queue.fifo else self.job_before

    def queue_before(self, left: Queue, right: Queue) -> bool:
        """Whether a queue goes before another; the older one, if plugins see no difference."""
        for compare in self._flat["queue_order"]:
            difference = compare(left, right)
            if difference:
                return bool(difference < 0)
        return left.name < right.name if left.created == right.created else left.created < right.created

    def task_before(self, left: Task, right: Task) -> bool:
        """Whether a pod goes before another of its group."""
        for compare in self._flat["task_order"]:
            difference = compare(left, right)
            if difference:
                return bool(difference < 0)
        return precedes(left, right)

    def subjob_before(self, left: SubJob, right: SubJob) -> bool:
        """Whether a sub-group goes before another."""
        for compare in self._flat["subjob_order"]:
            difference = compare(left, right)
            if difference:
                return bool(difference < 0)
        if left.match_index != right.match_index:
            return left.match_index < right.match_index
        return left.uid < right.uid

    def victim_queue_before(self, left: Queue, right: Queue, asking: Queue) -> bool:
        """Whether a queue is reclaimed from before another."""
        for compare in self._flat["victim_queue_order"]:
            difference = compare(left, right, asking)
            if difference:
                return bool(difference < 0)
        return not self.queue_before(left, right)

    def victims_in_order(self, victims: Iterable[Task], asking: Task) -> PriorityQueue[Task]:
        """Give victims in eviction order."""
        asking_job = self.jobs[asking.job]

        def before(left: Task, right: Task) -> bool:
            if left.job == right.job:
                return not self.task_before(left, right)
            one, other = self.jobs[left.job], self.jobs[right.job]
            if one.queue != other.queue:
                queues = self.queues
                return self.victim_queue_before(queues[one.queue], queues[other.queue], queues[asking_job.queue])
            for compare in self._flat["job_order"]:
                difference = compare(one, other)
                if difference:
                    return bool(difference > 0)
            # Groups that plugins find equal are not ordered by age: their pods are compared.
            return not self.task_before(left, right)

        return PriorityQueue(before, list(victims))

    # --- groups and queues ------------------------------------------------------------------------------------------

    def valid(self, job: Job) -> bool:
        """Whether a group can be scheduled at all."""
        return all(check(job) is None for check in self._flat["job_valid"])

    def ready(self, job: Job) -> bool:
        """Whether a group may be bound."""
        return all(check(job) for check in self._flat["job_ready"])

    def pipelined(self, job: Job) -> bool:
        """Whether a group may be pipelined."""
        return self._voted("job_pipelined", job)

    def starving(self, job: Job) -> bool:
        """Whether a group may preempt others: the first tier that does not abstain decides."""
        for tier in self._tiers["job_starving"]:
            if tier:
                return all(check(job) for check in tier)
        return False

    def subjob_ready(self, job: Job, subjob: SubJob) -> bool:
        """Whether a sub-group may be bound."""
        return all(check(subjob) for check in self._flat["subjob_ready"]) if job.policies else self.ready(job)

    def subjob_pipelined(self, job: Job, subjob: SubJob) -> bool:
        """Whether a sub-group may be pipelined."""
        return self._voted("subjob_pipelined", subjob) if job.policies else self.pipelined(job)

    def enqueueable(self, job: Job) -> bool:
        """Whether a group may be enqueued; `kept_out` names the plugin that rejects it."""
        for tier in self._tiers["job_enqueueable"]:
            permitted = False
            for name, ask in tier_names(tier):
                vote = ask(job)
                if vote is Vote.REJECT:
                    self.kept_out[job.key] = name
                    return False
                permitted |= vote is Vote.PERMIT
            if permitted:
                return True
        return True

    def needed(self, job: Job) -> bool:
        """Whether a group is enqueued that only lacks idle resources."""
        return any(ask(job) for ask in self._flat["job_needed"])

    def refused(self, job: Job) -> None:
        """Tell plugins that a group found no places."""
        for tell in self._flat["job_refused"]:
            tell(job)

    def enqueued(self, job: Job) -> None:
        """Tell plugins that a group was enqueued."""
        for tell in self._flat["job_enqueued"]:
            tell(job)

    def overused(self, queue: Queue) -> bool:
        """Whether a queue has reached its deserved share."""
        return any(check(queue) for check in self._flat["overused"])

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether a queue may give a pod what it asks for."""
        return all(check(queue, task) for check in self._flat["allocatable"])

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Whether a queue may reclaim from others for these pods."""
        return all(check(queue, tasks) for check in self._flat["preemptive"])

    def _voted(self, name: str, subject: Job | SubJob) -> bool:
        for tier in self._tiers[name]:
            permitted = False
            for ask in tier:
                vote = ask(subject)
                if vote is Vote.REJECT:
                    return False
                permitted |= vote is Vote.PERMIT
            if permitted:
                return True
        return True

    # --- victims ----------------------------------------------------------------------------------------------------

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> list[Task]:
        """Choose victims for a pod of the same queue."""
        return self._agreed("preemptable", preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> list[Task]:
        """Choose victims for a pod of another queue."""
        return self._agreed("reclaimable", reclaimer, candidates)

    def evictable(self, kind: Eviction, candidates: list[Task]) -> list[Task]:
        """Choose victims that are evicted with their gang."""
        return self._agreed("evictable", kind, candidates)

    def _agreed(self, name: str, asking: Task | Eviction, candidates: list[Task]) -> list[Task]:
        for tier in self._tiers[name]:
            victims: Victims = None
            for choose in tier:
                chosen: Victims = choose(asking, candidates)
                if chosen is None:
                    continue
                if not chosen:
                    victims = None
                    break
                if victims is None:
                    victims = chosen
                else:
                    uids = {task.uid for task in chosen}
                    victims = [task for task in victims if task.uid in uids] or None
            if victims is not None:
                return victims
        return []

    def victim_tasks(self, running: list[Task]) -> list[Task]:
        """Choose pods to evict independent of any preemptor: the first tier that names some decides."""
        for tier in self._tiers["victim_tasks"]:
            found: dict[str, Task] = {}
            for choose in tier:
                found.update({task.uid: task for task in choose(running)})
            if found:
                return list(found.values())
        return []

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

    def trial(self, task: Task, row: int) -> "SessionTrial":
        """Begin a trial on one node."""
        return SessionTrial([(plugin.trial(task, row), switches) for plugin, switches in self._trials])

    # --- moves ------------------------------------------------------------------------------------------------------

    def statement(self) -> Statement:
        """Begin a statement."""
        return Statement(self)

    def shift(self, task: Task, status: TaskStatus) -> None:
        """Set a pod's state."""
        self.jobs[task.job].move(task, status)

    def place(self, task: Task, node: str, status: TaskStatus) -> None:
        """Put a pod on a node."""
        self.jobs[task.job].move(task, status)
        task.node = node
        self.nodes.add(task)
        for tell in self._flat["on_allocate"]:
            tell(task)

    def withdraw(self, task: Task) -> None:
        """Remove a pod from its node again."""
        self.jobs[task.job].move(task, TaskStatus.PENDING)
        self.nodes.remove(task, task.node)
        for tell in self._flat["on_deallocate"]:
            tell(task)
        task.node = ""
        task.topology_node = ""
        task.devices = ()

    def release(self, task: Task, *, room: bool = True) -> None:
        """Count a pod as terminating; without room, its resources are not reused in this session."""
        self.jobs[task.job].move(task, TaskStatus.RELEASING)
        if room:
            self.nodes.update(task)
        elif task.node in self.nodes.rows:
            self.nodes.touch(self.nodes.rows[task.node])
        for tell in self._flat["on_deallocate"]:
            tell(task)

    def reinstate(self, task: Task) -> None:
        """Count a terminating pod as running again."""
        self.jobs[task.job].move(task, TaskStatus.RUNNING)
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
        job.move(task, TaskStatus.BINDING)

    def _open_commit(self) -> "Commit":
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


class SessionTrial:
    """A trial of all plugins on one node."""

    def __init__(self, parts: Sequence[tuple[Trial, Mapping[str, bool]]]) -> None:
        self._counting = [
            part for part, switches in parts if switches["enablePreemptable"] or switches["enabledAllocatable"]
        ]
        self._allocating = [part for part, switches in parts if switches["enabledAllocatable"]]
        self._judging = [part for part, switches in parts if switches["enablePredicate"]]

    def remove(self, other: Task) -> bool:
        """Count another pod out."""
        return all(part.remove(other) for part in self._counting)

    def add(self, other: Task) -> bool:
        """Count another pod in again."""
        return all(part.add(other) for part in self._counting)

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether the queue may give the pod what it asks for."""
        return all(part.allocatable(queue, task) for part in self._allocating)

    def fits(self, task: Task) -> bool:
        """Whether the node will do."""
        return all(part.fits(task) for part in self._judging)


_SCORINGS: Final = 6


def _older(left: Job, right: Job) -> bool:
    return (-left.priority, left.created, left.key) < (-right.priority, right.created, right.key)


def tier_names(tier: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    """Give methods of plugins with the names of their plugins."""
    return ((method.__self__.name, method) for method in tier)
