"""enqueue: queues let groups in, one after the other."""

from typing import ClassVar, Final

from rota.scheduler.batch import arguments as args
from rota.scheduler.batch import entitlements
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.heaps import KeyedQueue, PriorityQueue
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.queues import Queue
from rota.scheduler.batch.sessions import Session

_RECLAIMING: Final = frozenset({"reclaim", "gangreclaim"})


class Enqueue:
    """Admission."""

    name: ClassVar[str] = "enqueue"
    arguments: ClassVar[dict[str, Argument]] = {"letInToReclaim": Argument(args.boolean, False)}

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        configured = session.configuration
        #: Whether a group is let in that will get back what its queue is entitled to.
        self._to_reclaim: Final = configured.arguments[self.name]["letInToReclaim"] and not _RECLAIMING.isdisjoint(
            configured.actions
        )

    def run(self) -> None:
        """Ask for every waiting group; the queue's turn comes again after each."""
        session = self._session
        queues: PriorityQueue[Queue] = PriorityQueue(session.queue_before)
        waiting: dict[str, PriorityQueue[Job] | KeyedQueue[Job]] = {}
        known: set[str] = set()
        for job in session.active.values():
            if job.queue not in known:
                known.add(job.queue)
                queues.push(session.queues[job.queue])
                waiting[job.queue] = session.line(session.queues[job.queue])
            if job.pending:
                waiting[job.queue].push(job)
        while len(queues):
            queue = queues.pop()
            jobs = waiting[queue.name]
            if not len(jobs):
                continue
            job = jobs.pop()
            if job.min_resources is None or session.enqueueable(job) or self._let_in_anyway(job):
                session.kept_out.pop(job.key, None)
                session.enqueued(job)
                session.let_in(job)
            elif queue.fifo:
                continue
            queues.push(queue)

    def _let_in_anyway(self, job: Job) -> bool:
        """Whether a group that only lacks idle resources is let in: to be planned, or to reclaim them."""
        session = self._session
        if session.kept_out.get(job.key) != "overcommit":
            return False
        return session.needed(job) or (self._to_reclaim and entitlements.covers(session, job))
