"""The outcome of a session: bindings, evictions, reservations, and conditions of every group and pod."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.sessions import Session
from rota.scheduler.batch.statuses import ALLOCATED, COMPLETED, SCHEDULED, PodGroupPhase, TaskStatus
from rota.scheduler.batch.tasks import Task

SCHEDULED_CONDITION: Final = "Scheduled"
UNSCHEDULABLE_CONDITION: Final = "Unschedulable"
READY_REASON: Final = "tasks in gang are ready to be scheduled"
NOT_ENOUGH: Final = "NotEnoughResources"
SCHEDULABLE: Final = "Schedulable"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a group."""

    type: str
    reason: str
    message: str
    status: str = "True"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that a session decided."""

    #: By pod.
    binds: Mapping[str, str]
    evicts: tuple[str, ...]
    pipelined: Mapping[str, str]
    #: Allocated pods whose group is not complete.
    held: Mapping[str, str]
    #: By group.
    phases: Mapping[str, str]
    conditions: Mapping[str, Condition]
    #: ("bind", pod, node) and ("evict", pod, reason), in order.
    order: tuple[tuple[str, str, str], ...] = ()
    #: By pod that was not bound: reason, message, and the nominated node.
    pods: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Give the decision as plain data."""
        held = {"held": dict(self.held)} if self.held else {}
        return {
            "binds": dict(self.binds),
            "evicts": list(self.evicts),
            "pipelined": dict(self.pipelined),
            **held,
            "podGroupPhases": dict(self.phases),
            "conditions": {
                key: {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
                for key, each in self.conditions.items()
            },
            "order": [list(each) for each in self.order],
            "podConditions": {
                key: {
                    "reason": reason,
                    "message": message,
                    **({"nominatedNodeName": node} if node else {}),
                }
                for key, (reason, message, node) in self.pods.items()
            },
        }


def of(session: Session, keys: Iterable[str] | None = None) -> Outcome:
    """Sum a session up, for some groups or for all."""
    binds = {pod: node for kind, pod, node in session.sent if kind == "bind"}
    pipelined: dict[str, str] = {}
    held: dict[str, str] = {}
    phases: dict[str, str] = {}
    conditions: dict[str, Condition] = {}
    pods: dict[str, tuple[str, str, str]] = {}
    tells = "gang" in session.plugins
    for job in session.jobs.values() if keys is None else [session.jobs[key] for key in keys]:
        pipelined.update({task.key: task.node for task in job.of(TaskStatus.PIPELINED).values()})
        held.update({task.key: task.node for task in job.of(TaskStatus.ALLOCATED).values()})
        condition = _condition(job) if tells and job.members and not _leaving(job) else None
        if condition is not None:
            conditions[job.key] = condition
        unschedulable = condition is not None and condition.type == UNSCHEDULABLE_CONDITION
        phases[job.key] = phase_of(job, unschedulable=unschedulable)
        for status in (TaskStatus.ALLOCATED, TaskStatus.PENDING, TaskStatus.PIPELINED):
            for task in job.of(status).values():
                if task.gated:
                    continue
                reason, message, node = _told(job, task)
                pods[task.key] = reason, message or _explained(job), node or task.info.nominated_node or ""
    return Outcome(
        binds=dict(sorted(binds.items())),
        evicts=tuple(sorted(pod for kind, pod, _ in session.sent if kind == "evict")),
        pipelined=dict(sorted(pipelined.items())),
        held=dict(sorted(held.items())),
        phases=phases,
        conditions=conditions,
        order=tuple(session.sent),
        pods=pods,
    )


def phase_of(job: Job, *, unschedulable: bool) -> str:
    """Give the phase of a group from the states of its pods."""
    if job.of(TaskStatus.RUNNING) and unschedulable:
        return PodGroupPhase.UNKNOWN.value
    scheduled, completed = job.count(SCHEDULED) + _leaving_nodes(job), job.count(COMPLETED)
    if scheduled >= job.min_available:
        return (PodGroupPhase.COMPLETED if scheduled == completed else PodGroupPhase.RUNNING).value
    return (PodGroupPhase.INQUEUE if job.phase is PodGroupPhase.INQUEUE else PodGroupPhase.PENDING).value


def _leaving_nodes(job: Job) -> int:
    """Count the terminating pods on nodes."""
    return sum(bool(task.node) for task in job.of(TaskStatus.RELEASING).values())


def _leaving(job: Job) -> bool:
    """Whether a group lacks pods only because some are terminating, without successors."""
    if job.is_ready or job.of(TaskStatus.PENDING) or job.of(TaskStatus.PIPELINED):
        return False
    running = job.count(SCHEDULED) - len(job.of(TaskStatus.FAILED))
    return running + _leaving_nodes(job) >= job.min_available


def _condition(job: Job) -> Condition:
    if job.is_ready:
        return Condition(SCHEDULED_CONDITION, READY_REASON, "")
    placeable = sum(
        task.last is not None and task.last.status in ALLOCATED for task in job.of(TaskStatus.PENDING).values()
    )
    insufficient = job.min_available - placeable - job.ready
    message = f"{insufficient}/{len(job.members)} tasks in gang unschedulable: {_explained(job)}"
    return Condition(UNSCHEDULABLE_CONDITION, NOT_ENOUGH, message)


def _explained(job: Job) -> str:
    counts = {status.value: len(tasks) for status, tasks in job.tasks.items()}
    counts["minAvailable"] = job.min_available
    text = f"pod group is {'' if job.is_ready else 'not '}ready, {_histogram(counts)}"
    reasons: dict[str, int] = {}
    for task in job.of(TaskStatus.PENDING).values():
        reason = _told(job, task)[0]
        reasons[reason] = reasons.get(reason, 0) + 1
    if reasons:
        text += f"; Pending: {_histogram(reasons)}"
    if job.message:
        return f"{text}. Origin reason is: {job.message}"
    first = next((task for task in job.members.values() if task.uid in job.fit_errors), None)
    return text if first is None else f"{text}. Origin reason is {first.name}: {job.fit_errors[first.uid]}"


def _histogram(counts: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{number} {name}" for name, number in counts.items()))


def _told(job: Job, task: Task) -> tuple[str, str, str]:
    """Give the reason, the message and the nominated node of a pod that was not bound."""
    status, node, evicted = task.status, task.node, task.evicted_others
    if task.last is not None:
        status, node, evicted = task.last.status, task.last.node, task.last.evicted
    start = f"Pod {task.namespace}/{task.name} can possibly be assigned to {node}, once "
    if status is TaskStatus.ALLOCATED:
        return SCHEDULABLE, f"{start}minAvailable is satisfied", ""
    if status is TaskStatus.PIPELINED:
        message = f"{start}resource is released and minAvailable is satisfied"
        return UNSCHEDULABLE_CONDITION, message, node if evicted else ""
    if status is TaskStatus.PENDING:
        errors = job.fit_errors.get(task.uid)
        return UNSCHEDULABLE_CONDITION, job.message if errors is None else str(errors), ""
    return status.value, job.message, ""
