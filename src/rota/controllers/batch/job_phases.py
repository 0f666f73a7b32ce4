"""The state machine of a Job: what an action does in a phase, and how a phase follows from counted pods. Pure.

An action that stops pods raises `version` when it stops all of them: pods of an earlier version are leftovers, and what
happens to them causes no action. The machine is upstream's (`pkg/controllers/job/state`, 1.15).
"""

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta
from rota.api.batch import kinds, policies
from rota.api.meta import Object

PENDING: Final = "Pending"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
ABORTING: Final = "Aborting"
ABORTED: Final = "Aborted"
COMPLETING: Final = "Completing"
COMPLETED: Final = "Completed"
TERMINATING: Final = "Terminating"
TERMINATED: Final = "Terminated"
FAILED: Final = "Failed"
#: Phases that a Job does not leave.
FINISHED: Final = frozenset({COMPLETED, FAILED, TERMINATED})
#: Phases that wait for the end of pods, and what follows them.
_ENDINGS: Final = {ABORTING: ABORTED, COMPLETING: COMPLETED, TERMINATING: TERMINATED}
_STOPPING: Final = {
    policies.ABORT_JOB: ABORTING,
    policies.COMPLETE_JOB: COMPLETING,
    policies.TERMINATE_JOB: TERMINATING,
}
TARGETED: Final = frozenset({policies.RESTART_TASK, policies.RESTART_POD, policies.RESTART_PARTITION})


class Kill(enum.Enum):
    """Which pods an action stops."""

    NONE = enum.auto()
    #: Those that run or wait; ended ones are kept.
    ACTIVE = enum.auto()
    ALL = enum.auto()
    #: Those that the event was about.
    TARGET = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What an action does."""

    phase: str
    kill: Kill
    retries: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The pods of a Job by their state."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    #: For each task, pods by phase.
    tasks: Mapping[str, Mapping[str, int]]

    @property
    def alive(self) -> int:
        """Pods that have not ended."""
        return self.pending + self.running + self.terminating + self.unknown


def count(job: Object, pods: Sequence[Object]) -> Counts:
    """Count pods; one that is being deleted is terminating whatever else it is."""
    states: Counter[str] = Counter()
    tasks: dict[str, Counter[str]] = {}
    for pod in pods:
        phase = str((pod.get("status") or {}).get("phase") or PENDING)
        states["Terminating" if meta.is_deleting(pod) else phase] += 1
        if not meta.is_deleting(pod):
            tasks.setdefault(meta.annotations(pod).get(kinds.TASK_SPEC, ""), Counter())[phase] += 1
    named = {task["name"] for task in job["spec"].get("tasks") or ()}
    return Counts(
        pending=states["Pending"],
        running=states["Running"],
        succeeded=states["Succeeded"],
        failed=states["Failed"],
        terminating=states["Terminating"],
        unknown=states["Unknown"],
        tasks={name: dict(sorted(found.items())) for name, found in sorted(tasks.items()) if name in named},
    )


def transition(phase: str, action: str, *, retry_count: int, max_retry: int) -> Transition | None:
    """What an action does in a phase; None if nothing."""
    if phase in (PENDING, RUNNING):
        if action == policies.RESTART_JOB:
            # After the last retry the ended pods tell why.
            last = retry_count + 1 >= max_retry
            return Transition(phase=RESTARTING, kill=Kill.ACTIVE if last else Kill.ALL, retries=True)
        if action in TARGETED:
            return Transition(phase=RESTARTING, kill=Kill.TARGET, retries=True)
        if action in _STOPPING:
            return Transition(phase=_STOPPING[action], kill=Kill.ACTIVE)
    if phase == RESTARTING and action in _STOPPING:
        return Transition(phase=_STOPPING[action], kill=Kill.ACTIVE)
    if phase in (ABORTING, ABORTED) and action == policies.RESUME_JOB:
        return Transition(phase=RESTARTING, kill=Kill.ALL, retries=True)
    return None


def next_phase(phase: str, job: Object, counts: Counts) -> str:
    """The phase that follows from the pods."""
    spec, status = job["spec"], job.get("status") or {}
    if phase in _ENDINGS:
        return phase if counts.alive else _ENDINGS[phase]
    if phase == RESTARTING:
        if (status.get("retryCount") or 0) >= max_retry(spec):
            return FAILED
        return PENDING if replicas(spec) - counts.terminating >= spec.get("minAvailable", 0) else phase
    if phase == RUNNING:
        return _after_running(spec, counts)
    if phase == PENDING:
        started = counts.running + counts.succeeded + counts.failed
        return RUNNING if replicas(spec) and spec.get("minAvailable", 0) <= started else phase
    return phase


def _after_running(spec: Mapping[str, Any], counts: Counts) -> str:
    total, least, wanted = replicas(spec), spec.get("minAvailable", 0), spec.get("minSuccess")
    if total == 0:
        return RUNNING  # scaled down to nothing, for now
    if wanted is not None and counts.succeeded >= wanted:
        return COMPLETED
    if counts.succeeded + counts.failed == total:
        tasks = spec.get("tasks") or ()
        if least >= sum(task_minimum(task) for task in tasks):
            for task in tasks:
                done = counts.tasks.get(task["name"])
                if done is not None and done.get("Succeeded", 0) < task_minimum(task):
                    return FAILED
        if wanted is not None:
            return FAILED
        return COMPLETED if counts.succeeded >= least else FAILED
    return PENDING if counts.pending > total - least else RUNNING


def replicas(spec: Mapping[str, Any]) -> int:
    """All pods of a Job."""
    return sum(task.get("replicas") or 0 for task in spec.get("tasks") or ())


def task_minimum(task: Mapping[str, Any]) -> int:
    """How many pods of a task must run, or end well."""
    least = task.get("minAvailable")
    return int(task.get("replicas") or 0) if least is None else int(least)


def max_retry(spec: Mapping[str, Any]) -> int:
    """After how many retries a Job has failed."""
    return int(spec.get("maxRetry") or 3)
