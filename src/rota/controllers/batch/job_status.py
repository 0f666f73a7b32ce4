"""The status of a Job: counters, phase, conditions. Pure."""

from collections.abc import Mapping
from typing import Any

from rota.api import durations, meta, times
from rota.api.meta import Object
from rota.controllers.batch import job_phases, job_pods
from rota.controllers.batch.job_phases import Counts
from rota.controllers.batch.plugins import registry


def counted(job: Object, counts: Counts) -> dict[str, Any]:
    """The status with these numbers; zeros are left out, as upstream does."""
    status = dict(job.get("status") or {})
    numbers = {
        "pending": counts.pending,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "terminating": counts.terminating,
        "unknown": counts.unknown,
        "minAvailable": job["spec"].get("minAvailable", 0),
    }
    for name, number in numbers.items():
        if number:
            status[name] = number
        else:
            status.pop(name, None)
    status["taskStatusCount"] = {name: {"phase": dict(found)} for name, found in counts.tasks.items()}
    controlled = {**registry.controlled(job), **job_pods.controlled_claims(job)}
    if controlled:
        status["controlledResources"] = controlled
    return status


def in_phase(status: Mapping[str, Any], phase: str, *, now: float) -> dict[str, Any]:
    """The status after a change of the phase; each phase has one condition, that of its last time."""
    stamp = times.format_time(now)
    before = status.get("conditions") or ()
    made = {
        **status,
        "state": {"phase": phase, "lastTransitionTime": stamp},
        "conditions": [
            *(one for one in before if one.get("status") != phase),
            {"status": phase, "lastTransitionTime": stamp},
        ],
    }
    began = next((one["lastTransitionTime"] for one in before if one.get("status") == job_phases.RUNNING), None)
    if phase in job_phases.FINISHED and began is not None:
        made["runningDuration"] = durations.text(max(now - times.parse(began), 0.0))
    return made


def explained(status: Mapping[str, Any], reason: str, message: str) -> dict[str, Any]:
    """The status with a reason for its phase; without one, none is left."""
    state = {name: value for name, value in (status.get("state") or {}).items() if name not in ("reason", "message")}
    if reason:
        state["reason"] = reason
    if message:
        state["message"] = message
    return {**status, "state": state}


def waits_for(group: Object | None) -> str:
    """Why a group has not been let in or placed, in the scheduler's words."""
    if group is None:
        return ""
    for one in reversed((group.get("status") or {}).get("conditions") or ()):
        if one.get("type") == "Unschedulable" and one.get("status") == "True":
            return str(one.get("message") or one.get("reason") or "")
    queue = (group.get("spec") or {}).get("queue", "")
    return f"the group waits for queue {queue} to let it in"


def phase_of(job: Object) -> str:
    """The phase of a Job; empty if it has none yet."""
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "")


def expires_at(job: Object) -> float | None:
    """When a finished Job is deleted; None if it has no TTL or has not finished."""
    patience = job["spec"].get("ttlSecondsAfterFinished")
    state = (job.get("status") or {}).get("state") or {}
    if patience is None or state.get("phase") not in job_phases.FINISHED or meta.is_deleting(job):
        return None
    return times.parse(state["lastTransitionTime"]) + float(patience)
