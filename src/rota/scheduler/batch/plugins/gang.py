"""gang: a group starts whole or not at all, and is not torn apart by single evictions."""

from typing import ClassVar

from rota.scheduler.batch.jobs import Job, SubJob
from rota.scheduler.batch.plugin import BatchPlugin, Eviction, Victims, Vote
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import READY, VALID, TaskStatus
from rota.scheduler.batch.tasks import Task

NOT_ENOUGH_PODS = "NotEnoughTasks"
NOT_ENOUGH_OF_ROLE = "NotEnoughPodsOfTask"


class Gang(BatchPlugin):
    """Minimum numbers of pods."""

    name: ClassVar[str] = "gang"

    def __init__(self, session: Session, arguments: object, *, hierarchy: bool) -> None:
        self._jobs = session.jobs

    def job_valid(self, job: Job) -> str | None:
        """A group needs enough pods, of every role, and enough sub-groups."""
        if not job.roles_valid() or not job.subjobs_valid():
            return NOT_ENOUGH_OF_ROLE
        return None if job.count(VALID) >= job.min_available else NOT_ENOUGH_PODS

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> Victims:
        """Only what a group has beyond its minimum may go."""
        occupied: dict[str, int] = {}
        victims = []
        for task in candidates:
            job = self._jobs[task.job]
            left = occupied.setdefault(job.key, job.ready)
            if left > job.min_available:
                occupied[job.key] = left - 1
                victims.append(task)
        return victims

    def reclaimable(self, reclaimer: Task, candidates: list[Task]) -> Victims:
        """The same holds between queues."""
        return self.preemptable(reclaimer, candidates)

    def evictable(self, kind: Eviction, candidates: list[Task]) -> Victims:
        """Whole gangs are split by the actions that evict them."""
        return candidates

    def job_order(self, left: Job, right: Job) -> float:
        """Groups that have not started go first."""
        return left.is_ready - right.is_ready

    def job_key(self, job: Job) -> bool:
        """Whether the group has started."""
        return job.is_ready

    def subjob_order(self, left: SubJob, right: SubJob) -> float:
        """Sub-groups that have not started go first."""
        return left.is_ready - right.is_ready

    def job_ready(self, job: Job) -> bool:
        """Enough pods, of every role, and enough sub-groups have places."""
        return job.roles_met(READY) and job.subjobs_ready() and job.is_ready

    def subjob_ready(self, subjob: SubJob) -> bool:
        """Enough pods have places."""
        return subjob.is_ready

    def job_pipelined(self, job: Job) -> Vote:
        """The same, with places that are not free yet."""
        met = job.roles_met((*READY, TaskStatus.PIPELINED)) and job.subjobs_pipelined() and job.is_pipelined
        return Vote.PERMIT if met else Vote.REJECT

    def subjob_pipelined(self, subjob: SubJob) -> Vote:
        """The same for a sub-group."""
        return Vote.PERMIT if subjob.is_pipelined else Vote.REJECT

    def job_starving(self, job: Job) -> bool:
        """Fewer pods than the minimum have, or wait for, a place."""
        return job.is_starving
