"""preempt: groups that starve take places of others in their queue, and pods those of lower pods in their group."""

from collections.abc import Callable
from typing import ClassVar, Final

import numpy as np

from rota.columns.arrays import BoolArray, IndexArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.actions import dry_runs
from rota.scheduler.batch.actions.allocate import ERROR_CACHE
from rota.scheduler.batch.amounts import Amounts
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.heaps import PriorityQueue
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statements import Statement
from rota.scheduler.batch.statuses import PREEMPTABLE, TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import ErrorCache

Filter = Callable[[Task], bool]

#: Rota's own: idle nodes and nodes with victims in one search.
IDLE_NODES: Final = {"useIdleNodes": Argument(args.boolean, False)}


class Preempt:
    """Evictions inside queues."""

    name: ClassVar[str] = "preempt"
    arguments: ClassVar[dict[str, Argument]] = {
        **ERROR_CACHE,
        "enableTopologyAwarePreemption": Argument(args.boolean, False),
        # Trials run one after the other; the number of workers makes no difference to their outcome.
        "topologyAwarePreemptWorkerNum": Argument(args.integer, 16),
        "minCandidateNodesPercentage": Argument(args.integer, 10),
        "minCandidateNodesAbsolute": Argument(args.integer, 1),
        "maxCandidateNodesAbsolute": Argument(args.integer, 100),
        **IDLE_NODES,
    }

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._arguments: Final = session.configuration.arguments[self.name]
        self._cached: Final[bool] = self._arguments["predicateErrorCacheEnable"]
        self._cache: Final = ErrorCache()

    def run(self) -> None:
        """Serve the queues in order."""
        session = self._session
        preemptors: dict[str, PriorityQueue[Job]] = {}
        starving: dict[str, list[Job]] = {}
        tasks: dict[str, PriorityQueue[Task]] = {}
        for job in session.active.values():
            if job.pending or not session.valid(job) or not session.starving(job) or job.with_topology:
                continue
            preemptors.setdefault(job.queue, PriorityQueue(session.job_before)).push(job)
            starving.setdefault(job.queue, []).append(job)
            tasks[job.key] = self._waiting(job)
        queues: PriorityQueue[Queue] = PriorityQueue(session.queue_before)
        for name in preemptors:
            queues.push(session.queues[name])
        while len(queues):
            queue = queues.pop()
            self._between_jobs(preemptors[queue.name], tasks)
            for job in starving[queue.name]:
                self._inside(job)

    def _waiting(self, job: Job) -> PriorityQueue[Task]:
        tasks = [task for task in job.of(TaskStatus.PENDING).values() if not task.gated]
        return PriorityQueue(self._session.task_before, tasks)

    def _between_jobs(self, preemptors: PriorityQueue[Job], tasks: dict[str, PriorityQueue[Task]]) -> None:
        session = self._session
        while len(preemptors):
            job = preemptors.pop()
            statement, assigned = session.statement(), False
            while session.starving(job) and len(tasks[job.key]):
                preemptor = tasks[job.key].pop()

                def eligible(task: Task, preemptor: Task = preemptor, job: Job = job) -> bool:
                    if not _may_leave(task, preemptor) or task.job not in session.jobs:
                        return False
                    return session.jobs[task.job].queue == job.queue and task.job != preemptor.job

                assigned = self._preempt(statement, preemptor, eligible)
            if not session.pipelined(job):
                statement.discard()
                continue
            statement.commit()
            if assigned:
                preemptors.push(job)

    def _inside(self, job: Job) -> None:
        """Let pods of a group take places of its lower pods; each for itself."""
        waiting = self._waiting(job)
        while len(waiting):
            preemptor = waiting.pop()
            statement = self._session.statement()

            def eligible(task: Task, preemptor: Task = preemptor) -> bool:
                return _may_leave(task, preemptor) and task.job == preemptor.job

            if not self._preempt(statement, preemptor, eligible):
                statement.discard()
                return
            statement.commit()

    # --- one pod ----------------------------------------------------------------------------------------------------

    def _preempt(self, statement: Statement, preemptor: Task, eligible: Filter) -> bool:
        session = self._session
        if not self._entitled(preemptor) or session.pre_predicate(preemptor) is not None:
            return False
        rows = session.open_rows(preemptor)
        feasible, _ = session.search(preemptor, rows, self._cache, session.judge_final, cached=self._cached)
        if self._arguments["useIdleNodes"] and hold_idle(session, statement, preemptor, np.flatnonzero(feasible)):
            return True
        if self._arguments["enableTopologyAwarePreemption"]:
            return self._by_trial(statement, preemptor, eligible, feasible)
        return self._by_score(statement, preemptor, eligible, feasible)

    def _by_score(self, statement: Statement, preemptor: Task, eligible: Filter, feasible: BoolArray) -> bool:
        """Try nodes in the order of their ratings."""
        session, nodes = self._session, self._session.nodes
        queue = session.queues[session.jobs[preemptor.job].queue]
        candidates = np.flatnonzero(feasible)
        if not len(candidates):
            return False
        scores = session.rate(preemptor, candidates)
        for place in np.argsort(-scores, kind="stable").tolist():
            row = int(candidates[place])
            victims = session.preemptable(preemptor, [task for task in nodes.tasks[row].values() if eligible(task)])
            if not suffices(session, preemptor, row, victims):
                continue
            trial = session.statement()
            ordered = session.victims_in_order(victims, preemptor)
            freed = Amounts()
            while len(ordered) and not self._fits(queue, preemptor, row):
                victim = ordered.pop()
                trial.evict(victim, self.name)
                freed.add(victim.request)
            if self._fits(queue, preemptor, row):
                trial.pipeline(preemptor, nodes.names[row], evicted=not freed.empty)
                statement.merge(trial)
                return True
            trial.discard()
        return False

    def _fits(self, queue: Queue, preemptor: Task, row: int) -> bool:
        session = self._session
        return session.allocatable(queue, preemptor) and preemptor.request.fits(session.nodes.future_of(row))

    def _by_trial(self, statement: Statement, preemptor: Task, eligible: Filter, feasible: BoolArray) -> bool:
        """Try all nodes without consequences, and take the one whose victims hurt least."""
        session = self._session
        rows = np.flatnonzero(feasible).tolist()
        most = dry_runs.candidates_wanted(
            len(rows),
            percentage=self._arguments["minCandidateNodesPercentage"],
            least=self._arguments["minCandidateNodesAbsolute"],
            most=self._arguments["maxCandidateNodesAbsolute"],
        )
        found: dict[int, list[Task]] = {}
        for row in rows:
            victims = dry_runs.victims_on(session, preemptor, row, eligible)
            if victims:
                found[row] = victims
                if len(found) >= most:
                    break
        if not found:
            return False
        row = dry_runs.cheapest(found, session.now)
        trial = session.statement()
        for victim in found[row]:
            trial.evict(victim, self.name)
        trial.pipeline(preemptor, session.nodes.names[row], evicted=True)
        statement.merge(trial)
        return True

    def _entitled(self, preemptor: Task) -> bool:
        """Whether a pod may evict: by policy, and not while resources of its earlier victims are being freed.

        Volcano never takes a nomination back, so a pod whose room was lost to another one does not evict again. Where
        sessions follow each other, it is known which groups wait for their victims, and a nomination of others is old.
        """
        session, nodes = self._session, self._session.nodes
        if not preemptor.preempts:
            return False
        nominated, made_room = preemptor.info.nominated_node, session.state.made_room
        if not nominated or (made_room is not None and preemptor.job not in made_room):
            return True
        row = nodes.rows.get(nominated)
        if row is None:
            return False
        there = np.zeros(len(nodes), dtype=np.bool_)
        there[row] = True
        verdicts = session.judge(preemptor, there)
        if not verdicts.refused[row]:
            return False
        if verdicts.unresolvable[row]:
            return True
        priority = preemptor.info.priority
        return not any(
            task.info.priority < priority and task.info.preempted and task.info.terminating
            for task in nodes.tasks[row].values()
        )


def suffices(session: Session, task: Task, row: int, victims: list[Task]) -> bool:
    """Whether a pod would fit a node without its victims."""
    room = session.nodes.future_of(row)
    for victim in victims:
        room.add(victim.request)
    return task.request.fits(room)


def hold_idle(session: Session, statement: Statement, task: Task, rows: IndexArray) -> bool:
    """Hold the best of some nodes that will have room without an eviction; whether there is one.

    Volcano looks for victims on every node, so a gang that fits partly on idle nodes evicts more than it needs, or
    cannot evict at all.
    """
    nodes = session.nodes
    fitting = rows[nodes.fits(task.request, nodes.future, rows)]
    if not len(fitting) or not session.allocatable(session.queues[session.jobs[task.job].queue], task):
        return False
    mask = np.zeros(len(nodes), dtype=np.bool_)
    mask[fitting] = True
    allowed = np.flatnonzero(mask & ~session.judge(task, mask).refused)
    if not len(allowed):
        return False
    statement.pipeline(task, nodes.names[session.best(task, allowed)], evicted=False)
    return True


def _may_leave(task: Task, preemptor: Task) -> bool:
    return task.status in PREEMPTABLE and task.preemptable and (task.best_effort or not preemptor.best_effort)
