"""sla: a group that has waited for its time is let in, and holds what it gets."""

from collections.abc import Mapping
from typing import Any, ClassVar

from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin, Vote
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.times import seconds


class Sla(BatchPlugin):
    """Order by the time at which a wait becomes too long."""

    name: ClassVar[str] = "sla"
    arguments: ClassVar[Mapping[str, Argument]] = {"sla-waiting-time": Argument(args.seconds)}

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._now = session.now
        self._default: float | None = arguments["sla-waiting-time"]

    def job_order(self, left: Job, right: Job) -> float:
        """The earlier deadline first; groups without one last."""
        one, other = self._deadline(left), self._deadline(right)
        if one is None or other is None:
            return (one is None) - (other is None)
        return one - other

    def job_key(self, job: Job) -> tuple[bool, float]:
        """The deadline; groups without one come last."""
        deadline = self._deadline(job)
        return deadline is None, deadline or 0.0

    def job_enqueueable(self, job: Job) -> Vote:
        """A group whose time has come is let in."""
        deadline = self._deadline(job)
        return Vote.ABSTAIN if deadline is None or self._now < deadline else Vote.PERMIT

    job_pipelined = job_enqueueable

    def _deadline(self, job: Job) -> float | None:
        wait = self._default if job.waiting_time is None else job.waiting_time
        return None if wait is None else seconds(job.created) + wait
