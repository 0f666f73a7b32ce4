"""Runs Jobs: creates their pods, counts completions and failures, and finishes them.

`plan` decides when a Job ends and which pods to create or delete; `job_accounting` counts. One round manages the pods,
records the ended ones in the status, removes their finalizers, and updates the counters. A crash after any of these
steps is safe: the next round continues from the recorded state. A round waits until the caches contain all of this
controller's own writes. Behaves as upstream's (`pkg/controller/job`, 1.36) except for disruptions (see
`pod_failure_policy`).
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rota.api import errors, meta, times
from rota.api.meta import Object
from rota.client.informers.cache import Key
from rota.client.verbs import Client, PatchType
from rota.controllers import pod_states
from rota.controllers.controller_ref_manager import OwnerKind
from rota.controllers.jobs import plan, templates
from rota.controllers.jobs.job_accounting import (
    FINALIZER,
    Tally,
    account,
    accounted_uids,
    is_suspended,
    is_tracked,
    tally,
    tidied,
)
from rota.controllers.jobs.plan import Backoff, Changes, Ending
from rota.controllers.owned_reconciler import OwnedReconciler
from rota.controllers.pod_control import PODS, PodControl, slow_start
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

JOBS: Final = ("batch", "v1", "jobs")
KIND: Final = OwnerKind(api_version="batch/v1", kind="Job", target=JOBS)
#: The value of `managedBy` for this controller.
_US: Final = "kubernetes.io/job-controller"
#: Rounds of large Jobs are batched: this delay per pod, up to the limit.
_BATCH_PER_POD_S: Final = 0.0001
_BATCH_S: Final = 1.0
_RELEASE: Final = {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}


@dataclass(frozen=True, slots=True)
class _Orphan:
    """A pod with a tracking finalizer whose Job is gone."""

    key: Key


class JobController:
    """Manages the pods and status of all Jobs."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._home: Final = OwnedReconciler[_Orphan](
            client,
            KIND,
            self._sync,
            name="jobs",
            component="job-controller",
            clock=clock,
            rng=rng,
            metrics=metrics,
            is_over=is_finished,
            left=self._left,
            delay_s=lambda key: min(self._pods_of.get(key, 0) * _BATCH_PER_POD_S, _BATCH_S),
            beside=self._free,
        )
        self._recorder: Final = self._home.recorder
        self._pods: Final = self._home.own(PODS, finalizer=FINALIZER, also=self._pod_changed)
        self._control: Final = PodControl(
            client, recorder=self._recorder, expectations=self._pods.expectations, rng=rng
        )
        #: Backoff after failures since the last success, by Job uid; kept in memory only.
        self._backoffs: Final[dict[str, Backoff]] = {}
        #: The number of pods of each Job in its last round.
        self._pods_of: Final[dict[Key, int]] = {}

    async def run(self) -> None:
        """Run Jobs until cancelled."""
        await self._home.run()

    def _left(self, key: Key, last: Object) -> None:
        """A Job has finished or is gone: release its pods from tracking."""
        self._backoffs.pop(meta.uid(last), None)
        self._pods_of.pop(key, None)
        for pod in self._pods.owned_by(last):
            if is_tracked(pod):
                self._home.look_at(_Orphan(Key(key.namespace, meta.name(pod))))

    def _pod_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        if new is not None and is_tracked(new) and self._owner(new) is None:
            self._home.look_at(_Orphan(key))

    def _owner(self, pod: Object) -> Object | None:
        """The Job that will count a pod."""
        reference = KIND.owner_of(pod)
        job = None if reference is None else self._home.owners.get(reference["name"], meta.namespace(pod))
        if reference is None or job is None or meta.uid(job) != reference["uid"]:
            return None
        return None if is_finished(job) else job

    async def _free(self, stray: _Orphan) -> float | None:
        """Remove the tracking finalizer of a pod whose Job is gone or finished; not from pods of other controllers."""
        key = stray.key
        pod = self._pods.cache.get(key.name, key.namespace)
        if pod is None or not is_tracked(pod) or self._owner(pod) is not None:
            return None
        reference = meta.controller_of(pod)
        if reference is not None:
            if KIND.owner_of(pod) is None:
                return None
            try:
                job = await self._client.get(JOBS, reference["name"], namespace=key.namespace)
            except errors.NotFound:
                job = {}
            alive = meta.uid(job) == reference["uid"] and not is_finished(job)
            if alive or (job.get("spec") or {}).get("managedBy", _US) != _US:
                return None
        patch = {"metadata": {"uid": meta.uid(pod), **_RELEASE}}
        with contextlib.suppress(errors.NotFound, errors.Conflict):
            await self._client.patch(PODS, key.name, patch, type=PatchType.STRATEGIC, namespace=key.namespace)
        return None

    async def _sync(self, job: Object) -> float | None:
        if is_finished(job) or job["spec"].get("managedBy", _US) != _US:
            return None
        uid, now = meta.uid(job), self._clock.now()
        status = _begun(job, now=now)
        view = tally({**job, "status": status}, await self._pods.claim(job))
        self._pods_of[Key(meta.namespace(job), meta.name(job))] = len(view.pods)
        backoff = self._backoffs.get(uid, Backoff()).after(view)
        ending = plan.ending(view, now=now)
        outcome = _Outcome(
            active=len(view.active), ready=view.ready, terminating=len(view.terminating), backoff=backoff
        )
        again_in_s = plan.deadline_in_s(view.job, now=now)
        if ending is not None:
            await self._stop(view, outcome)
        elif not meta.is_deleting(job):
            changes = plan.changes(view, backoff, now=now)
            await self._change(view, changes, outcome)
            again_in_s = min((one for one in (changes.again_in_s, again_in_s) if one is not None), default=None)
            if plan.is_complete(view, active=outcome.active):
                ending = plan.COMPLETED
            else:
                status = self._suspended_or_resumed(job, status, now=now)
        announced = ending if outcome.problem is None else None
        await self._account(job, view, status, announced, outcome)
        if outcome.problem is not None:
            raise outcome.problem
        return again_in_s

    async def _stop(self, view: Tally, outcome: "_Outcome") -> None:
        """Delete running pods; they are still counted."""
        outcomes = await asyncio.gather(
            *(self._control.delete(view.job, one) for one in view.active), return_exceptions=True
        )
        self._note_deleted(view.active, outcomes, outcome)

    async def _change(self, view: Tally, changes: Changes, outcome: "_Outcome") -> None:
        """Create pods and delete some."""
        outcomes = await asyncio.gather(
            *(self._give_up(view.job, one) for one in changes.given_up), return_exceptions=True
        )
        self._note_deleted(changes.given_up, outcomes, outcome)

        async def make(number: int) -> None:
            index = changes.made[number]
            pod = templates.pod(view, index)
            await self._control.create(view.job, pod, name_prefix=templates.name_prefix(view.job, index))

        started = await slow_start(len(changes.made), make)
        outcome.active += started.done
        outcome.problem = outcome.problem or started.error

    async def _give_up(self, job: Object, pod: Object) -> None:
        """Delete a pod that will not be counted."""
        if is_tracked(pod) and await self._control.change(job, pod, _RELEASE) is None:
            return
        await self._control.delete(job, pod)

    def _note_deleted(self, pods: Sequence[Object], outcomes: Sequence[object], outcome: "_Outcome") -> None:
        for pod, one in zip(pods, outcomes, strict=True):
            if isinstance(one, Exception):
                outcome.problem = outcome.problem or one
                continue
            outcome.active -= 1
            outcome.terminating += 1
            outcome.ready -= pod_states.is_ready(pod)

    def _suspended_or_resumed(self, job: Object, status: dict[str, Any], *, now: float) -> dict[str, Any]:
        conditions, suspended = status.get("conditions") or (), is_suspended(job)
        words = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
        changed = _with_condition(conditions, "Suspended", "True" if suspended else "False", *words, now=now)
        if changed is None:
            return status
        self._recorder.event(job, "Normal", "Suspended" if suspended else "Resumed", words[1])
        status = {**status, "conditions": changed}
        if suspended:
            return {name: item for name, item in status.items() if name != "startTime"}
        return {**status, "startTime": times.format_time(now)}

    async def _account(
        self,
        job: Object,
        view: Tally,
        status: Mapping[str, Any],
        ending: Ending | None,
        outcome: "_Outcome",
    ) -> None:
        """Record ended pods in the status, remove their finalizers, and update the counters."""
        now = self._clock.now()
        numbers = {"active": outcome.active, "ready": outcome.ready, "terminating": outcome.terminating}
        accounts = account(view, {**status, **numbers}, ending="" if ending is None else ending.type)
        said = dict(accounts.status)
        if ending is not None and meta.condition(job, ending.type) is None:
            words = (ending.reason, ending.message)
            said["conditions"] = _with_condition(said.get("conditions") or (), ending.type, "True", *words, now=now)
        job = await self._write(job, said)
        self._backoffs[meta.uid(job)] = outcome.backoff
        left = await self._release(job, accounts.released)
        tracked = {meta.uid(one) for one in view.pods if is_tracked(one)} - {meta.uid(one) for one in accounts.released}
        said = accounted_uids(said, tracked | left)
        over = ending is not None and not (accounts.more or said["uncountedTerminatedPods"] or said["terminating"])
        if over and ending is not None:
            said = _ended(said, ending, now=now)
        job = await self._write(job, said)
        if over and ending is not None:
            self._say_over(job, ending)
        if left:
            raise errors.InternalError(f"{len(left)} pods of {meta.qualified_name(job)} could not be let go")

    async def _release(self, job: Object, pods: Sequence[Object]) -> set[str]:
        """Remove the finalizer from pods; the uids of those that still have it."""
        outcomes = await asyncio.gather(
            *(self._control.change(job, one, _RELEASE) for one in pods), return_exceptions=True
        )
        return {meta.uid(pod) for pod, one in zip(pods, outcomes, strict=True) if isinstance(one, Exception)}

    async def _write(self, job: Object, said: Mapping[str, Any]) -> Object:
        """Write the status if it has changed; the updated Job."""
        if tidied(said) == (job.get("status") or {}):
            return job
        key = Key(meta.namespace(job), meta.name(job))
        self._home.own_writes.expect(meta.uid(job), key, of=job)
        try:
            written = await self._client.update(JOBS, {**job, "status": tidied(said)}, subresource="status")
        except BaseException:
            self._home.own_writes.drop(key)
            raise
        self._home.own_writes.confirm(key, written)
        return KIND.complete(written)

    def _say_over(self, job: Object, ending: Ending) -> None:
        if ending.type == plan.FAILURE:
            self._recorder.event(job, "Warning", ending.reason, ending.message)
            return
        completions = job["spec"].get("completions")
        if completions is not None and (job.get("status") or {}).get("succeeded", 0) > completions:
            message = "Too many succeeded pods running after completion count reached"
            self._recorder.event(job, "Warning", "TooManySucceededPods", message)
        self._recorder.event(job, "Normal", "Completed", "Job completed")


@dataclass(slots=True, kw_only=True)
class _Outcome:
    """The state after the pods were managed, and the first error."""

    active: int
    ready: int
    terminating: int
    backoff: Backoff
    problem: Exception | None = None


def is_finished(job: Mapping[str, Any]) -> bool:
    """Whether a Job is complete or has failed."""
    return meta.is_condition_true(job, "Complete") or meta.is_condition_true(job, "Failed")


def _begun(job: Object, *, now: float) -> dict[str, Any]:
    """The status of a Job with its start time."""
    status = {"uncountedTerminatedPods": {}, **(job.get("status") or {})}
    if "startTime" not in status and not is_suspended(job):
        status["startTime"] = times.format_time(now)
    return status


def _ended(status: Mapping[str, Any], ending: Ending, *, now: float) -> dict[str, Any]:
    kind = "Failed" if ending.type == plan.FAILURE else "Complete"
    words = (ending.reason, ending.message)
    conditions = _with_condition(status.get("conditions") or (), kind, "True", *words, now=now)
    ended = {**status, "conditions": conditions}
    return {**ended, "completionTime": times.format_time(now)} if kind == "Complete" else ended


def _with_condition(
    present: Sequence[Mapping[str, Any]], kind: str, status: str, reason: str, message: str, *, now: float
) -> list[dict[str, Any]] | None:
    """The conditions with one set; None if it is unchanged, or would be added with status False."""
    stamp = times.format_time(now)
    new = {"type": kind, "status": status, "reason": reason, "message": message}
    old = next((one for one in present if one.get("type") == kind), None)
    if (old is None and status == "False") or (old is not None and new.items() <= old.items()):
        return None
    made = {**new, "lastProbeTime": stamp, "lastTransitionTime": stamp}
    if old is None:
        return [*map(dict, present), made]
    return [made if one is old else dict(one) for one in present]
