"""Which run of a CronJob is due, which Jobs are its runs, and which old Jobs are deleted. Pure: time is an argument.

The name of a run's Job is derived from its scheduled time, so each run is created once. Only the latest of several
missed runs is started. Rules and messages are upstream's (`pkg/controller/cronjob`, 1.36). A schedule without a time
zone uses UTC, so that all masters agree.
"""

import datetime as dt
import zoneinfo
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import cron, meta, times
from rota.api.cron import Schedule
from rota.api.meta import Object

SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: More missed runs than this cause a warning event.
MANY: Final = 100
#: Allowance for clock skew between machines; a timer that fires too early would wait for the next scheduled time.
_SLACK_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """The kind of the Jobs that a CronJob makes."""

    api_version: str
    target: tuple[str, str, str]
    #: `Complete` or `Failed` for a Job that has finished, else empty.
    end_of: Callable[[Mapping[str, Any]], str]
    #: When a Job succeeded; empty if it has not, or if its status does not say.
    completed_at: Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """The latest run that should have started."""

    at: float
    #: Whether more than `MANY` runs were missed.
    many: bool


def zone(cron_job: Object) -> dt.tzinfo:
    """The time zone of a schedule; `ValueError` or `ZoneInfoNotFoundError` if it is unknown."""
    name = cron_job["spec"].get("timeZone")
    return dt.UTC if name is None else zoneinfo.ZoneInfo(name)


def due(cron_job: Object, schedule: Schedule, place: dt.tzinfo, *, now: float) -> Due | None:
    """The run that is due now; None if there is none."""
    since = _since(cron_job)
    deadline = cron_job["spec"].get("startingDeadlineSeconds")
    if deadline is not None:
        since = max(since, now - float(deadline))
    return _latest(schedule, place, since=since, now=now)


def next_in_s(cron_job: Object, schedule: Schedule, place: dt.tzinfo, *, now: float) -> float | None:
    """Seconds until the CronJob must be reconciled; None if its schedule has no more times."""
    since = _since(cron_job)
    latest = _latest(schedule, place, since=since, now=now)
    if isinstance(schedule, cron.Every):
        following = schedule.after(since if latest is None else latest.at, place)
    else:
        following = schedule.after(now, place)
    return None if following is None else max(following - now, 0.0) + _SLACK_S


def name(cron_job: Object, at: float) -> str:
    """The name of a run's Job."""
    return f"{meta.name(cron_job)}-{int(at // 60)}"


def job(cron_job: Object, at: float, place: dt.tzinfo, kind: JobKind) -> Object:
    """The Job of a run."""
    template = cron_job["spec"].get("jobTemplate") or {}
    made = template.get("metadata") or {}
    stamp = dt.datetime.fromtimestamp(at, place).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": kind.api_version,
        "kind": "Job",
        "metadata": {
            "name": name(cron_job, at),
            "namespace": meta.namespace(cron_job),
            "labels": dict(made.get("labels") or {}),
            "annotations": {**(made.get("annotations") or {}), SCHEDULED_AT: stamp},
            "ownerReferences": [meta.controller_reference(cron_job)],
        },
        "spec": template.get("spec") or {},
    }


def scheduled_at(one: Object) -> float | None:
    """The scheduled time of a Job; None for one that was created manually."""
    stamp = meta.annotations(one).get(SCHEDULED_AT, "")
    try:
        return times.parse(stamp)
    except times.TimeError:
        return None


def reference(one: Object, kind: JobKind) -> dict[str, Any]:
    """The reference to a Job in a CronJob's status."""
    metadata = meta.metadata(one)
    return {
        "kind": "Job",
        "namespace": meta.namespace(one),
        "name": meta.name(one),
        "uid": meta.uid(one),
        "apiVersion": kind.api_version,
        "resourceVersion": str(metadata.get("resourceVersion", "")),
    }


def end_of(one: Mapping[str, Any]) -> str:
    """The condition type with which a Job has finished; empty if it has not."""
    return next((kind for kind in ("Complete", "Failed") if meta.is_condition_true(one, kind)), "")


def _completion(one: Mapping[str, Any]) -> str:
    return str((one.get("status") or {}).get("completionTime") or "") if end_of(one) == "Complete" else ""


#: Kubernetes' own Jobs.
NATIVE: Final = JobKind(api_version="batch/v1", target=("batch", "v1", "jobs"), end_of=end_of, completed_at=_completion)


def outlived(cron_job: Object, jobs: Iterable[Object], kind: JobKind) -> list[Object]:
    """The oldest finished Jobs beyond the history limits."""
    ended, spec, found = list(jobs), cron_job["spec"], list[Object]()
    for end, setting in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        if (limit := spec.get(setting)) is not None:
            some = sorted((one for one in ended if kind.end_of(one) == end), key=_began)
            found += some[: max(len(some) - int(limit), 0)]
    return found


def _began(one: Object) -> tuple[bool, str, str]:
    start = (one.get("status") or {}).get("startTime") or meta.metadata(one).get("creationTimestamp")
    return start is None, start or "", meta.name(one)


def _since(cron_job: Object) -> float:
    last = (cron_job.get("status") or {}).get("lastScheduleTime")
    return times.parse(last or meta.metadata(cron_job)["creationTimestamp"])


def _latest(schedule: Schedule, place: dt.tzinfo, *, since: float, now: float) -> Due | None:
    """The last scheduled time after one time and not after another."""
    if isinstance(schedule, cron.Every):
        start = since // 1
        passed = int((now - start) // schedule.seconds)
        return Due(at=start + passed * schedule.seconds, many=passed > MANY) if passed > 0 else None
    found = _run(schedule, place, since=since, now=now)
    if not found:
        return None
    if len(found) <= MANY:
        return Due(at=found[-1], many=False)
    back_s = 60.0
    while not (late := _run(schedule, place, since=now - back_s, now=now)):
        back_s *= 2
    return Due(at=late[-1], many=True)


def _run(schedule: cron.Calendar, place: dt.tzinfo, *, since: float, now: float) -> Sequence[float]:
    """The scheduled times between two times, in order; the number is bounded."""
    found: list[float] = []
    at = schedule.after(since, place)
    while at is not None and at <= now and len(found) <= MANY:
        found.append(at)
        at = schedule.after(at, place)
    return found
