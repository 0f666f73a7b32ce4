"""Counts a Job's pods from its status and the pods. Pure.

A pod with the tracking finalizer has not been counted. Its uid is first written to the status
(`uncountedTerminatedPods`), then the finalizer is removed, then the counter is increased and the uid removed. The state
after a crash shows which of these steps were done, so every pod is counted exactly once. The protocol is upstream's
(`pkg/controller/job`, 1.36). Indexes of an indexed Job need no uid.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import meta, times
from rota.api.meta import Object
from rota.controllers import pod_states
from rota.controllers.jobs import pod_failure_policy
from rota.controllers.jobs.indexes import NONE, Indexes

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
#: The largest number of uids in a status, which keeps it below 20 KB.
MOST_UNCOUNTED: Final = 500
_INT32: Final = 2**31


def is_indexed(job: Object) -> bool:
    """Whether each completion has an index."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_suspended(job: Object) -> bool:
    """Whether a Job is suspended."""
    return bool(job["spec"].get("suspend"))


def has_limit_per_index(job: Object) -> bool:
    """Whether each index has its own backoff limit."""
    return job["spec"].get("backoffLimitPerIndex") is not None


def replaces_only_failed(job: Object) -> bool:
    """Whether a pod is replaced only after it has ended, not when its deletion starts."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def is_tracked(pod: Object) -> bool:
    """Whether a pod has not been counted."""
    return FINALIZER in meta.finalizers(pod)


def index_of(pod: Object) -> int | None:
    """The completion index of a pod."""
    text = meta.annotations(pod).get(INDEX, "")
    return int(text) if text.isdecimal() else None


def failures_of(pod: Object, name: str = FAILURES) -> int:
    """How often the index of a pod had failed before it."""
    text = meta.annotations(pod).get(name, "")
    return int(text) if text.isdecimal() and int(text) < _INT32 else 0


def has_failed(job: Object, pod: Object) -> bool:
    """Whether a pod has failed, or counts as failed because it is in deletion and not waited for."""
    phase = pod_states.phase(pod)
    if phase == "Failed":
        return True
    return not replaces_only_failed(job) and meta.is_deleting(pod) and phase != "Succeeded"


def ended_at(pod: Object) -> float:
    """When a pod ended; an estimate if its status does not say."""
    status, spec, metadata = pod.get("status") or {}, pod.get("spec") or {}, meta.metadata(pod)
    sidecars = {one["name"] for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"}
    containers = [
        *(status.get("containerStatuses") or ()),
        *(one for one in status.get("initContainerStatuses") or () if one.get("name") in sidecars),
    ]
    ends = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in containers]
    if ends and all(ends):
        return max(times.parse(str(one)) for one in ends)
    ready = meta.condition(pod, "Ready")
    if ready is not None and ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return times.parse(ready["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        return times.parse(metadata["deletionTimestamp"]) - int(metadata.get("deletionGracePeriodSeconds") or 0)
    return times.parse(metadata["creationTimestamp"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """A Job and its counted pods."""

    job: Object
    pods: tuple[Object, ...]
    active: tuple[Object, ...]
    terminating: tuple[Object, ...]
    #: Ended pods that the status does not contain yet.
    new_succeeded: tuple[Object, ...]
    new_failed: tuple[Object, ...]
    succeeded: int
    failed: int
    #: Completed indexes in the status, and all completed indexes.
    counted_indexes: Indexes = NONE
    succeeded_indexes: Indexes = NONE
    failed_indexes: Indexes = NONE
    #: Failed pods by index that are kept until they are replaced: the replacement continues their failure count.
    kept: Mapping[int, Object]

    @property
    def ready(self) -> int:
        """The number of active pods that are ready."""
        return sum(map(pod_states.is_ready, self.active))


def tally(job: Object, pods: Iterable[Object]) -> Tally:
    """Count a Job's pods."""
    mine = tuple(pods)
    status, spec = job.get("status") or {}, job["spec"]
    uncounted = status.get("uncountedTerminatedPods") or {}
    known = {*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())}
    fresh = [one for one in mine if is_tracked(one) and _is_valid(job, one)]
    new = [one for one in fresh if meta.uid(one) not in known]
    new_succeeded = tuple(one for one in new if pod_states.phase(one) == "Succeeded")
    new_failed = tuple(one for one in new if has_failed(job, one))
    active = tuple(one for one in mine if pod_states.is_active(one))
    succeeded = int(status.get("succeeded") or 0) + len(new_succeeded) + len(uncounted.get("succeeded") or ())
    counting = sum(pod_failure_policy.judge(job, one).counts for one in new_failed)
    failed = int(status.get("failed") or 0) + counting + len(uncounted.get("failed") or ())
    counted = done = lost = NONE
    if is_indexed(job):
        completions = int(spec["completions"])
        counted = Indexes.parse(status.get("completedIndexes") or "", below=completions)
        done = counted | _indexes(one for one in fresh if pod_states.phase(one) == "Succeeded")
        succeeded = len(done)
        if has_limit_per_index(job):
            lost = Indexes.parse(status.get("failedIndexes") or "", below=completions)
            lost |= _indexes(one for one in fresh if _has_index_failed(job, one))
    return Tally(
        job=job,
        pods=mine,
        active=active,
        terminating=tuple(one for one in mine if pod_states.is_terminating(one)),
        new_succeeded=new_succeeded,
        new_failed=new_failed,
        succeeded=succeeded,
        failed=failed,
        counted_indexes=counted,
        succeeded_indexes=done,
        failed_indexes=lost,
        kept=_kept(job, fresh, settled=done | lost | _indexes(active)) if has_limit_per_index(job) else {},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The status to write, and the pods whose finalizers may be removed afterwards."""

    #: The status fields to write before the finalizers are removed.
    status: Mapping[str, Any]
    released: tuple[Object, ...]
    #: Whether more pods ended than fit into one status.
    more: bool


def account(view: Tally, status: Mapping[str, Any], *, ending: str) -> Accounts:
    """Record ended pods in a status; `ending` is the type of the Job's final condition, if it ends."""
    job, released = view.job, []
    booked = accounted_uids(status, {meta.uid(one) for one in view.pods if is_tracked(one)})
    uncounted = booked["uncountedTerminatedPods"]
    well, badly = list(uncounted.get("succeeded") or ()), list(uncounted.get("failed") or ())
    indexes = set[int]()
    # When a Job fails, its active pods count as failed.
    lost = ending not in {"", "SuccessCriteriaMet"}
    more = False
    # In index order, so that recorded intervals grow from the start.
    for pod in sorted(view.pods, key=lambda one: index_of(one) or 0) if is_indexed(job) else view.pods:
        failed = has_failed(job, pod)
        if not is_tracked(pod) or not _may_go(view, pod, failed=failed, ending=ending):
            continue
        released.append(pod)
        uid, index = meta.uid(pod), index_of(pod)
        if pod_states.phase(pod) == "Succeeded" and uid not in badly:
            if not is_indexed(job):
                well += [uid] if uid not in well else []
            elif index is not None and _is_valid(job, pod) and index not in view.counted_indexes:
                indexes.add(index)
        elif (
            (failed or lost) and uid not in badly and _is_valid(job, pod) and pod_failure_policy.judge(job, pod).counts
        ):
            badly.append(uid)
        if len(well) + len(badly) + len(indexes) >= MOST_UNCOUNTED:
            more = True
            break
    booked["uncountedTerminatedPods"] = _filled(succeeded=well, failed=badly)
    if is_indexed(job):
        done = view.counted_indexes | Indexes.of(indexes)
        booked |= {"succeeded": len(done), "completedIndexes": str(done)}
        if has_limit_per_index(job):
            booked["failedIndexes"] = str(view.failed_indexes)
    return Accounts(status=tidied(booked), released=tuple(released), more=more)


def accounted_uids(status: Mapping[str, Any], tracked: set[str]) -> dict[str, Any]:
    """A status in which uids of pods without the finalizer have been added to the counters."""
    uncounted = status.get("uncountedTerminatedPods") or {}
    booked = dict(status)
    left: dict[str, Sequence[str]] = {}
    for name in ("succeeded", "failed"):
        uids = uncounted.get(name) or ()
        left[name] = [uid for uid in uids if uid in tracked]
        booked[name] = int(status.get(name) or 0) + len(uids) - len(left[name])
    booked["uncountedTerminatedPods"] = _filled(**left)
    return tidied(booked)


def tidied(status: Mapping[str, Any]) -> dict[str, Any]:
    """A status without the optional fields that are zero."""
    optional = {"active", "succeeded", "failed", "completedIndexes"}
    return {name: item for name, item in status.items() if item or name not in optional}


def _filled(**lists: Sequence[str]) -> dict[str, list[str]]:
    return {name: list(uids) for name, uids in lists.items() if uids}


def _is_valid(job: Object, pod: Object) -> bool:
    if not is_indexed(job):
        return True
    index = index_of(pod)
    return index is not None and index < int(job["spec"]["completions"])


def _indexes(pods: Iterable[Object]) -> Indexes:
    return Indexes.of(index for one in pods if (index := index_of(one)) is not None)


def _has_index_failed(job: Object, pod: Object) -> bool:
    if not has_failed(job, pod):
        return False
    verdict = pod_failure_policy.judge(job, pod)
    limit = int(job["spec"]["backoffLimitPerIndex"])
    return verdict.fails_index or (verdict.counts and failures_of(pod) >= limit)


def _kept(job: Object, fresh: Iterable[Object], *, settled: Indexes) -> dict[int, Object]:
    """The last failed pod of every index that is neither complete, failed, nor active."""
    found: dict[int, Object] = {}
    for pod in fresh:
        index = index_of(pod)
        if index is None or index in settled or not has_failed(job, pod):
            continue
        last = found.get(index)
        if last is None or (_tries(last), ended_at(last)) <= (_tries(pod), ended_at(pod)):
            found[index] = pod
    return found


def _tries(pod: Object) -> int:
    return failures_of(pod) + failures_of(pod, IGNORED_FAILURES)


def _may_go(view: Tally, pod: Object, *, failed: bool, ending: str) -> bool:
    if ending or meta.is_deleting(view.job) or pod_states.phase(pod) == "Succeeded":
        return True
    if not failed:
        return False
    index = index_of(pod)
    kept = None if index is None else view.kept.get(index)
    return kept is None or meta.uid(kept) != meta.uid(pod)
