"""`podFailurePolicy` and `successPolicy` of Jobs. Pure.

Rules are evaluated in order, as upstream does (`pkg/controller/job`, 1.36). Unlike upstream, a pod with the condition
`DisruptionTarget` that matches no rule is not a failure: it is neither counted nor delays its replacement. A rule with
the action `Count` restores upstream's behaviour.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta
from rota.api.meta import Object
from rota.controllers.jobs.indexes import Indexes

DISRUPTED: Final = "DisruptionTarget"


class Action(enum.Enum):
    """The action of a rule; the values are the API's."""

    FAIL_JOB = "FailJob"
    FAIL_INDEX = "FailIndex"
    IGNORE = "Ignore"
    COUNT = "Count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The effect of a failure."""

    #: Whether it counts against the Job's limits.
    counts: bool = True
    #: Whether it delays the next pod.
    delays: bool = True
    #: Whether it fails the index of the pod, regardless of limits.
    fails_index: bool = False
    #: Why it fails the Job, regardless of limits; empty if it does not.
    fails_job: str = ""


def judge(job: Object, pod: Object) -> Verdict:
    """The effect of a pod's failure."""
    for number, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        reason = _matches(rule, pod)
        if reason is None:
            continue
        match Action(rule["action"]):
            case Action.IGNORE:
                return Verdict(counts=False)
            case Action.FAIL_INDEX:
                return Verdict(fails_index=True)
            case Action.COUNT:
                return Verdict()
            case Action.FAIL_JOB:
                return Verdict(fails_job=f"{reason} matching FailJob rule at index {number}")
    if meta.is_condition_true(pod, DISRUPTED):
        return Verdict(counts=False, delays=False)
    return Verdict()


def _matches(rule: Mapping[str, Any], pod: Object) -> str | None:
    """What a rule matched, for the message; None if it does not match."""
    status = pod.get("status") or {}
    codes = rule.get("onExitCodes")
    if codes is not None:
        for one in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
            code = ((one.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
            if code and codes.get("containerName") in {None, one["name"]} and _is_meant(codes, code):
                return f"Container {one['name']} for pod {meta.qualified_name(pod)} failed with exit code {code}"
        return None
    for condition in meta.conditions(pod):
        for pattern in rule.get("onPodConditions") or ():
            wanted = pattern.get("type"), pattern.get("status") or "True"
            if (condition.get("type"), condition.get("status")) == wanted:
                return f"Pod {meta.qualified_name(pod)} has condition {condition['type']}"
    return None


def _is_meant(codes: Mapping[str, Any], code: int) -> bool:
    return (code in (codes.get("values") or ())) == (codes.get("operator") == "In")


def success(job: Object, succeeded: Indexes) -> str | None:
    """Why a Job succeeds with these completed indexes by its `successPolicy`; None if it does not."""
    if not succeeded:
        return None
    completions = int(job["spec"].get("completions") or 0)
    for number, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        listed, enough = rule.get("succeededIndexes"), rule.get("succeededCount")
        asked = succeeded if listed is None else Indexes.parse(listed, below=completions)
        done = len(succeeded & asked)
        everything = listed is not None and bool(asked) and done == len(asked)
        if everything or (enough is not None and asked and done >= enough):
            return f"Matched rules at index {number}"
    return None
