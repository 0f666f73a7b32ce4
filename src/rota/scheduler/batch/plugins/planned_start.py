"""planned-start: a group that finds no place gets a planned start, and others may use its nodes only until then.

This plugin is Rota's own; Volcano's backfill only places pods without requests. The first groups that allocate cannot
place (`planned-start.groups`) are planned: from the expected ends of everything that runs (`run_times`), the plugin
finds the earliest time at which all pods of the group fit, and the nodes. From then on a pod of another group is placed
on such a node only if its group is expected to end before the planned start, or if the node has enough for both. So
small groups fill the time until the large one starts, and cannot delay it.

A plan is made again in every session, earlier if something ended sooner, and the group keeps its turn until it starts.
A group without an estimate counts as running forever: nothing is planned on its resources, and it never runs on planned
ones. A group that runs longer than expected is expected to end soon. `planned-start.default-estimate` is for groups of
which nothing is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from rota.columns.arrays import BoolArray, FloatArray
from rota.columns.pods import PodShape
from rota.scheduler.batch import arguments as args
from rota.scheduler.batch.amounts import EPSILON, Amounts
from rota.scheduler.batch.arguments import Argument
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.plugin import BatchPlugin
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import TaskStatus
from rota.scheduler.batch.tasks import Task
from rota.scheduler.batch.times import seconds
from rota.scheduler.batch.verdicts import Verdicts
from rota.scheduler.framework.status import Code

RESERVED: Final = "resources are reserved for a group with a planned start"
_NEVER: Final = float("inf")
#: A group that runs longer than expected is expected to end after this part of its estimate, but not sooner than this.
_OVERRUN_PART: Final = 0.1
_OVERRUN_S: Final = 60.0


def positive(value: Any) -> int:
    """Read a whole number above zero."""
    read = args.integer(value)
    if read < 1:
        raise ValueError("expected a whole number above zero")
    return read


@dataclass(slots=True)
class Plan:
    """When a group starts at the latest, and what is left of the nodes at that time."""

    job: Job
    #: Seconds since the epoch.
    start: float
    #: Shape (D, N): what other groups that still run at the start may use, and what is for the group itself.
    spare: FloatArray
    taken: FloatArray
    #: Plans with lower numbers come first; what they take is not in `spare`.
    number: int


class PlannedStart(BatchPlugin):
    """Plan groups, and keep others off their nodes."""

    name: ClassVar[str] = "planned-start"
    arguments: ClassVar[Mapping[str, Argument]] = {
        "planned-start.groups": Argument(positive, 1),
        "planned-start.default-estimate": Argument(args.seconds),
    }

    def __init__(self, session: Session, arguments: Mapping[str, Any], *, hierarchy: bool) -> None:
        self._session: Final = session
        self._most: Final[int] = arguments["planned-start.groups"]
        self._default: Final[float | None] = arguments["planned-start.default-estimate"]
        self._plans: Final[dict[str, Plan]] = {}
        self._let_in: Final[set[str]] = set()
        self._refused: Final[dict[PodShape, BoolArray]] = {}
        #: What groups need that were let in because it is idle.
        self._promised: Final = Amounts()
        #: What is idle for groups that some plans concern.
        self._idle: Final[dict[frozenset[str], Amounts]] = {}
        self._ends: tuple[FloatArray, list[tuple[int, Task]]] | None = None

    def open(self) -> None:
        """Count groups that were let in and wait."""
        for key, job in self._session.active.items():
            if not job.pending and not job.is_ready and job.of(TaskStatus.PENDING):
                self._let_in.add(key)

    def begin(self) -> None:
        """Plan the groups again that were planned before, in the order of their first plans."""
        planned = self._session.state.planned
        for key in sorted(planned, key=lambda key: planned[key]):
            job = self._session.jobs.get(key)
            if job is not None and not job.is_ready and not job.pending and len(self._plans) < self._most:
                self._plan(job)

    def job_needed(self, job: Job) -> bool:
        """Let a group in that may start at once, and large ones as long as fewer wait inside than are planned.

        A planned group inside counts as if it took its resources now, so others would wait outside for no reason.
        """
        least, end = job.minimum(), self._session.now + self._lasts(job)
        room = self._room(end)
        if least.fits(room):
            self._promised.add(least)
            return True
        if len(self._let_in) >= self._most or not least.fits(self._session.total):
            return False
        self._let_in.add(job.key)
        return True

    def _room(self, end: float) -> Amounts:
        """What is idle, and not promised or planned, for a group that is expected to end at a time."""
        nodes = self._session.nodes
        plans = frozenset(key for key, plan in self._plans.items() if end > plan.start)
        if plans not in self._idle:
            idle = np.maximum(nodes.idle, 0.0)
            for key in plans:
                idle = np.minimum(idle, np.maximum(self._plans[key].spare, 0.0))
            sums = idle[:, nodes.usable].sum(axis=1).tolist()
            self._idle[plans] = Amounts(
                others={name: sums[index] for name, index in nodes.dimensions.items() if index > 1}
            )
            self._idle[plans].cpu, self._idle[plans].memory = sums[:2]
        return self._idle[plans].copy().sub(self._promised)

    def job_refused(self, job: Job) -> None:
        """Plan a group that found no place on nodes."""
        if len(self._plans) < self._most and job.key not in self._plans and job.fit_errors and not job.is_ready:
            self._plan(job)

    def predicate(self, task: Task, rows: BoolArray) -> Verdicts | None:
        """Refuse nodes where a pod would take what a planned group needs."""
        verdicts = Verdicts(len(rows))
        for plan in self._plans.values():
            table = self._bound(plan, task)
            if table is not None:
                fits = self._session.nodes.fits(task.request, table, np.arange(len(rows)))
                if not fits.all():
                    verdicts.refuse(~fits, Code.UNSCHEDULABLE, RESERVED)
        return verdicts if verdicts.reasons else None

    def on_allocate(self, task: Task) -> None:
        """Count a pod that was placed and will still run at a planned start."""
        if task.status in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED):
            self._count(task, -1.0)

    def on_deallocate(self, task: Task) -> None:
        """Count a pod out whose place was given up."""
        if task.status is TaskStatus.PENDING:
            self._count(task, 1.0)

    def close(self) -> None:
        """Keep the plans of groups that wait; one that could have started now is not held up by nodes."""
        session, planned = self._session, self._session.state.planned
        for key in [*planned]:
            if key not in self._plans or session.jobs[key].is_ready or self._plans[key].start <= session.now:
                del planned[key]
        for key, plan in self._plans.items():
            if not plan.job.is_ready and plan.start > session.now:
                planned.setdefault(key, session.now)

    def report(self) -> Mapping[str, Any]:
        """Give the planned starts by group."""
        return {key: {"start": plan.start} for key, plan in self._plans.items() if not plan.job.is_ready}

    # --- plans ------------------------------------------------------------------------------------------------------

    def _bound(self, plan: Plan, task: Task) -> FloatArray | None:
        """Give what a pod may use with regard to a plan; None if the plan does not concern it.

        If later plans count on it, a group that starts as planned uses the nodes of its plan.
        """
        own = self._plans.get(task.job)
        if own is plan:
            return plan.taken if plan.start <= self._session.now and len(self._plans) > 1 else None
        if own is not None and own.number < plan.number:
            return None
        return plan.spare if self._end(task) > plan.start else None

    def _count(self, task: Task, sign: float) -> None:
        row = self._session.nodes.rows.get(task.node)
        for plan in self._plans.values():
            table = self._bound(plan, task)
            if row is not None and table is not None:
                self._shift(table, row, task, sign)

    def _plan(self, job: Job) -> None:
        """Find the earliest time at which all pods fit that a group needs."""
        wanted = self._wanted(job)
        if not wanted:
            return
        times, running = self._releases()
        moments = [self._session.now, *sorted({float(time) for time in times if time < _NEVER})]
        first, last = 0, len(moments)
        found: tuple[FloatArray, FloatArray] | None = None
        while first < last:  # more has ended at later moments, so the first that suffices is found by halving
            middle = (first + last) // 2
            spare = self._placed(wanted, moments[middle], times, running)
            if spare is None:
                first = middle + 1
            else:
                last, found = middle, spare
        if found is not None:
            self._plans[job.key] = Plan(job, moments[first], *found, number=len(self._plans))

    def _wanted(self, job: Job) -> list[Task]:
        waiting = [task for task in job.of(TaskStatus.PENDING).values() if not task.gated and not task.best_effort]
        number = max(job.min_available - job.ready - job.waiting_best_effort, 0)
        by_size = sorted(waiting, key=lambda task: (-task.request.cpu, -task.request.memory, task.key))
        return by_size[:number] if len(waiting) >= number else []

    def _releases(self) -> tuple[FloatArray, list[tuple[int, Task]]]:
        """Give the pods on nodes that end some time, with their ends."""
        if self._ends is None:
            running, times = [], []
            for row, tasks in enumerate(self._session.nodes.tasks):
                for task in tasks.values():
                    end = self._session.now if task.status is TaskStatus.RELEASING else self._end(task)
                    if end < _NEVER and task.status is not TaskStatus.PIPELINED:
                        running.append((row, task))
                        times.append(end)
            self._ends = np.array(times), running
        return self._ends

    def _placed(
        self, wanted: list[Task], moment: float, times: FloatArray, running: list[tuple[int, Task]]
    ) -> tuple[FloatArray, FloatArray] | None:
        """Give what is left of all nodes at a time with a group in place, and its places; None if it does not fit."""
        nodes = self._session.nodes
        spare: FloatArray = nodes.idle - nodes.pipelined
        for number in np.flatnonzero(times <= moment).tolist():
            row, task = running[number]
            self._shift(spare, row, task, 1.0)
        for plan in self._plans.values():  # an earlier plan comes first, however long its group will run
            np.minimum(spare, plan.spare, out=spare)
        taken: FloatArray = np.zeros(spare.shape)
        for task in wanted:
            rows = np.flatnonzero(self._usable(task))
            rows = rows[nodes.fits(task.request, spare, rows)]
            if not len(rows):
                return None
            row = int(rows[np.argmin(spare[0, rows])])
            self._shift(spare, row, task, -1.0)
            self._shift(taken, row, task, 1.0)
        return spare, taken

    def _usable(self, task: Task) -> BoolArray:
        """Give the nodes that refuse a pod for no lasting reason."""
        shape = task.info.shape
        if shape not in self._refused:
            usable = self._session.nodes.usable
            session, plans = self._session, dict(self._plans)
            self._plans.clear()  # plans are compared by amounts; here only lasting refusals count
            session.pre_predicate(task)
            self._refused[shape] = usable & ~session.judge(task, usable).final
            self._plans.update(plans)
        return self._refused[shape]

    def _end(self, task: Task) -> float:
        """Give when a pod is expected to end."""
        session = self._session
        job = session.jobs.get(task.job)
        lasts = _NEVER if job is None else self._lasts(job)
        begun = seconds(task.member.scheduled_at) if task.member.scheduled_at else session.now
        end = begun + lasts
        return end if end > session.now else session.now + max(_OVERRUN_PART * lasts, _OVERRUN_S)

    def _lasts(self, job: Job) -> float:
        """Give how long a group is expected to run."""
        known = self._session.state.run_times.estimate(job)
        return known if known is not None else _NEVER if self._default is None else self._default

    def _shift(self, table: FloatArray, row: int, task: Task, sign: float) -> None:
        for index, amount in self._session.nodes.vector(task.request):
            if index >= 0 and amount >= EPSILON:
                table[index, row] += sign * amount
