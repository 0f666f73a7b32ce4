"""reclaim: groups of queues that have less than they deserve take from queues that have more."""

from typing import ClassVar, Final

import numpy as np

from rota.scheduler.batch.actions.allocate import ERROR_CACHE
from rota.scheduler.batch.actions.preempt import IDLE_NODES, hold_idle, suffices
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.heaps import PriorityQueue
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statements import Statement
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import ErrorCache


class Reclaim:
    """Evictions across queues."""

    name: ClassVar[str] = "reclaim"
    arguments: ClassVar[dict[str, Argument]] = {**ERROR_CACHE, **IDLE_NODES}

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._cached: Final[bool] = session.configuration.arguments[self.name]["predicateErrorCacheEnable"]
        self._uses_idle: Final[bool] = session.configuration.arguments[self.name]["useIdleNodes"]

    def run(self) -> None:
        """Serve the queues in order."""
        session = self._session
        queues: PriorityQueue[Queue] = PriorityQueue(session.queue_before)
        known: set[str] = set()
        jobs: dict[str, PriorityQueue[Job]] = {}
        tasks: dict[str, PriorityQueue[Task]] = {}
        for job in session.active.values():
            if job.pending or not session.valid(job):
                continue
            if job.queue not in known:
                known.add(job.queue)
                queues.push(session.queues[job.queue])
            if session.starving(job):
                jobs.setdefault(job.queue, PriorityQueue(session.job_before)).push(job)
                waiting = [task for task in job.of(TaskStatus.PENDING).values() if not task.gated]
                tasks[job.key] = PriorityQueue(session.task_before, waiting)
        while len(queues):
            queue = queues.pop()
            if session.overused(queue):
                continue
            waiting_jobs = jobs.get(queue.name)
            while waiting_jobs:
                job = waiting_jobs.pop()
                self._serve(queue, job, tasks[job.key])
                if len(waiting_jobs):
                    queues.push(queue)

    def _serve(self, queue: Queue, job: Job, tasks: PriorityQueue[Task]) -> None:
        session = self._session
        statement = session.statement()
        while session.starving(job) and len(tasks):
            task = tasks.pop()
            if not task.preempts or not session.preemptive(queue, [task]):
                continue
            if session.pre_predicate(task) is None:
                self._reclaim(statement, job, task)
        if session.pipelined(job):
            statement.commit()
        else:
            statement.discard()

    def _reclaim(self, statement: Statement, job: Job, task: Task) -> None:
        """Try nodes by name."""
        session, nodes = self._session, self._session.nodes
        feasible, _ = session.search(
            task, session.open_rows(task), ErrorCache(), session.judge_final, cached=self._cached
        )
        rows = np.flatnonzero(feasible)
        if self._uses_idle and hold_idle(session, statement, task, rows):
            return
        for row in rows.tolist():
            candidates = [each for each in nodes.tasks[row].values() if self._may_leave(each, job)]
            if not candidates:
                continue
            victims = session.reclaimable(task, candidates)
            if not suffices(session, task, row, victims):
                continue
            trial, room, evicted = session.statement(), nodes.future_of(row), False
            ordered = session.victims_in_order(victims, task)
            while len(ordered) and not task.request.fits(room):
                victim = ordered.pop()
                trial.evict(victim, self.name)
                room.add(victim.request)
                evicted = True
            if task.request.fits(room):
                trial.pipeline(task, nodes.names[row], evicted=evicted)
                statement.merge(trial)
                return
            trial.discard()

    def _may_leave(self, task: Task, job: Job) -> bool:
        session = self._session
        theirs = session.jobs.get(task.job)
        if task.status is not TaskStatus.RUNNING or not task.preemptable or theirs is None:
            return False
        return theirs.queue != job.queue and session.queues[theirs.queue].reclaimable
