"""A pass: one session on the state of a mirror, and everything that has to be written afterwards, as values.

Between passes, `progress` gives the statuses of groups whose pods only moved on (bound, started, ended), without a
session.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rota.columns.pods import PodInfo
from rota.scheduler.batch import group_statuses, outcomes, registry
from rota.scheduler.batch.amounts import Amounts
from rota.scheduler.batch.conf import BatchConfiguration
from rota.scheduler.batch.group_statuses import Change
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.mirror import Mirror
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.states import Commit
from rota.scheduler.batch.statuses import PodGroupPhase, TaskStatus
from rota.scheduler.batch.wait_reasons import WaitReasons

#: Pods in these states at the end of a session were not bound.
_WAITING: Final = (TaskStatus.ALLOCATED, TaskStatus.PENDING, TaskStatus.PIPELINED)

#: Pods in these states use the room that was made for them, or will. A binding may still fail.
_COMING: Final = (TaskStatus.PIPELINED, TaskStatus.BINDING)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A status to be written."""

    group: Mapping[str, Any]
    status: Mapping[str, Any]
    change: Change


@dataclass(frozen=True, slots=True)
class PodNote:
    """Why a pod is not bound: reason, message, and the node that it will get."""

    pod: PodInfo
    reason: str
    message: str
    nominated: str


@dataclass(slots=True)
class PassResult:
    """What a pass decided, apart from bindings and evictions, which were given to `on_commit`."""

    groups: list[GroupStatus] = field(default_factory=list)
    notes: list[PodNote] = field(default_factory=list)
    #: What each queue has, by name.
    allocated: dict[str, Amounts] = field(default_factory=dict)
    #: Figures of plugins, by the plugin's name.
    figures: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Groups that wait, by key, with why; kept by the mirror.
    waiting: Mapping[str, str] = field(default_factory=dict)
    #: The number of pods that wait for a node.
    waiting_pods: int = 0
    bound: int = 0
    evicted: int = 0


def run(
    mirror: Mirror,
    configuration: BatchConfiguration,
    *,
    now: float,
    transition: str,
    on_commit: Callable[[Commit], None],
) -> PassResult:
    """Run one session; `on_commit` gets every group of bindings and evictions as soon as it is decided."""
    state = mirror.state(now)
    session = registry.run(state, configuration, on_commit=on_commit, quick=True)
    keys = mirror.concerned(session)
    outcome = outcomes.of(session, keys)
    result = PassResult(
        allocated=_allocated(session, mirror.quiet.allocated_now(session.jobs, session.changed)),
        figures={name: plugin.report() for name, plugin in session.plugins.items()},
        bound=len(outcome.binds),
        evicted=len(outcome.evicts),
    )
    by_key = {}
    reasons = WaitReasons(session)
    for job in map(session.jobs.__getitem__, keys):
        phase, reason = outcome.phases[job.key], reasons.of(job)
        condition = _explained(reason, outcome.conditions.get(job.key))
        result.groups += _status(job, phase, condition, now=now, transition=transition)
        _record(mirror, job, phase, now)
        for status in _WAITING:
            by_key.update({task.key: task.info for task in job.of(status).values()})
        if condition is not None and condition.type == outcomes.UNSCHEDULABLE_CONDITION:
            mirror.waiting[job.key] = reason or condition.message
        else:
            mirror.waiting.pop(job.key, None)
    result.waiting = mirror.waiting
    result.waiting_pods = sum(job.count(_WAITING) for job in session.active.values())
    result.notes = [PodNote(by_key[key], *said) for key, said in outcome.pods.items()]
    _keep_room(session)
    mirror.settle(session)
    return result


def _keep_room(session: Session) -> None:
    """Remember the groups that pods were evicted for until they are bound, so that no other takes the room."""
    made_room = session.state.made_room
    if made_room is None:
        return
    for key in (*made_room, *sorted(session.changed - made_room.keys())):
        job = session.jobs.get(key)
        if key not in made_room:
            if job is not None and any(task.evicted_others for task in job.of(TaskStatus.PIPELINED).values()):
                made_room[key] = None
        elif job is None or not job.count(_COMING):
            del made_room[key]


def progress(mirror: Mirror, keys: Iterable[str], *, now: float, transition: str) -> list[GroupStatus]:
    """Give the statuses of groups without a session: conditions stay as they are."""
    found: list[GroupStatus] = []
    for key in keys:
        job = mirror.jobs.get(key)
        if job is not None and job.queue in mirror.queues:
            unschedulable = job.phase is PodGroupPhase.UNKNOWN and not job.is_ready
            phase = outcomes.phase_of(job, unschedulable=unschedulable)
            found += _status(job, phase, None, now=now, transition=transition)
            _record(mirror, job, phase, now)
    return found


def _record(mirror: Mirror, job: Job, phase: str, now: float) -> None:
    """Keep the phase of a group, and how long it ran if it has just completed."""
    decided = PodGroupPhase(phase)
    if decided is PodGroupPhase.COMPLETED and job.phase is PodGroupPhase.RUNNING:
        mirror.run_times.completed(job, now)
    mirror.decided_phase(job.key, phase)


def _explained(reason: str, condition: outcomes.Condition | None) -> outcomes.Condition | None:
    """Add why a group waits; also to a group without pods, which Volcano says nothing about."""
    if not reason or (condition is not None and condition.type != outcomes.UNSCHEDULABLE_CONDITION):
        return condition
    if condition is None:
        return outcomes.Condition(outcomes.UNSCHEDULABLE_CONDITION, outcomes.NOT_ENOUGH, reason)
    return replace(condition, message=f"{condition.message}; {reason}")


def _status(
    job: Job, phase: str, condition: outcomes.Condition | None, *, now: float, transition: str
) -> list[GroupStatus]:
    status, change = group_statuses.updated(job, phase, condition, now=now, transition=transition)
    return [] if change is Change.NONE else [GroupStatus(job.group, status, change)]


def _allocated(session: Session, own: dict[str, Amounts]) -> dict[str, Amounts]:
    """Add up what the groups of every queue have, with the queues above; `own` is what its quiet groups have."""
    for job in session.active.values():
        own.setdefault(job.queue, Amounts()).add(job.allocated)
    found = {name: Amounts() for name in session.queues}
    for queue, amounts in own.items():
        name, seen = queue, set[str]()
        while name in found and name not in seen:
            found[name].add(amounts)
            seen.add(name)
            name = session.queues[name].parent
    return found
