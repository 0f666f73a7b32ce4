"""priority: priorities of groups and pods decide who goes first and who may evict whom."""

from typing import ClassVar

from rota.scheduler.batch.jobs import Job, SubJob
from rota.scheduler.batch.plugin import BatchPlugin, Eviction, Victims, Vote
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task


class Priority(BatchPlugin):
    """Order by priority."""

    name: ClassVar[str] = "priority"

    def __init__(self, session: Session, arguments: object, *, hierarchy: bool) -> None:
        self._jobs = session.jobs

    def task_order(self, left: Task, right: Task) -> float:
        """Higher pod priority first."""
        return right.priority - left.priority

    def job_order(self, left: Job, right: Job) -> float:
        """Higher priority of the group first."""
        return right.priority - left.priority

    def job_key(self, job: Job) -> int:
        """The priority; the highest comes first."""
        return -job.priority

    def subjob_order(self, left: SubJob, right: SubJob) -> float:
        """Higher priority of the pods first."""
        return right.priority - left.priority

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> Victims:
        """Lower groups, and lower pods of the same group, may go."""
        own = self._jobs[preemptor.job]
        victims = []
        for task in candidates:
            if task.job != own.key:
                if self._jobs[task.job].priority < own.priority:
                    victims.append(task)
            elif task.priority < preemptor.priority:
                victims.append(task)
        return victims

    def evictable(self, kind: Eviction, candidates: list[Task]) -> Victims:
        """The action compares priorities itself."""
        return candidates

    def job_starving(self, job: Job) -> bool:
        """Some pod neither has nor waits for a place."""
        return job.ready + job.waiting < len(job.members)

    def job_pipelined(self, job: Job) -> Vote:
        """No opinion."""
        return Vote.ABSTAIN
