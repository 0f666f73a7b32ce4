"""What a pod's failure means for its Job, and when a Job may be content with less than all. Pure.

The rules of a Job's `podFailurePolicy` are asked in their order, as upstream does (`pkg/controller/job`, 1.36). A pod
that was lost to a disruption, as its `DisruptionTarget` condition says, and that no rule is about, is no failure: it
is neither counted nor waited for. Upstream counts it; a rule with the action `Count` has that back.
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
    """What a rule says; the values are the API's."""

    FAIL_JOB = "FailJob"
    FAIL_INDEX = "FailIndex"
    IGNORE = "Ignore"
    COUNT = "Count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of a failure."""

    #: Whether it is one of those that the Job's limits are about.
    counts: bool = True
    #: Whether the next pod has to wait for it.
    delays: bool = True
    #: Whether the index of the pod has failed, whatever the limits.
    fails_index: bool = False
    #: Why the Job has failed, whatever the limits; empty if it has not.
    fails_job: str = ""


def judge(job: Object, pod: Object) -> Verdict:
    """What the failure of a pod means."""
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
    """What of a pod a rule is about, in words; None if nothing."""
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
    """Why a Job with these indexes done may be content, by its `successPolicy`; None if it may not."""
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
