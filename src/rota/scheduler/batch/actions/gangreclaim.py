"""gangreclaim: a whole group takes from other queues, of what their groups can do without first."""

from typing import ClassVar, Final

from rota.scheduler.batch.actions import gang_evictions
from rota.scheduler.batch.actions.gang_evictions import ARGUMENTS, Bundle, GangEviction
from rota.scheduler.batch.amounts import total
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.heaps import PriorityQueue
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import Eviction
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task


class GangReclaim:
    """Evictions of gangs across queues."""

    name: ClassVar[str] = "gangreclaim"
    arguments: ClassVar[dict[str, Argument]] = dict(ARGUMENTS)

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._search: Final = GangEviction(session, self.name)

    def run(self) -> None:
        """Serve starving groups, queue by queue."""
        session = self._session
        queues: PriorityQueue[Queue] = PriorityQueue(session.queue_before)
        known: set[str] = set()
        jobs: dict[str, PriorityQueue[Job]] = {}
        for job in session.active.values():
            if job.pending or not session.valid(job):
                continue
            if job.queue not in known:
                known.add(job.queue)
                queues.push(session.queues[job.queue])
            if session.starving(job):
                jobs.setdefault(job.queue, PriorityQueue(session.job_before)).push(job)
        while len(queues):
            queue = queues.pop()
            waiting = jobs.get(queue.name)
            if waiting is None or session.overused(queue):
                continue
            while len(waiting):
                self._serve(queue, waiting.pop())

    def _serve(self, queue: Queue, job: Job) -> None:
        session = self._session
        statement = session.statement()
        pending = self._search.pending(job)
        if pending and session.preemptive(queue, pending):
            self._search.seek(statement, queue, job, pending, lambda domain: self._bundles(queue, pending, domain))
        if session.pipelined(job):
            statement.commit()
        else:
            statement.discard()

    def _bundles(self, queue: Queue, pending: list[Task], domain: str) -> list[Bundle]:
        session = self._session
        by_job: dict[str, list[Task]] = {}
        for row in session.hypernodes[domain].nodes:
            for task in session.nodes.tasks[row].values():
                theirs = session.jobs.get(task.job)
                if theirs is None or theirs.queue == queue.name:
                    continue
                if task.status is not TaskStatus.RUNNING or not task.preemptable:
                    continue
                if gang_evictions.evictable_job(theirs) and session.queues[theirs.queue].reclaimable:
                    by_job.setdefault(task.job, []).append(task)
        bundles = [
            bundle for key, tasks in by_job.items() for bundle in gang_evictions.bundles_of(session.jobs[key], tasks)
        ]
        need = total(task.request for task in pending)

        def worse(left: Bundle, right: Bundle) -> int:
            one, other = session.queues[left.job.queue], session.queues[right.job.queue]
            if one is other:
                return 0
            first = session.victim_queue_before(one, other, queue)
            second = session.victim_queue_before(other, one, queue)
            return 0 if first == second else -1 if first else 1

        ordered = gang_evictions.in_order(bundles, need, worse)
        allowed = session.evictable(Eviction.GANG_RECLAIM, [task for bundle in ordered for task in bundle.tasks])
        kept = gang_evictions.allowed_bundles(ordered, {task.uid for task in allowed})
        return gang_evictions.in_order(kept, need, worse)
