"""The next step of a Job: finish, wait, create pods or delete some. Pure: time is an argument.

Order and messages are upstream's (`syncJob`, `manageJob` in `pkg/controller/job`, 1.36): earlier decisions stand,
failures precede successes, and after a failed pod the next one is delayed by 10 s, then 20 s, up to 10 min.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rota.api import jobs, meta, times
from rota.api.meta import Object
from rota.controllers import pod_states
from rota.controllers.jobs import pod_failure_policy
from rota.controllers.jobs.indexes import Indexes
from rota.controllers.jobs.job_accounting import (
    FAILURES,
    IGNORED_FAILURES,
    Tally,
    ended_at,
    failures_of,
    has_failed,
    has_limit_per_index,
    index_of,
    is_indexed,
    is_suspended,
    replaces_only_failed,
)

FAILURE: Final = "FailureTarget"
SUCCESS: Final = "SuccessCriteriaMet"
#: Pods that are created or deleted in one round.
BURST: Final = 500


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a Job ends; the type is that of the condition that announces it."""

    type: str
    reason: str
    message: str


COMPLETED: Final = Ending(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The delay of new pods after failures."""

    failures: int = 0
    last_at: float = 0.0

    def after(self, view: Tally) -> "Backoff":
        """The backoff after newly ended pods."""
        failures = sorted(ended_at(one) for one in view.new_failed if pod_failure_policy.judge(view.job, one).delays)
        if not view.new_succeeded:
            if not failures:
                return self
            return Backoff(failures=self.failures + len(failures), last_at=failures[-1])
        last_success = max(ended_at(one) for one in view.new_succeeded)
        since = [at for at in failures if at > last_success]
        return Backoff(failures=len(since), last_at=since[-1]) if since else Backoff()

    def remaining_s(self, job: Object, now: float) -> float:
        """Remaining seconds from now."""
        return _remaining_s(job, self.failures, self.last_at, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The pods to create and delete."""

    #: Deleted pods, which do not count as failures.
    given_up: tuple[Object, ...] = ()
    #: One entry per pod to create: its index, if the Job is indexed.
    made: tuple[int | None, ...] = ()
    #: Seconds until backoff allows the next pods; None if none are delayed.
    again_in_s: float | None = None


def ending(view: Tally, *, now: float) -> Ending | None:
    """Why the Job ends, if it does; completion is decided after its pods were managed."""
    job = view.job
    for announced in (SUCCESS, FAILURE):
        condition = meta.condition(job, announced)
        if condition is not None and condition.get("status") == "True":
            return Ending(announced, str(condition.get("reason") or ""), str(condition.get("message") or ""))
    return _failure(view, now=now) or _early_success(view)


def _failure(view: Tally, *, now: float) -> Ending | None:
    job, spec = view.job, view.job["spec"]
    for pod in view.pods:
        if has_failed(job, pod) and (message := pod_failure_policy.judge(job, pod).fails_job):
            return Ending(FAILURE, "PodFailurePolicy", message)
    if view.failed > int(spec.get("backoffLimit", 6)) or _restarts_too_often(view):
        return Ending(FAILURE, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = deadline_in_s(job, now=now)
    if left is not None and left <= 0:
        return Ending(FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline")
    if has_limit_per_index(job) and view.failed_indexes:
        most, lost = spec.get("maxFailedIndexes"), len(view.failed_indexes)
        if most is not None and lost > most:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return Ending(FAILURE, "MaxFailedIndexesExceeded", message)
        if lost + len(view.succeeded_indexes) >= int(spec["completions"]):
            return Ending(FAILURE, "FailedIndexes", "Job has failed indexes")
    return None


def _early_success(view: Tally) -> Ending | None:
    message = pod_failure_policy.success(view.job, view.succeeded_indexes) if is_indexed(view.job) else None
    return None if message is None else Ending(SUCCESS, "SuccessPolicy", message)


def is_complete(view: Tally, *, active: int) -> bool:
    """Whether all completions are reached and no pod runs."""
    completions = view.job["spec"].get("completions")
    return active == 0 and view.succeeded >= (1 if completions is None else int(completions))


def deadline_in_s(job: Object, *, now: float) -> float | None:
    """Remaining seconds of `activeDeadlineSeconds`; None without a deadline or while the Job does not run."""
    seconds, start = job["spec"].get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
    if seconds is None or start is None or is_suspended(job):
        return None
    return times.parse(start) + float(seconds) - now


def changes(view: Tally, backoff: Backoff, *, now: float) -> Changes:
    """The pods to create and delete, for a Job that continues."""
    job, spec = view.job, view.job["spec"]
    if is_suspended(job):
        return Changes(given_up=view.active)
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    if completions is None:
        wanted = len(view.active) if view.succeeded else parallelism
    else:
        wanted = max(min(int(completions) - view.succeeded, parallelism), 0)
    surplus = _surplus(view, len(view.active) - wanted, now=now)
    if surplus:
        return Changes(given_up=tuple(surplus[:BURST]))
    leaving = len(view.terminating) if replaces_only_failed(job) else 0
    missing = min(wanted - len(view.active) - leaving, BURST)
    if missing <= 0:
        return Changes()
    if not has_limit_per_index(job) and (wait := backoff.remaining_s(job, now)) > 0:
        return Changes(again_in_s=wait)
    if not is_indexed(job):
        return Changes(made=(None,) * missing)
    return _by_index(view, missing, now=now)


def index_failures(view: Tally, index: int) -> dict[str, str]:
    """The annotations with the failure count of a pod's index."""
    before = view.kept.get(index)
    if before is None:
        return {FAILURES: "0"}
    counts = pod_failure_policy.judge(view.job, before).counts
    ignored = failures_of(before, IGNORED_FAILURES) + (not counts)
    found = {FAILURES: str(failures_of(before) + counts)}
    return {**found, IGNORED_FAILURES: str(ignored)} if ignored else found


def _by_index(view: Tally, missing: int, *, now: float) -> Changes:
    job = view.job
    taken = view.succeeded_indexes | view.failed_indexes | _indexes(view.active)
    if replaces_only_failed(job):
        taken |= _indexes(view.terminating)
    free = list(itertools.islice(taken.missing(below=int(job["spec"]["completions"])), missing))
    if not has_limit_per_index(job):
        return Changes(made=tuple(free))
    waits = {index: _index_wait_s(view, index, now=now) for index in free}
    now_possible = tuple(index for index in free if waits[index] <= 0)
    later = [wait for wait in waits.values() if wait > 0]
    return Changes(made=now_possible, again_in_s=min(later, default=None))


def _index_wait_s(view: Tally, index: int, *, now: float) -> float:
    before = view.kept.get(index)
    if before is None or not pod_failure_policy.judge(view.job, before).delays:
        return 0.0
    failures = failures_of(before) + failures_of(before, IGNORED_FAILURES) + 1
    return _remaining_s(view.job, failures, ended_at(before), now)


def _surplus(view: Tally, least: int, *, now: float) -> list[Object]:
    """At least this many active pods to delete; of an indexed Job first duplicates and invalid indexes."""
    if not is_indexed(view.job):
        return pod_states.deletion_order(view.active, max(least, 0), related=(), now=now)
    completions = int(view.job["spec"]["completions"])
    groups: dict[int | None, list[Object]] = {}
    for pod in view.active:
        groups.setdefault(index_of(pod), []).append(pod)
    found: list[Object] = []
    left: list[Object] = []
    for index, pods in groups.items():
        if index is None or index >= completions:
            found += pods
        else:
            found += pod_states.deletion_order(pods, len(pods) - 1, related=(), now=now)
    spared = {meta.uid(one) for one in found}
    left = [one for one in view.active if meta.uid(one) not in spared]
    return found + pod_states.deletion_order(left, max(least - len(found), 0), related=(), now=now)


def _restarts_too_often(view: Tally) -> bool:
    """Whether containers with restart policy OnFailure have restarted more often than `backoffLimit` allows."""
    spec = view.job["spec"]
    if (spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        int(one.get("restartCount") or 0)
        for pod in view.pods
        if pod_states.phase(pod) in {"Running", "Pending"}
        for name in ("initContainerStatuses", "containerStatuses")
        for one in (pod.get("status") or {}).get(name) or ()
    )
    limit = int(spec.get("backoffLimit", 6))
    return restarts > 0 if limit == 0 else restarts >= limit


def _indexes(pods: Sequence[Object]) -> Indexes:
    return Indexes.of(index for one in pods if (index := index_of(one)) is not None)


def _remaining_s(job: Object, failures: int, last_at: float, now: float) -> float:
    if failures == 0:
        return 0.0
    # The exponent is bounded, so that the number stays small.
    delay = min(jobs.first_retry_delay_s(job) * (1 << min(failures - 1, 30)), jobs.LONGEST_RETRY_DELAY_S)
    return max(last_at + delay - now, 0.0)
