"""overcommit: queues let in as much as the cluster has, times a factor."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.amounts import Amounts
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin, Vote
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import ALLOCATED, PodGroupPhase

DEFAULT_FACTOR: Final = 1.2


def _factor(value: Any) -> float:
    read = args.number(value)
    # Less than the cluster has is no factor to overcommit by; the default holds then.
    return read if read >= 1 else DEFAULT_FACTOR


class Overcommit(BatchPlugin):
    """Admission by what is free in the cluster."""

    name: ClassVar[str] = "overcommit"
    admits_by_need: ClassVar[bool] = True
    arguments: ClassVar[Mapping[str, Argument]] = {"overcommit-factor": Argument(_factor, DEFAULT_FACTOR)}

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._session = session
        self._factor: float = arguments["overcommit-factor"]
        self._idle = Amounts()
        self._inqueue = Amounts()

    def open(self) -> None:
        """Work out what is free, and what groups that were let in may still ask for."""
        session = self._session
        nodes = session.nodes
        self._idle = session.total.copy().scale(self._factor).sub(nodes.sum_of(nodes.used))
        for sums in session.quiet.values():
            self._inqueue.add(sums.inqueue.amounts)
        for job in session.active.values():
            if job.min_resources is None:
                continue
            if job.phase is PodGroupPhase.INQUEUE:
                self._inqueue.add(job.without_gated(job.minimum()))
            elif job.phase is PodGroupPhase.RUNNING and job.count(ALLOCATED) >= job.min_available:
                self._inqueue.add(job.without_gated(job.still_inqueue()))

    def job_enqueueable(self, job: Job) -> Vote:
        """Let a group in if what it needs fits beside what was let in before."""
        if job.min_resources is None:
            return Vote.PERMIT
        wanted = job.minimum()
        above = self._inqueue.copy().add(wanted).excess_on(self._idle, wanted)
        return Vote.REJECT if above else Vote.PERMIT

    def job_enqueued(self, job: Job) -> None:
        """Count a group that was let in."""
        if job.min_resources is not None:
            self._inqueue.add(job.without_gated(job.minimum()))
