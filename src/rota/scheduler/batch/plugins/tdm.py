"""tdm: nodes that are lent out at certain hours take only pods that may be sent away when the hours are over."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray, IndexArray
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin, Victims, Vote
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.verdicts import Verdicts
from rota.scheduler.framework.status import Code

ZONE: Final = "tdm.revocable-zone."
MAX_SCORE: Final = 100.0
#: How many pods of a group without a budget leave at a time.
DEFAULT_EVICTIONS: Final = 1
NOT_ALLOWED: Final = "not allow to dispatch to revocable node"

_Hours = tuple[int, int]


def hours(value: Any) -> str:
    """Read a window such as 10:00-21:00."""
    text = args.text(value)
    _window(text)
    return text


def _window(text: str) -> _Hours:
    parts = text.strip().split("-")
    minutes = []
    for part in parts:
        hour, colon, minute = part.partition(":")
        if not (colon and hour.isdigit() and minute.isdigit() and int(hour) < 24 and int(minute) < 60):
            raise ValueError('expected two times of day, such as "10:00-21:00"')
        minutes.append(int(hour) * 60 + int(minute))
    if len(minutes) != 2:
        raise ValueError('expected two times of day, such as "10:00-21:00"')
    return minutes[0], minutes[1]


class TimeDivision(BatchPlugin):
    """Nodes with hours."""

    name: ClassVar[str] = "tdm"
    arguments: ClassVar[Mapping[str, Argument]] = {
        ZONE: Argument(hours),
        "tdm.evict.period": Argument(args.seconds, 60.0),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._session = session
        self._period: Final[float] = arguments["tdm.evict.period"]
        now = datetime.fromtimestamp(session.now, UTC)
        #: By zone, the hours and whether they are now.
        self._zones: Final = {
            name.removeprefix(ZONE): (text, _is_within(_window(text), now))
            for name, text in arguments.items()
            if name.startswith(ZONE)
        }

    def _open_now(self, zone: str) -> bool:
        known = self._zones.get(zone)
        return known is not None and known[1]

    def predicate(self, task: Task, rows: BoolArray) -> Verdicts | None:
        """Refuse nodes out of hours, and pods that may not be sent away."""
        verdicts = Verdicts(len(rows))
        by_zone: dict[str, list[int]] = {}
        for row, zone in enumerate(self._session.nodes.revocable_zones):
            if zone:
                by_zone.setdefault(zone, []).append(row)
        for zone, members in by_zone.items():
            mask = np.zeros(len(rows), dtype=np.bool_)
            mask[members] = True
            if zone not in self._zones:
                verdicts.refuse(mask, Code.UNRESOLVABLE, f"revocable zone {zone} not support")
            elif not self._open_now(zone):
                text = self._zones[zone][0]
                verdicts.refuse(mask, Code.UNRESOLVABLE, f"current time beyond revocable zone {zone}:{text}")
            elif not task.revocable_zone:
                verdicts.refuse(mask, Code.UNRESOLVABLE, NOT_ALLOWED)
        return verdicts if verdicts.reasons else None

    def node_order(self, task: Task, rows: IndexArray) -> FloatArray:
        """Prefer nodes that are lent out, for pods that may use them."""
        zones = self._session.nodes.revocable_zones
        liked = [bool(task.revocable_zone) and self._open_now(zones[row]) for row in rows.tolist()]
        return np.asarray(liked, dtype=np.float64) * MAX_SCORE

    def preemptable(self, preemptor: Task, candidates: list[Task]) -> Victims:
        """Preemptable pods on nodes that are not revocable are evicted for pods that are not preemptable."""
        if preemptor.preemptable or preemptor.revocable_zone:
            return []
        nodes = self._session.nodes
        by_job: dict[str, list[Task]] = {}
        for task in candidates:
            row = nodes.rows.get(task.node)
            if not task.preemptable or task.status is not TaskStatus.RUNNING or row is None:
                continue
            if not nodes.revocable_zones[row]:
                by_job.setdefault(task.job, []).append(task)
        return self._limited(by_job)

    def victim_tasks(self, running: list[Task]) -> list[Task]:
        """Send pods away from nodes whose hours are over, once per period."""
        if not self._session.is_due(self.name, self._period):
            return []
        nodes = self._session.nodes
        victims: list[Task] = []
        for zone in self._zones:
            if self._open_now(zone):
                continue
            by_job: dict[str, list[Task]] = {}
            for row, own in enumerate(nodes.revocable_zones):
                if own == zone:
                    for task in nodes.tasks[row].values():
                        if task.preemptable and task.status is TaskStatus.RUNNING:
                            by_job.setdefault(task.job, []).append(task)
            victims += self._limited(by_job)
        return victims

    def job_order(self, left: Job, right: Job) -> float:
        """Groups that may not be sent away go first."""
        return left.preemptable - right.preemptable

    def job_key(self, job: Job) -> bool:
        """Whether the group may be sent away."""
        return job.preemptable

    def job_pipelined(self, job: Job) -> Vote:
        """Enough pods have, or wait for, a place."""
        return Vote.PERMIT if job.is_pipelined else Vote.REJECT

    def job_starving(self, job: Job) -> bool:
        """Some pod waits, and the group may not be sent away."""
        return not job.preemptable and bool(job.of(TaskStatus.PENDING))

    def _limited(self, by_job: Mapping[str, list[Task]]) -> list[Task]:
        jobs = self._session.jobs
        return [task for key, tasks in by_job.items() if key in jobs for task in tasks[: _budget(jobs[key])]]


def _is_within(window: _Hours, now: datetime) -> bool:
    start, end = (now.replace(hour=time // 60, minute=time % 60, second=0, microsecond=0) for time in window)
    if window[0] >= window[1]:
        end += timedelta(days=1)
    return int(start.timestamp()) <= int(now.timestamp()) <= int(end.timestamp())


def _budget(job: Job) -> int:
    """Give how many pods of a group may leave now."""
    running = len(job.of(TaskStatus.RUNNING))
    if job.budget_max:
        most = _amount(job.budget_max, len(job.members))
        over = len(job.of(TaskStatus.SUCCEEDED)) + len(job.of(TaskStatus.FAILED))
        away = len(job.members) - over - running
        return max(most - away, 0)
    if job.budget_min:
        least = _amount(job.budget_min, len(job.members))
        if running >= least:
            return running - least
    return DEFAULT_EVICTIONS


def _amount(text: str, whole: int) -> int:
    """Read a number or a part of a whole, rounded up; what is neither is none."""
    if text.endswith("%") and text[:-1].isdigit():
        return -(-int(text[:-1]) * whole // 100)
    try:
        return int(text)
    except ValueError:
        return 0
