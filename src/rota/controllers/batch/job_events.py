"""What has happened to the pods of a Job, and which action its policies take. Pure; time is an argument.

Events follow from the present state, so that they are found again after a restart of the controller. Two are known only
to a controller that saw them: a pod that vanished at once, and a changed spec; the caller hands them in. An action with
a timeout is due that long after its event, if the state that caused it still holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times
from rota.api.batch import kinds, policies
from rota.api.meta import Object
from rota.controllers.batch import job_phases

_ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """Something that policies may act on."""

    event: str
    since: float
    #: The task and the pod, if it is about them.
    task: str = ""
    pod: str = ""
    partition: str = ""
    exit_code: int | None = None
    #: The pod's uid, by which an eviction is acted on once.
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The action that is due, and what caused it; without one, when to look again."""

    action: str = ""
    cause: Occurrence | None = None
    again_in_s: float | None = None


def occurrences(
    job: Object, pods: Sequence[Object], group: Object | None, *, seen: Iterable[Occurrence], now: float
) -> list[Occurrence]:
    """All events that hold now; `seen` are those that only the caller knows."""
    version = (job.get("status") or {}).get("version") or 0
    found = [*_of_pods(job, [one for one in pods if version_of(one) == version], now=now)]
    running = {meta.name(one) for one in pods if not meta.is_deleting(one) and _phase(one) == "Running"}
    found += [one for one in seen if one.pod not in running]
    if ((group or {}).get("status") or {}).get("phase") == "Unknown":
        found.append(Occurrence(event=policies.UNKNOWN, since=now))
    return found


def _of_pods(job: Object, pods: Sequence[Object], *, now: float) -> Iterable[Occurrence]:
    tasks = {task["name"]: task for task in job["spec"].get("tasks") or ()}
    by_task: dict[str, list[Object]] = {name: [] for name in tasks}
    for pod in pods:
        name = task_of(pod)
        if name not in tasks:
            continue
        if meta.is_deleting(pod):
            if _phase(pod) not in _ENDED and index_of(pod) < (tasks[name].get("replicas") or 0):
                yield _about(pod, policies.POD_EVICTED, _deleted_at(pod, now), uid=meta.uid(pod))
            continue
        by_task[name].append(pod)
        if _phase(pod) == "Failed":
            yield _about(pod, policies.POD_FAILED, _ended_at(pod, now), exit_code=exit_code(pod))
        elif _phase(pod) in ("", "Pending"):
            yield _about(pod, policies.POD_PENDING, times.parse(meta.metadata(pod)["creationTimestamp"]))
    for name, some in by_task.items():
        total, limit = tasks[name].get("replicas") or 0, tasks[name].get("maxRetry") or 0
        if total and sum(_phase(one) == "Succeeded" for one in some) >= total:
            yield Occurrence(event=policies.TASK_COMPLETED, since=now, task=name)
        if limit > 0 and sum(_restarts(one) for one in some if _phase(one) not in _ENDED) >= limit:
            yield Occurrence(event=policies.TASK_FAILED, since=now, task=name)


def verdict(job: Object, found: Iterable[Occurrence], *, now: float) -> Verdict:
    """The first action that is due: that of the earliest event."""
    own = job["spec"].get("policies") or ()
    of_tasks = {task["name"]: task.get("policies") or () for task in job["spec"].get("tasks") or ()}
    waits: list[float] = []
    for one in sorted(found, key=lambda one: one.since):
        chosen = policies.matching(of_tasks.get(one.task, ()), one.event, one.exit_code) or policies.matching(
            own, one.event, one.exit_code
        )
        # A pod that waits is an event only to a policy that names it with a timeout.
        if chosen is None or (one.event == policies.POD_PENDING and one.event not in policies.events(chosen)):
            continue
        due_in_s = one.since + policies.timeout_s(chosen) - now
        if due_in_s <= 0:
            return Verdict(action=chosen["action"], cause=one)
        waits.append(due_in_s)
    return Verdict(again_in_s=min(waits, default=None))


def targets(action: str, cause: Occurrence | None, pods: Sequence[Object]) -> list[Object]:
    """The pods that a targeted restart stops."""
    if cause is None or action not in job_phases.TARGETED:
        return []
    of_task = [one for one in pods if task_of(one) == cause.task]
    if action == policies.RESTART_POD:
        return [one for one in of_task if meta.name(one) == cause.pod]
    if action == policies.RESTART_PARTITION:
        return [one for one in of_task if meta.labels(one).get(kinds.PARTITION, "") == cause.partition]
    return of_task


def evicted(pod: Object, *, now: float) -> Occurrence:
    """The event of a pod that vanished."""
    return _about(pod, policies.POD_EVICTED, now, uid=meta.uid(pod))


def task_of(pod: Object) -> str:
    """The task of a pod."""
    return meta.annotations(pod).get(kinds.TASK_SPEC, "")


def index_of(pod: Object) -> int:
    """The number of a pod in its task."""
    text = meta.name(pod).rpartition("-")[2]
    return int(text) if text.isdigit() else 0


def version_of(pod: Object) -> int:
    """The version of the Job for which a pod was made."""
    text = meta.annotations(pod).get(kinds.JOB_VERSION, "")
    return int(text) if text.isdigit() else 0


def exit_code(pod: Object) -> int | None:
    """The exit code of a pod's first container, as upstream reads it."""
    first: Mapping[str, Any] = next(iter((pod.get("status") or {}).get("containerStatuses") or ()), {})
    ended = (first.get("state") or {}).get("terminated") or {}
    code = ended.get("exitCode")
    return None if code is None else int(code)


def _about(pod: Object, event: str, since: float, *, exit_code: int | None = None, uid: str = "") -> Occurrence:
    return Occurrence(
        event=event,
        since=since,
        task=task_of(pod),
        pod=meta.name(pod),
        partition=meta.labels(pod).get(kinds.PARTITION, ""),
        exit_code=exit_code,
        uid=uid,
    )


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _restarts(pod: Object) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return sum(int(one.get("restartCount") or 0) for one in statuses)


def _ended_at(pod: Object, now: float) -> float:
    ends = [
        ((one.get("state") or {}).get("terminated") or {}).get("finishedAt")
        for one in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    return max((times.parse(end) for end in ends if end), default=now)


def _deleted_at(pod: Object, now: float) -> float:
    grace = float(meta.metadata(pod).get("deletionGracePeriodSeconds") or 0)
    return min(times.parse(meta.metadata(pod)["deletionTimestamp"]) - grace, now)
