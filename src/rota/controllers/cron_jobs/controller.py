"""Creates Jobs at the scheduled times of CronJobs, updates their status, and limits their history.

`runs` decides which run is due. A Job that was created but not recorded in the status, because the controller crashed
in between, is recognized by its scheduled time and recorded then. Behaves as upstream's (`pkg/controller/cronjob`,
1.36).
"""

import datetime as dt
import zoneinfo
from collections.abc import Sequence
from typing import Any, Final

from rota.api import cron, errors, gotext, meta, times
from rota.api.cron import Schedule
from rota.api.meta import Object
from rota.client.expectations import Expectations
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Propagation
from rota.controllers.controller_ref_manager import BY_CONTROLLER, OWNED, OwnerKind
from rota.controllers.cron_jobs import runs
from rota.controllers.cron_jobs.runs import JobKind
from rota.controllers.pod_control import is_end_of_namespace
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

CRON_JOBS: Final = ("batch", "v1", "cronjobs")
JOBS: Final = runs.NATIVE.target
KIND: Final = OwnerKind(api_version="batch/v1", kind="CronJob", target=CRON_JOBS)
_WORKERS: Final = 5
#: After a conflicting write: the watch delivers the new state soon.
_SOON_S: Final = 0.05


class CronJobController:
    """Creates the Jobs of all CronJobs."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics | None = None,
        kind: OwnerKind = KIND,
        jobs: JobKind = runs.NATIVE,
    ) -> None:
        """`kind` is that of the CronJobs, `jobs` that of the Jobs that they make."""
        self._kind: Final = kind
        self._makes: Final = jobs
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "cron jobs", self._process, clock=clock, rng=rng, workers=_WORKERS, metrics=metrics
        )
        self._recorder: Final = self._frame.report_as("cronjob-controller")
        #: Expected writes of Jobs and of CronJobs, by the CronJob's uid.
        self._expectations: Final = Expectations(clock)
        self._own_writes: Final = Expectations(clock)
        self._cron_jobs: Final = self._frame.follow(kind.target, self._cron_job_changed)
        self._jobs: Final = self._frame.follow(jobs.target, self._job_changed, indexers=OWNED)

    async def run(self) -> None:
        """Create Jobs until cancelled."""
        await self._frame.run()

    def _cron_job_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._own_writes.observe(key, old, new)
        if new is None and old is not None:
            self._expectations.forget(meta.uid(old))
            self._own_writes.forget(meta.uid(old))
        self._frame.queue.add(key)

    def _job_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._expectations.observe(key, old, new)
        if (owner := self._kind.owner_of(new or old)) is not None:
            self._frame.queue.add(Key(key.namespace, owner["name"]))

    async def _process(self, key: Key) -> float | None:
        found = self._cron_jobs.cache.get(key.name, key.namespace)
        if found is None:
            return None
        cron_job = self._kind.complete(found)
        for expectations in (self._expectations, self._own_writes):
            if not expectations.settled(meta.uid(cron_job)):
                return expectations.patience_s(meta.uid(cron_job))
        try:
            return await self._sync(cron_job)
        except errors.NotFound:
            return None
        except errors.Conflict:
            return _SOON_S

    async def _sync(self, cron_job: Object) -> float | None:
        jobs = self._jobs.cache.indexed(BY_CONTROLLER, meta.uid(cron_job))
        for one in runs.outlived(cron_job, jobs, self._makes):
            if not meta.is_deleting(one):
                await self._delete(cron_job, one)
        cron_job = await self._write(cron_job, self._seen(cron_job, jobs))
        if meta.is_deleting(cron_job):
            return None
        understood = self._understood(cron_job)
        if understood is None or cron_job["spec"].get("suspend"):
            return None
        schedule, place = understood
        now = self._clock.now()
        due = runs.due(cron_job, schedule, place, now=now)
        if due is not None:
            if due.many:
                message = (
                    "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
                )
                self._recorder.event(cron_job, "Warning", "TooManyMissedTimes", message)
            cron_job = await self._start(cron_job, due.at, place, now=now)
        return runs.next_in_s(cron_job, schedule, place, now=self._clock.now())

    def _understood(self, cron_job: Object) -> tuple[Schedule, dt.tzinfo] | None:
        """The schedule and its time zone; an invalid one is reported in an event and not retried until it changes."""
        spec = cron_job["spec"]
        try:
            place = runs.zone(cron_job)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as problem:
            message = f"invalid timeZone: {gotext.quote(spec['timeZone'])}: {problem}"
            self._recorder.event(cron_job, "Warning", "UnknownTimeZone", message)
            return None
        try:
            return cron.parse(spec["schedule"]), place
        except cron.CronError as problem:
            message = f"unparseable schedule: {gotext.quote(spec['schedule'])} : {problem}"
            self._recorder.event(cron_job, "Warning", "UnparseableSchedule", message)
            return None

    def _seen(self, cron_job: Object, jobs: Sequence[Object]) -> dict[str, Any]:
        """The status updated from the observed Jobs."""
        status = dict(cron_job.get("status") or {})
        known = {meta.uid(one): one for one in jobs}
        active: list[dict[str, Any]] = []
        for one in status.get("active") or ():
            job = known.get(one["uid"])
            if job is None:
                self._recorder.event(cron_job, "Normal", "MissingJob", f"Active job went missing: {one['name']}")
            elif end := self._makes.end_of(job):
                message = f"Saw completed job: {one['name']}, condition: {end}"
                self._recorder.event(cron_job, "Normal", "SawCompletedJob", message)
            else:
                active.append(one)
        listed = {one["uid"] for one in active}
        for job in sorted(jobs, key=meta.name):
            _note_times(status, job, self._makes)
            if self._makes.end_of(job) or meta.uid(job) in listed:
                continue
            if runs.scheduled_at(job) is not None:
                active.append(runs.reference(job, self._makes))
            elif meta.uid(job) not in {one["uid"] for one in status.get("active") or ()}:
                message = f"Saw a job that the controller did not create or forgot: {meta.name(job)}"
                self._recorder.event(cron_job, "Warning", "UnexpectedJob", message)
        return {**{name: item for name, item in status.items() if name != "active"}, **_listed(active)}

    async def _start(self, cron_job: Object, at: float, place: dt.tzinfo, *, now: float) -> Object:
        """Create the Job of a run unless the concurrency policy forbids it; the updated CronJob."""
        spec, active = cron_job["spec"], (cron_job.get("status") or {}).get("active") or ()
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None and at + float(deadline) < now:
            moment = dt.datetime.fromtimestamp(at, dt.UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            message = f"Missed scheduled time to start a job: {moment}"
            self._recorder.event(cron_job, "Warning", "MissSchedule", message)
            return cron_job
        if any(one["name"] == runs.name(cron_job, at) for one in active):
            return cron_job
        if active and spec.get("concurrencyPolicy") == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._recorder.event(cron_job, "Normal", "JobAlreadyActive", message)
            return cron_job
        if spec.get("concurrencyPolicy") == "Replace":
            for one in active:
                await self._delete(cron_job, {"metadata": one})
            active = ()
        made = await self._create(cron_job, runs.job(cron_job, at, place, self._makes))
        if made is None:
            return cron_job
        status = {
            **(cron_job.get("status") or {}),
            **_listed([*active, runs.reference(made, self._makes)]),
            "lastScheduleTime": times.format_time(at),
        }
        return await self._write(cron_job, status)

    async def _create(self, cron_job: Object, wanted: Object) -> Object | None:
        key = Key(meta.namespace(wanted), meta.name(wanted))
        self._expectations.expect(meta.uid(cron_job), key)
        try:
            made = await self._client.create(self._makes.target, wanted)
        except errors.AlreadyExists:
            self._expectations.drop(key)  # the watch may have delivered it already
            found = await self._client.get(self._makes.target, key.name, namespace=key.namespace)
            ours = (meta.controller_of(found) or {}).get("uid") == meta.uid(cron_job)
            return found if ours else None
        except errors.ApiError as error:
            self._expectations.drop(key)
            if is_end_of_namespace(error):
                return None
            self._recorder.event(cron_job, "Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        except BaseException:
            self._expectations.drop(key)
            raise
        self._expectations.confirm(key, made)
        self._recorder.event(cron_job, "Normal", "SuccessfulCreate", f"Created job {key.name}")
        return made

    async def _delete(self, cron_job: Object, job: Object) -> None:
        key = Key(meta.namespace(job), meta.name(job))
        self._expectations.expect(meta.uid(cron_job), key, of=job, going=True)
        try:
            answer = await self._client.delete(
                self._makes.target,
                key.name,
                namespace=key.namespace,
                uid=meta.uid(job),
                propagation=Propagation.BACKGROUND,
            )
        except (errors.NotFound, errors.Conflict):
            self._expectations.drop(key)
            return
        except errors.ApiError as error:
            self._expectations.drop(key)
            self._recorder.event(cron_job, "Warning", "FailedDelete", f"Deleted job: {error}")
            raise
        except BaseException:
            self._expectations.drop(key)
            raise
        self._expectations.confirm(key, answer)
        self._recorder.event(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {key.name}")

    async def _write(self, cron_job: Object, status: dict[str, Any]) -> Object:
        """Write the status if it has changed; the updated CronJob."""
        if status == (cron_job.get("status") or {}):
            return cron_job
        key = Key(meta.namespace(cron_job), meta.name(cron_job))
        self._own_writes.expect(meta.uid(cron_job), key, of=cron_job)
        try:
            written = await self._client.update(self._kind.target, {**cron_job, "status": status}, subresource="status")
        except BaseException:
            self._own_writes.drop(key)
            raise
        self._own_writes.confirm(key, written)
        return self._kind.complete(written)


def _listed(active: Sequence[Object]) -> dict[str, Any]:
    return {"active": list(active)} if active else {}


def _note_times(status: dict[str, Any], job: Object, kind: JobKind) -> None:
    """Record a Job's scheduled time and, if it succeeded, its completion time, unless later ones are recorded."""
    at, done = runs.scheduled_at(job), kind.completed_at(job)
    if at is not None:
        status["lastScheduleTime"] = max(status.get("lastScheduleTime") or "", times.format_time(at))
    if done:
        status["lastSuccessfulTime"] = max(status.get("lastSuccessfulTime") or "", done)
