"""The status of a group after a pass, as the API server gets it: phase, conditions and counts of pods.

Fields that others write are kept. A condition of the same type is replaced; one that no longer holds gets the status
False, so that a reader never finds Scheduled and Unschedulable true at once.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from rota.api import times
from rota.scheduler.batch.jobs import Job
from rota.scheduler.batch.outcomes import SCHEDULED_CONDITION, UNSCHEDULABLE_CONDITION, Condition
from rota.scheduler.batch.statuses import TaskStatus

_OPPOSITE: Final = {
    SCHEDULED_CONDITION: UNSCHEDULABLE_CONDITION,
    UNSCHEDULABLE_CONDITION: SCHEDULED_CONDITION,
}
_COUNTED: Final = {
    "running": TaskStatus.RUNNING,
    "succeeded": TaskStatus.SUCCEEDED,
    "failed": TaskStatus.FAILED,
}
#: Fields of a condition whose change alone is no change of the condition.
_STAMPS: Final = frozenset({"lastTransitionTime", "transitionID"})


class Change(Enum):
    """How much a status differs from the known one."""

    NONE = auto()
    #: Only words of a message.
    WORDS = auto()
    #: A number of pods.
    COUNT = auto()
    #: The phase, or a condition's type, status or reason.
    STATE = auto()


def updated(
    job: Job, phase: str, condition: Condition | None, *, now: float, transition: str
) -> tuple[Mapping[str, Any], Change]:
    """Give the new status of a group, and how much it differs from the one that the API server has."""
    old: Mapping[str, Any] = job.group.get("status") or {}
    counts = {name: len(job.of(status)) for name, status in _COUNTED.items()}
    conditions, change = _conditions(old.get("conditions") or (), condition, now=now, transition=transition)
    if (old.get("phase") or "") != phase:
        change = Change.STATE
    elif change is not Change.STATE and any((old.get(name) or 0) != number for name, number in counts.items()):
        change = Change.COUNT
    new = {**old, "phase": phase}
    if conditions:
        new["conditions"] = conditions
    new.update({name: number for name, number in counts.items() if number or name in old})
    return new, change


def unschedulable(group: Mapping[str, Any] | None) -> str:
    """Give why a group waits, as its status says; "" if it does not."""
    for each in ((group or {}).get("status") or {}).get("conditions") or ():
        if each.get("type") == UNSCHEDULABLE_CONDITION and each.get("status") == "True":
            return str(each.get("message") or each.get("reason") or "")
    return ""


def _conditions(
    old: list[Mapping[str, Any]] | tuple[()], condition: Condition | None, *, now: float, transition: str
) -> tuple[list[Mapping[str, Any]], Change]:
    kept = list(old)
    if condition is None:
        return kept, Change.NONE
    change = _put(kept, condition, now=now, transition=transition)
    opposite = next((each for each in kept if each.get("type") == _OPPOSITE.get(condition.type)), None)
    if opposite is not None and opposite.get("status") == "True":
        ended = Condition(opposite["type"], opposite.get("reason") or "", opposite.get("message") or "", "False")
        _put(kept, ended, now=now, transition=transition)
        change = Change.STATE
    return kept, change


def _put(kept: list[Mapping[str, Any]], condition: Condition, *, now: float, transition: str) -> Change:
    """Set a condition in a list."""
    said = {"type": condition.type, "status": condition.status, "reason": condition.reason}
    if condition.message:
        said["message"] = condition.message
    stamped = {**said, "lastTransitionTime": times.format_time(now), "transitionID": transition}
    for position, each in enumerate(kept):
        if each.get("type") != condition.type:
            continue
        known = {name: value for name, value in each.items() if name not in _STAMPS and value != ""}
        if known == said:
            return Change.NONE
        kept[position] = stamped
        same = all(known.get(name) == said.get(name) for name in ("status", "reason"))
        return Change.WORDS if same else Change.STATE
    kept.append(stamped)
    return Change.STATE
