"""backfill: pods without requests go wherever they may, one by one."""

from typing import ClassVar, Final

import numpy as np

from rota.scheduler.batch.actions.allocate import ERROR_CACHE
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.fit_errors import FitErrors
from rota.scheduler.batch.heaps import PriorityQueue
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import ErrorCache


class Backfill:
    """Places for pods without requests."""

    name: ClassVar[str] = "backfill"
    arguments: ClassVar[dict[str, Argument]] = dict(ERROR_CACHE)

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._cached: Final[bool] = session.configuration.arguments[self.name]["predicateErrorCacheEnable"]

    def run(self) -> None:
        """Place every pod that finds a node; its group is bound if it is complete then."""
        session, nodes = self._session, self._session.nodes
        everywhere = nodes.usable
        for task in self._waiting():
            job = session.jobs[task.job]
            reason = session.pre_predicate(task)
            if reason is not None:
                job.fit_errors[task.uid] = FitErrors(reason)
                continue
            feasible, errors = session.search(task, everywhere, ErrorCache(), session.judge, cached=self._cached)
            if errors is not None:
                job.fit_errors[task.uid] = errors
                continue
            row = session.best(task, np.flatnonzero(feasible))
            session.place(task, nodes.names[row], TaskStatus.ALLOCATED)
            if session.ready(job):
                for each in list(job.of(TaskStatus.ALLOCATED).values()):
                    session.send_binding(each)
                session.committed()

    def _waiting(self) -> list[Task]:
        """Give the pods to place, queue by queue and group by group."""
        session = self._session
        queues: PriorityQueue[Queue] = PriorityQueue(session.queue_before)
        jobs: dict[str, PriorityQueue[Job]] = {}
        tasks: dict[str, PriorityQueue[Task]] = {}
        for job in session.active.values():
            if not (job.waiting_best_effort or job.of(TaskStatus.PIPELINED)) or job.pending or not session.valid(job):
                continue
            waiting: PriorityQueue[Task] = PriorityQueue(session.task_before)
            for task in job.of(TaskStatus.PENDING).values():
                if task.best_effort and not task.gated:
                    waiting.push(task)
            for task in [each for each in job.of(TaskStatus.PIPELINED).values() if each.best_effort]:
                session.withdraw(task)
                waiting.push(task)
            if not len(waiting):
                continue
            tasks[job.key] = waiting
            if job.queue not in jobs:
                queues.push(session.queues[job.queue])
                jobs[job.queue] = PriorityQueue(session.job_before)
            jobs[job.queue].push(job)
        result: list[Task] = []
        while len(queues):
            ordered = jobs[queues.pop().name]
            while len(ordered):
                waiting = tasks[ordered.pop().key]
                while len(waiting):
                    result.append(waiting.pop())
        return result
