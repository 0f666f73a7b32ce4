"""The result of one attempt of a step run, from its pod or Job, and when the next attempt follows. Pure.

An attempt lost to a disruption (a dead node, a drain, a preemption) is repeated at once and does not count as a retry;
after repeated disruptions there is a pause. A failed attempt is repeated up to the step's `retries`, with growing
pauses.
"""

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rota.api import gangs, meta
from rota.api.meta import Object
from rota.api.pipelines.object_names import STEP_LABEL

#: Limit of all outputs of a step together.
MOST_BYTES: Final = 64 * 1024
_FACTOR, _INITIAL_S, _MOST_S = 2, 1, 300
#: This many disruptions are retried at once; after more of them there is a pause, up to the longest.
_AT_ONCE, _LONGEST_S = 5, 60
#: The condition of a pod that is lost to a disruption; and reasons of its end that count as one.
DISRUPTION: Final = "DisruptionTarget"
_NOT_ITS_FAULT: Final = frozenset({"NodeLost", "Evicted", "Preempting", "NodeShutdown", "Terminated", "NodeAffinity"})


class End(enum.Enum):
    """How an attempt ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    #: Lost to a disruption.
    DISRUPTED = "Disrupted"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of an attempt, and the reason."""

    end: End
    reason: str = ""
    message: str = ""


def end_of(attempt: Object) -> Ended | None:
    """How a pod or Job ended; None while it runs."""
    return _end_of_job(attempt) if attempt.get("kind") == "Job" else _end_of_pod(attempt)


def _end_of_pod(pod: Object) -> Ended | None:
    status = pod.get("status") or {}
    phase = status.get("phase")
    if phase == "Succeeded":
        return Ended(End.SUCCEEDED)
    if phase == "Failed":
        if (lost := _disruption(pod)) is not None:
            return lost
        reason = status.get("reason") or ""
        if reason in _NOT_ITS_FAULT:
            return Ended(End.DISRUPTED, reason, status.get("message") or "")
        return Ended(End.FAILED, reason or _why(status), status.get("message") or _how(status))
    return None


def end_of_gang(job: Ended, pods: Sequence[Object], *, disruption: Ended | None = None) -> Ended:
    """How a gang ended, from the end of its Job, its pods, and a disruption of a pod that may be gone.

    A disruption of one pod makes others fail that talk to it, and one of those may have ended the Job. So any
    disruption explains the end; otherwise the failed pod with the lowest number does.
    """
    if job.end is not End.FAILED:
        return job
    numbered = sorted(pods, key=lambda one: int(meta.labels(one).get(gangs.INDEX_LABEL) or 0))
    if lost := next(filter(None, (*map(disruption_in_gang, numbered), disruption)), None):
        return lost
    for pod in numbered:
        if not meta.is_deleting(pod) and (failed := _end_of_pod(pod)) is not None and failed.end is End.FAILED:
            return _of_process(pod, failed)
    return job


def disruption_in_gang(pod: Object) -> Ended | None:
    """The disruption of a pod of a gang of a step, if it is lost to one."""
    labels = meta.labels(pod)
    if gangs.INDEX_LABEL not in labels or STEP_LABEL not in labels:
        return None
    lost = _disruption(pod) or _end_of_pod(pod)
    return None if lost is None or lost.end is not End.DISRUPTED else _of_process(pod, lost)


def _of_process(pod: Object, ended: Ended) -> Ended:
    number = meta.labels(pod).get(gangs.INDEX_LABEL, "")
    return replace(ended, message=f"process {number}: {ended.message or ended.reason}")


def _disruption(pod: Object) -> Ended | None:
    found = meta.condition(pod, DISRUPTION)
    if found is None or found.get("status") != "True":
        return None
    return Ended(End.DISRUPTED, found.get("reason") or "Disrupted", found.get("message") or "")


def _end_of_job(job: Object) -> Ended | None:
    if meta.is_condition_true(job, "Complete"):
        return Ended(End.SUCCEEDED)
    failed = meta.condition(job, "Failed")
    if failed is not None and failed.get("status") == "True":
        return Ended(End.FAILED, failed.get("reason") or "Failed", failed.get("message") or "")
    return None


def _terminated(status: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    ended = [(one.get("name", ""), (one.get("state") or {}).get("terminated")) for one in every]
    return [(name, state) for name, state in ended if state]


def _why(status: Mapping[str, Any]) -> str:
    return next((state.get("reason") or "Error" for _, state in _terminated(status) if state.get("exitCode")), "Error")


def _how(status: Mapping[str, Any]) -> str:
    for name, state in _terminated(status):
        if state.get("exitCode"):
            said = (state.get("message") or "").strip()
            return f"container {name} ended with code {state['exitCode']}" + (f": {said[-500:]}" if said else "")
    return ""


def pause_s(retries: Mapping[str, Any], failures: int) -> float | None:
    """The pause before the next attempt after this many failures; None if there is none."""
    if failures > (retries.get("limit") or 0):
        return None
    initial, most = retries.get("initialSeconds") or _INITIAL_S, retries.get("maxSeconds") or _MOST_S
    factor = retries.get("factor") or _FACTOR
    # the exponent is bounded, so that the number stays small
    return float(min(most, initial * factor ** min(failures - 1, 32)))


def pause_after_disruption_s(disruptions: int) -> float:
    """The pause before an attempt after disruptions: 0, unless there were many of them."""
    if disruptions <= _AT_ONCE:
        return 0.0
    return float(min(_LONGEST_S, 2 ** min(disruptions - _AT_ONCE, 32)))


def outputs(declared: Sequence[Mapping[str, Any]], *, file: str, stdout: str) -> tuple[dict[str, str], list[str]]:
    """The values of a step's outputs, and the names of missing ones.

    `file` is the content of the step's outputs file: lines `NAME=VALUE`, or one JSON object.
    """
    written = _written(file)
    lines = stdout.rstrip("\n").splitlines()
    found: dict[str, str] = {}
    missing: list[str] = []
    for one in declared:
        name = one["name"]
        value = (lines[-1] if lines else None) if one.get("from") == "stdout" else written.get(name)
        if value is None:
            value = one.get("default")
        if value is None:
            missing.append(name)
        else:
            found[name] = value
    return found, missing


def _written(text: str) -> dict[str, str]:
    stripped = text.strip()
    if stripped.startswith("{"):
        try:
            read = json.loads(stripped)
        except (ValueError, RecursionError):
            return {}
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in read.items()}
    pairs = (line.partition("=") for line in stripped.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}
