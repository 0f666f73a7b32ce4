"""The status of a Deployment: counts and the conditions Available and Progressing. Pure: time is an argument.

Conditions, reasons and messages are upstream's (`pkg/controller/deployment/progress.go` and `sync.go`, 1.36): clients
such as `kubectl rollout status` wait for them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rota.api import meta, times
from rota.api.meta import Object
from rota.controllers.deployments import sizes
from rota.controllers.deployments.revisions import Sets

PROGRESSING: Final = "Progressing"
#: The value of `progressDeadlineSeconds` that means no deadline.
_NEVER: Final = 2**31 - 1
_COMPLETE: Final = "NewReplicaSetAvailable"
_TIMED_OUT: Final = "ProgressDeadlineExceeded"
_PAUSED: Final = "DeploymentPaused"

Conditions = Sequence[Mapping[str, Any]]


def has_deadline(deployment: Object) -> bool:
    """Whether the Deployment has a progress deadline."""
    return deployment["spec"].get("progressDeadlineSeconds") not in {None, _NEVER}


def with_condition(present: Conditions, new: Mapping[str, str], *, now: float) -> list[dict[str, Any]]:
    """The conditions with one set; one of the same status and reason is kept."""
    old = next((one for one in present if one.get("type") == new["type"]), None)
    if old is not None and (old.get("status"), old.get("reason")) == (new["status"], new["reason"]):
        return [dict(one) for one in present]
    return _replaced(present, new, now=now)


def progressing(status: str, reason: str, message: str) -> dict[str, str]:
    """A Progressing condition."""
    return {"type": PROGRESSING, "status": status, "reason": reason, "message": message}


def count(deployment: Object, sets: Sets, *, now: float) -> dict[str, Any]:
    """The counts and the Available condition."""
    every, old = [one.get("status") or {} for one in sets.every], deployment.get("status") or {}
    ready = _total(every, "availableReplicas")
    numbers = {
        "replicas": _total(every, "replicas"),
        "updatedReplicas": _total([(sets.new or {}).get("status") or {}], "replicas"),
        "readyReplicas": _total(every, "readyReplicas"),
        "availableReplicas": ready,
        "unavailableReplicas": max(sum(map(sizes.replicas, sets.every)) - ready, 0),
    }
    enough = ready >= sizes.replicas(deployment) - sizes.unavailable(deployment)
    availability = {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    }
    status: dict[str, Any] = {
        "observedGeneration": meta.metadata(deployment).get("generation", 0),
        **{name: number for name, number in numbers.items() if number},
        "conditions": with_condition(old.get("conditions") or (), availability, now=now),
    }
    if all("terminatingReplicas" in one for one in every if one.get("observedGeneration")):
        status["terminatingReplicas"] = _total(every, "terminatingReplicas")
    if old.get("collisionCount") is not None:
        status["collisionCount"] = old["collisionCount"]
    return status


def of_rollout(deployment: Object, sets: Sets, *, now: float) -> dict[str, Any]:
    """The counts and the Progressing condition of a rollout."""
    status = count(deployment, sets, now=now)
    conditions = status["conditions"]
    if not has_deadline(deployment):
        conditions = meta.without_condition(conditions, PROGRESSING)
    elif not _was_complete(deployment, status):
        conditions = _with_progress(deployment, sets, status, now=now)
    failure = _failure(sets)
    if failure is None:
        conditions = meta.without_condition(conditions, "ReplicaFailure")
    else:
        conditions = with_condition(conditions, failure, now=now)
    return {**status, "conditions": conditions}


def of_pause(deployment: Object, *, now: float) -> list[dict[str, Any]] | None:
    """The conditions of a Deployment that was just paused or resumed; the pause does not count against the deadline."""
    if not has_deadline(deployment):
        return None
    reason = (meta.condition(deployment, PROGRESSING) or {}).get("reason")
    paused = bool(deployment["spec"].get("paused"))
    if reason == _TIMED_OUT or paused == (reason == _PAUSED):
        return None
    if paused:
        new = progressing("Unknown", _PAUSED, "Deployment is paused")
    else:
        new = progressing("Unknown", "DeploymentResumed", "Deployment is resumed")
    return with_condition(meta.conditions(deployment), new, now=now)


def is_complete(deployment: Object, status: Mapping[str, Any]) -> bool:
    """Whether all desired pods are new and available and no old pods exist."""
    wanted = sizes.replicas(deployment)
    names = ("updatedReplicas", "replicas", "availableReplicas")
    current = int(status.get("observedGeneration") or 0) >= int(meta.metadata(deployment).get("generation") or 0)
    return current and all(int(status.get(name) or 0) == wanted for name in names)


def times_out_in_s(deployment: Object, status: Mapping[str, Any], *, now: float) -> float | None:
    """Seconds until a rollout without progress exceeds its deadline; None if there is no deadline to wait for."""
    condition = next((one for one in status.get("conditions") or () if one.get("type") == PROGRESSING), None)
    if not has_deadline(deployment) or condition is None or is_complete(deployment, status):
        return None
    if condition.get("reason") in {_TIMED_OUT, _COMPLETE, _PAUSED}:
        return None
    late_at = times.parse(condition["lastUpdateTime"]) + float(deployment["spec"]["progressDeadlineSeconds"])
    return max(late_at - now, 0.0) + 1


def _was_complete(deployment: Object, status: Mapping[str, Any]) -> bool:
    """Whether the last rollout has finished and no other has started."""
    reason = (meta.condition(deployment, PROGRESSING) or {}).get("reason")
    return reason == _COMPLETE and status.get("replicas", 0) == status.get("updatedReplicas", 0)


def _with_progress(deployment: Object, sets: Sets, status: Mapping[str, Any], *, now: float) -> list[dict[str, Any]]:
    conditions: Conditions = status["conditions"]
    who = f'Deployment "{meta.name(deployment)}"' if sets.new is None else f'ReplicaSet "{meta.name(sets.new)}"'
    if is_complete(deployment, status):
        return with_condition(
            conditions, progressing("True", _COMPLETE, f"{who} has successfully progressed."), now=now
        )
    if _gets_on(deployment.get("status") or {}, status):
        # Written again each time: the deadline counts from the last progress.
        new = progressing("True", "ReplicaSetUpdated", f"{who} is progressing.")
        return _replaced(conditions, new, now=now)
    if _is_late(deployment, now=now):
        return with_condition(
            conditions, progressing("False", _TIMED_OUT, f"{who} has timed out progressing."), now=now
        )
    return [dict(one) for one in conditions]


def _gets_on(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    def number(status: Mapping[str, Any], name: str) -> int:
        return int(status.get(name) or 0)

    def leftover(status: Mapping[str, Any]) -> int:
        return number(status, "replicas") - number(status, "updatedReplicas")

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return leftover(new) < leftover(old) or any(number(new, name) > number(old, name) for name in grown)


def _is_late(deployment: Object, *, now: float) -> bool:
    condition = meta.condition(deployment, PROGRESSING)
    if condition is None or condition.get("reason") == _COMPLETE:
        return False
    if condition.get("reason") == _TIMED_OUT:
        return True
    return times.parse(condition["lastUpdateTime"]) + float(deployment["spec"]["progressDeadlineSeconds"]) < now


def _failure(sets: Sets) -> dict[str, str] | None:
    """Why pods could not be created or deleted; the new set's failure comes first."""
    ordered = sets.every if sets.new is None else (sets.new, *sets.old)
    for one in ordered:
        if (found := meta.condition(one, "ReplicaFailure")) is not None:
            return {name: str(found.get(name) or "") for name in ("type", "status", "reason", "message")}
    return None


def _replaced(present: Conditions, new: Mapping[str, str], *, now: float) -> list[dict[str, Any]]:
    """The conditions with one replaced and moved to the end."""
    stamp = times.format_time(now)
    old = next((one for one in present if one.get("type") == new["type"]), None)
    since = old.get("lastTransitionTime") if old is not None and old.get("status") == new["status"] else None
    made = {**new, "lastUpdateTime": stamp, "lastTransitionTime": since or stamp}
    return [*meta.without_condition(present, new["type"]), made]


def _total(statuses: Sequence[Mapping[str, Any]], name: str) -> int:
    return sum(int(one.get(name) or 0) for one in statuses)
