"""Lifecycle policies of a Job: which action follows which event, and whether a list of policies is valid.

Events and actions have upstream's names. A policy names events, or an exit code of a container; the first policy that
matches decides, and policies of a task are asked before those of the job.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rota.api import durations, fields

ANY: Final = "*"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
POD_PENDING: Final = "PodPending"
UNKNOWN: Final = "Unknown"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
JOB_UPDATED: Final = "JobUpdated"
EVENTS: Final = (
    ANY,
    POD_FAILED,
    POD_EVICTED,
    POD_PENDING,
    UNKNOWN,
    TASK_COMPLETED,
    TASK_FAILED,
    JOB_UPDATED,
)

ABORT_JOB: Final = "AbortJob"
RESTART_JOB: Final = "RestartJob"
RESTART_TASK: Final = "RestartTask"
RESTART_POD: Final = "RestartPod"
RESTART_PARTITION: Final = "RestartPartition"
TERMINATE_JOB: Final = "TerminateJob"
COMPLETE_JOB: Final = "CompleteJob"
RESUME_JOB: Final = "ResumeJob"
SYNC_JOB: Final = "SyncJob"
OPEN_QUEUE: Final = "OpenQueue"
CLOSE_QUEUE: Final = "CloseQueue"
ACTIONS: Final = (
    ABORT_JOB,
    RESTART_JOB,
    RESTART_TASK,
    RESTART_POD,
    RESTART_PARTITION,
    TERMINATE_JOB,
    COMPLETE_JOB,
    RESUME_JOB,
)


def events(policy: Mapping[str, Any]) -> tuple[str, ...]:
    """The events of a policy."""
    single = policy.get("event")
    return (*((single,) if single else ()), *(policy.get("events") or ()))


def timeout_s(policy: Mapping[str, Any]) -> float:
    """How long after its event a policy acts."""
    return durations.duration(str(policy.get("timeout") or "0")) or 0.0


def matching(policies: Iterable[Mapping[str, Any]], event: str, exit_code: int | None) -> Mapping[str, Any] | None:
    """The first policy for an event, or for the exit code that came with it."""
    for policy in policies:
        named = events(policy)
        if named and (event in named or ANY in named):
            return policy
        if policy.get("exitCode") is not None and policy["exitCode"] == exit_code:
            return policy
    return None


def check(policies: Sequence[Mapping[str, Any]], path: fields.Path) -> list[fields.FieldError]:
    """All errors of a list of policies."""
    found: list[fields.FieldError] = []
    seen: set[str] = set()
    codes: set[int] = set()
    for position, policy in enumerate(policies):
        at, named, code = path.index(position), events(policy), policy.get("exitCode")
        if named and code is not None:
            found.append(fields.forbidden(at, "must not specify event and exitCode simultaneously"))
        if not named and code is None:
            found.append(fields.required(at, "either event or exitCode must be specified"))
        if policy.get("action") not in ACTIONS:
            found.append(fields.not_supported(at.child("action"), policy.get("action", ""), ACTIONS))
        found += _check_events(policy, named, seen, at)
        if code == 0:
            found.append(fields.invalid(at.child("exitCode"), 0, "0 is not a valid error code"))
        elif code is not None and code in codes:
            found.append(fields.duplicate(at.child("exitCode"), code))
        if code is not None:
            codes.add(code)
    if ANY in seen and len(seen) > 1:
        found.append(fields.forbidden(path, "if there is * here, no other event may be here"))
    return found


def _check_events(
    policy: Mapping[str, Any], named: Sequence[str], seen: set[str], at: fields.Path
) -> list[fields.FieldError]:
    found: list[fields.FieldError] = []
    where = at.child("event" if policy.get("event") else "events")
    for event in named:
        if event not in EVENTS:
            found.append(fields.not_supported(where, event, EVENTS))
        elif event in seen:
            found.append(fields.duplicate(where, event))
        seen.add(event)
    timeout = policy.get("timeout")
    if timeout is not None and durations.duration(timeout) is None:
        found.append(fields.invalid(at.child("timeout"), timeout, 'must be a duration such as "30s"'))
    elif POD_PENDING in named and not timeout_s(policy):
        found.append(fields.required(at.child("timeout"), f"{POD_PENDING} needs a timeout"))
    return found
