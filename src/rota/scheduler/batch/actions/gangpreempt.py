"""gangpreempt: a whole group takes places of lower groups of its queue, of what they can do without first."""

from functools import partial
from typing import ClassVar, Final

from rota.scheduler.batch.actions import gang_evictions
from rota.scheduler.batch.actions.gang_evictions import ARGUMENTS, Bundle, GangEviction
from rota.scheduler.batch.amounts import total
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.heaps import PriorityQueue
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import Eviction
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import PREEMPTABLE
from rota.scheduler.batch.tasks import Task


class GangPreempt:
    """Evictions of gangs inside queues."""

    name: ClassVar[str] = "gangpreempt"
    arguments: ClassVar[dict[str, Argument]] = dict(ARGUMENTS)

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._search: Final = GangEviction(session, self.name)

    def run(self) -> None:
        """Serve starving groups, queue by queue."""
        session = self._session
        preemptors: dict[str, PriorityQueue[Job]] = {}
        for job in session.active.values():
            if not job.pending and session.valid(job) and session.starving(job):
                preemptors.setdefault(job.queue, PriorityQueue(session.job_before)).push(job)
        for name, waiting in preemptors.items():
            while len(waiting):
                job = waiting.pop()
                statement = session.statement()
                pending = self._search.pending(job)
                bundles = partial(self._bundles, job, pending)
                found = bool(pending) and self._search.seek(statement, session.queues[name], job, pending, bundles)
                if not session.pipelined(job):
                    statement.discard()
                    continue
                statement.commit()
                if found:
                    waiting.push(job)

    def _bundles(self, job: Job, pending: list[Task], domain: str) -> list[Bundle]:
        session = self._session
        by_job: dict[str, list[Task]] = {}
        for row in session.hypernodes[domain].nodes:
            for task in session.nodes.tasks[row].values():
                theirs = session.jobs.get(task.job)
                if theirs is None or theirs.queue != job.queue or theirs is job:
                    continue
                if task.status not in PREEMPTABLE or not task.preemptable or theirs.priority >= job.priority:
                    continue
                if gang_evictions.evictable_job(theirs):
                    by_job.setdefault(task.job, []).append(task)
        bundles = [
            bundle for key, tasks in by_job.items() for bundle in gang_evictions.bundles_of(session.jobs[key], tasks)
        ]
        need = total(task.request for task in pending)
        ordered = gang_evictions.in_order(bundles, need, self._worse)
        allowed = session.evictable(Eviction.GANG_PREEMPT, [task for bundle in ordered for task in bundle.tasks])
        kept = gang_evictions.allowed_bundles(ordered, {task.uid for task in allowed})
        return gang_evictions.in_order(kept, need, self._worse)

    def _worse(self, left: Bundle, right: Bundle) -> int:
        if left.job is right.job:
            return 0
        session = self._session
        one, other = not session.job_before(left.job, right.job), not session.job_before(right.job, left.job)
        return 0 if one == other else -1 if one else 1
