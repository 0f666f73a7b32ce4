"""cdp: a pod that was placed a short while ago is not preempted."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from rota.api.durations import duration
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin, Victims, Vote
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.times import seconds

COOLDOWN: Final = "volcano.sh/cooldown-time"
PREEMPTED: Final = "JobPreempted"


class CooldownProtection(BatchPlugin):
    """Protect pods for a while."""

    name: ClassVar[str] = "cdp"
    arguments: ClassVar[Mapping[str, Argument]] = {"cooldown-time-for-preempted-job": Argument(args.seconds, 300.0)}

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._now = session.now
        self._pause: float = arguments["cooldown-time-for-preempted-job"]

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> Victims:
        """A running pod may go when its time is over."""
        return [task for task in candidates if not self._protected(task)]

    def job_enqueueable(self, job: Job) -> Vote:
        """A group that was preempted waits a while before it is let in again."""
        reason = (job.group.get("status") or {}).get("pendingReasonInfo") or {}
        if reason.get("reason") != PREEMPTED:
            return Vote.PERMIT
        since = seconds(reason.get("lastTransitionTime") or "")
        return Vote.REJECT if since + self._pause > self._now else Vote.PERMIT

    def _protected(self, task: Task) -> bool:
        text = task.labels.get(COOLDOWN, task.annotations.get(COOLDOWN))
        time = None if text is None else duration(text)
        member = task.member
        if time is None or member.phase != "Running" or not member.scheduled_at:
            return False
        return seconds(member.scheduled_at) + time > self._now
