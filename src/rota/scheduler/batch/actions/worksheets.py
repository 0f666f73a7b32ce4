"""What is to be placed of a group: its sub-groups in order, with their waiting pods in order."""

from collections.abc import Callable
from typing import Final

from rota.scheduler.batch.heaps import PriorityQueue
from rota.scheduler.batch.jobs import Job, SubJob
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task


class Worksheet:
    """The sub-groups of a group that have something to place."""

    def __init__(self, subjobs: PriorityQueue[SubJob], tasks: dict[str, PriorityQueue[Task]]) -> None:
        self.subjobs = subjobs
        self.tasks = tasks

    @property
    def empty(self) -> bool:
        """Whether there is nothing to place."""
        return not len(self.subjobs)

    def copy(self) -> "Worksheet":
        """Give an independent worksheet."""
        return Worksheet(self.subjobs.copy(), {uid: queue.copy() for uid, queue in self.tasks.items()})


def nothing(session: Session) -> Worksheet:
    """Give a worksheet of a group that has nothing to place yet."""
    return Worksheet(PriorityQueue(session.subjob_before), {})


def organize(session: Session, job: Job, wanted: Callable[[Task], bool]) -> Worksheet:
    """List what is to be placed; sub-groups that the group cannot do without come first."""
    ready: dict[str, int] = {}
    waiting: list[SubJob] = []
    for subjob in job.subjobs.values():
        if session.subjob_ready(job, subjob):
            ready[subjob.group] = ready.get(subjob.group, 0) + 1
        else:
            waiting.append(subjob)
    required: Final[set[str]] = set()
    ordered: PriorityQueue[SubJob] = PriorityQueue(session.subjob_before, waiting)
    while len(ordered):
        subjob = ordered.pop()
        if ready.get(subjob.group, 0) < job.min_subjobs.get(subjob.group, 0):
            required.add(subjob.uid)
            ready[subjob.group] = ready.get(subjob.group, 0) + 1

    def before(left: SubJob, right: SubJob) -> bool:
        if (left.uid in required) != (right.uid in required):
            return left.uid in required
        return session.subjob_before(left, right)

    sheet = Worksheet(PriorityQueue(before), {})
    for subjob in job.subjobs.values():
        tasks: PriorityQueue[Task] = PriorityQueue(session.task_before)
        for task in subjob.of(TaskStatus.PENDING).values():
            if wanted(task):
                tasks.push(task)
        if len(tasks):
            sheet.tasks[subjob.uid] = tasks
            sheet.subjobs.push(subjob)
    return sheet
