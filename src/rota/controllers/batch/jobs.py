"""Runs Jobs: creates their PodGroup, pods and objects of their plugins, and carries out their policies.

`job_events` finds what happened, `job_phases` decides what follows, `job_pods` and `job_group` make the objects. An
action is written to the status before pods are stopped, so the next round continues after a crash. Pods are created
once the scheduler has let the group into its queue; those of a Job for a scheduler without queues are created at once.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from rota.api import errors, meta
from rota.api.batch import kinds, policies
from rota.api.meta import Object
from rota.client.informers.cache import Key
from rota.client.verbs import Client, PatchType, Propagation
from rota.controllers.batch import job_events, job_group, job_phases, job_pods, job_status
from rota.controllers.batch.job_events import Occurrence, Verdict
from rota.controllers.batch.job_phases import Kill, Transition
from rota.controllers.batch.plugins import registry
from rota.controllers.batch.plugins.plugin import Wanted
from rota.controllers.controller_ref_manager import OwnerKind
from rota.controllers.owned_reconciler import SOON_S, OwnedReconciler
from rota.controllers.pod_control import PODS, PodControl, is_end_of_namespace, slow_start
from rota.kit import offload
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

KIND: Final = OwnerKind(api_version=f"{kinds.BATCH}/v1alpha1", kind="Job", target=kinds.JOBS)
COMPONENT: Final = "vc-controller-manager"
_CLASSES: Final = ("scheduling.k8s.io", "v1", "priorityclasses")
_CLAIMS: Final = ("", "v1", "persistentvolumeclaims")
_WAITING: Final = frozenset({"", "Pending"})
_LIVE: Final = (job_phases.PENDING, job_phases.RUNNING)


class BatchJobController:
    """Manages all Jobs of `batch.volcano.sh`."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        rng: Rng,
        metrics: Metrics | None = None,
        schedulers: Collection[str] = (kinds.SCHEDULER,),
    ) -> None:
        """`schedulers` are the names of batch schedulers."""
        self._client: Final = client
        self._clock: Final = clock
        self._schedulers: Final = frozenset(schedulers)
        self._home: Final = OwnedReconciler[None](
            client,
            KIND,
            self._sync,
            name="batch jobs",
            component=COMPONENT,
            clock=clock,
            rng=rng,
            metrics=metrics,
            left=self._forget,
        )
        self._recorder: Final = self._home.recorder
        self._pods: Final = self._home.own(PODS, also=self._pod_changed)
        self._groups: Final = self._home.own(kinds.POD_GROUPS)
        self._commands: Final = self._home.follow(kinds.COMMANDS, self._command_changed)
        self._classes: Final = self._home.follow(_CLASSES, lambda *_: None)
        self._control: Final = PodControl(
            client, recorder=self._recorder, expectations=self._pods.expectations, rng=rng
        )
        counters = (metrics or client.settings.metrics or Metrics("batch")).beside("batch", prefix="volcano_")
        named = ("job_name", "queue_name")
        self._completed: Final = counters.counter("job_completed_phase_count", "Jobs that completed", named)
        self._failed: Final = counters.counter("job_failed_phase_count", "Jobs that failed", named)
        #: By the uid of a Job: events that the state does not show, evictions that were acted on, the last generation,
        #: and the version and generation for which its other objects were made.
        self._seen: Final[dict[str, list[Occurrence]]] = {}
        self._handled: Final[dict[str, set[str]]] = {}
        self._generations: Final[dict[str, int]] = {}
        self._prepared: Final[dict[str, tuple[int, int]]] = {}
        #: Actions of commands that could not be written to the status yet.
        self._commanded: Final[dict[str, str]] = {}
        #: The uids of pods that this controller deletes.
        self._killed: Final[set[str]] = set()

    async def run(self) -> None:
        """Run Jobs until cancelled."""
        await self._home.run()

    def _pod_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        owner = KIND.owner_of(old)
        if new is not None or old is None or owner is None:
            return
        if meta.uid(old) in self._killed:
            self._killed.discard(meta.uid(old))
        elif _is_alive(old) and self._exists(key.namespace, owner):
            gone = job_events.evicted(old, now=self._clock.now())
            self._seen.setdefault(owner["uid"], []).append(gone)

    def _exists(self, namespace: str, owner: Mapping[str, Any]) -> bool:
        job = self._home.owners.get(owner["name"], namespace)
        return job is not None and meta.uid(job) == owner["uid"]

    def _forget(self, _: Key, job: Object) -> None:
        """A Job is gone."""
        for memory in (self._seen, self._handled, self._generations, self._prepared, self._commanded):
            memory.pop(meta.uid(job), None)
        for counter in (self._completed, self._failed):
            counter.remove(*_labels(job))

    def _command_changed(self, key: Key, _: Object | None, new: Object | None) -> None:
        target = (new or {}).get("target") or {}
        if target.get("kind") == KIND.kind:
            self._home.look_at(Key(key.namespace, target["name"]))

    async def _sync(self, job: Object) -> float | None:
        now = self._clock.now()
        if meta.is_deleting(job):
            return None
        if not job_status.phase_of(job):
            status = job_status.in_phase(job.get("status") or {}, job_phases.PENDING, now=now)
            job = await self._write(job, {**status, "minAvailable": job["spec"].get("minAvailable", 0)})
        pods, group = self._pods.owned_by(job), self._group(job)
        verdict = await self._verdict(job, pods, group, now=now)
        step = job_phases.transition(
            job_status.phase_of(job),
            verdict.action,
            retry_count=(job.get("status") or {}).get("retryCount") or 0,
            max_retry=job_phases.max_retry(job["spec"]),
        )
        if step is not None:
            await self._act(job, step, verdict, pods, group, now=now)
            return SOON_S
        if job_status.phase_of(job) in _LIVE:
            await self._live(job, pods, group)
        else:
            await self._wind_down(job, pods, group)
        job = await self._account(job, group, now=now)
        return await self._expire(job, verdict.again_in_s)

    async def _verdict(self, job: Object, pods: Sequence[Object], group: Object | None, *, now: float) -> Verdict:
        """The action of a command, else of the policies."""
        uid = meta.uid(job)
        command = self._commanded.pop(uid, "") or await self._command(job)
        if command:
            return Verdict(action=command)
        seen, handled = self._seen.pop(uid, []), self._handled.setdefault(uid, set())
        if job_status.phase_of(job) not in _LIVE:
            return Verdict()
        generation = int(meta.metadata(job).get("generation") or 0)
        if self._generations.setdefault(uid, generation) != generation:
            self._generations[uid] = generation
            seen.append(Occurrence(event=policies.JOB_UPDATED, since=now))
        found = [
            one
            for one in job_events.occurrences(job, pods, group, seen=seen, now=now)
            if one.uid not in handled and one.uid not in self._killed
        ]
        verdict = job_events.verdict(job, found, now=now)
        if verdict.again_in_s is not None:
            self._seen[uid] = seen
        if verdict.cause is not None and verdict.cause.uid:
            handled.add(verdict.cause.uid)
        return verdict

    async def _command(self, job: Object) -> str:
        """Take the next command for a Job: it is deleted first, so that it is carried out at most once."""
        for one in list(self._commands.values()):
            target = one.get("target") or {}
            if meta.namespace(one) != meta.namespace(job) or target.get("uid") not in ("", meta.uid(job)):
                continue
            if target.get("kind") != KIND.kind or target.get("name") != meta.name(job):
                continue
            try:
                await self._client.delete(
                    kinds.COMMANDS, meta.name(one), namespace=meta.namespace(one), uid=meta.uid(one)
                )
            except (errors.NotFound, errors.Conflict):
                continue
            action = str(one.get("action") or "")
            message = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
            self._recorder.event(job, "Normal", "CommandIssued", message)
            return action
        return ""

    async def _act(
        self,
        job: Object,
        step: Transition,
        verdict: Verdict,
        pods: Sequence[Object],
        group: Object | None,
        *,
        now: float,
    ) -> None:
        """Write what follows from an action, then stop pods."""
        status = job_status.in_phase(job.get("status") or {}, step.phase, now=now)
        cause = verdict.cause
        if cause is not None:
            about = f" of pod {cause.pod}" if cause.pod else f" of task {cause.task}" if cause.task else ""
            code = f" with exit code {cause.exit_code}" if cause.exit_code is not None else ""
            status = job_status.explained(status, cause.event, f"{verdict.action} after {cause.event}{about}{code}")
        if step.retries:
            status["retryCount"] = (status.get("retryCount") or 0) + 1
        if step.kill is not Kill.TARGET:
            status["version"] = (status.get("version") or 0) + 1
        chosen = job_events.targets(verdict.action, cause, pods) if step.kill is Kill.TARGET else pods
        if step.kill is Kill.ACTIVE:
            chosen = [one for one in chosen if _is_alive(one)]
        # Before the status shows them, so that no round takes them for evictions.
        killed = {meta.uid(one) for one in chosen} - self._killed
        self._killed.update(killed)
        try:
            job = await self._write(job, status)
        except BaseException:
            # Nothing has happened yet: the next round carries out the same action.
            self._killed.difference_update(killed)
            self._keep(job, verdict)
            raise
        self._recorder.event(job, "Normal", "ExecuteAction", f"Start to execute action {verdict.action}")
        await self._stop(job, chosen)
        if step.kill is not Kill.TARGET:
            await self._drop_group(job, group)

    def _keep(self, job: Object, verdict: Verdict) -> None:
        """Keep the cause of an action that was not written."""
        uid, cause = meta.uid(job), verdict.cause
        if cause is None:
            self._commanded[uid] = verdict.action
        else:
            self._handled.get(uid, set()).discard(cause.uid)
            self._seen.setdefault(uid, []).append(cause)

    async def _live(self, job: Object, pods: Sequence[Object], group: Object | None) -> None:
        """Give a Job what it should have."""
        version = (job.get("status") or {}).get("version") or 0
        old = [one for one in pods if job_events.version_of(one) < version]
        await self._stop(job, [*old, *job_pods.superfluous(job, [one for one in pods if one not in old])])
        reason = "PluginError"
        try:
            await self._prepare(job, version)
            reason = "PodGroupError"
            group = await self._ensure_group(job, group)
        except errors.ApiError as problem:
            if is_end_of_namespace(problem):
                return
            self._recorder.event(job, "Warning", reason, f"Failed to prepare the Job: {problem}")
            raise
        scheduler = job["spec"].get("schedulerName") or kinds.SCHEDULER
        let_in = ((group or {}).get("status") or {}).get("phase") or ""
        if scheduler in self._schedulers and let_in in _WAITING:
            return
        wanted = job_pods.missing(job, pods)

        async def make(number: int) -> None:
            task, index = wanted[number]
            await self._control.create(job, job_pods.pod(job, task, index))

        started = await slow_start(len(wanted), make, first=8)
        if started.error is not None:
            raise started.error

    async def _wind_down(self, job: Object, pods: Sequence[Object], group: Object | None) -> None:
        """Stop what a Job in this phase should not have."""
        status, phase = job.get("status") or {}, job_status.phase_of(job)
        if phase == job_phases.RESTARTING:
            last = (status.get("retryCount") or 0) >= job_phases.max_retry(job["spec"])
            version = status.get("version") or 0
            old = [one for one in pods if job_events.version_of(one) < version]
            await self._stop(job, [one for one in old if not last or _is_alive(one)])
            return
        await self._stop(job, [one for one in pods if _is_alive(one)])
        if phase in job_phases.FINISHED or phase == job_phases.ABORTED:
            await self._drop_group(job, group)

    async def _account(self, job: Object, group: Object | None, *, now: float) -> Object:
        """Count pods, and write the phase that follows."""
        counts = job_phases.count(job, self._pods.owned_by(job))
        status, phase = job_status.counted(job, counts), job_status.phase_of(job)
        following = job_phases.next_phase(phase, job, counts)
        if following != phase:
            status = job_status.in_phase(status, following, now=now)
            labels = _labels(job)
            if following == job_phases.COMPLETED:
                self._completed.labels(*labels).inc()
            elif following == job_phases.FAILED:
                self._failed.labels(*labels).inc()
                self._recorder.event(job, "Warning", "Failed", f"Job failed: {_tally(status)}")
        elif phase == job_phases.PENDING:
            waits = job_status.waits_for(group)
            status = job_status.explained(status, "PodGroupPending" if waits else "", waits)
        return await self._write(job, status)

    async def _expire(self, job: Object, again_in_s: float | None) -> float | None:
        """Delete a finished Job after its TTL; else when to look again."""
        due, now = job_status.expires_at(job), self._clock.now()
        if due is None or due > now:
            waits = [one for one in (again_in_s, None if due is None else due - now) if one is not None]
            return min(waits, default=None)
        await self._client.delete(
            kinds.JOBS,
            meta.name(job),
            namespace=meta.namespace(job),
            uid=meta.uid(job),
            propagation=Propagation.FOREGROUND,
        )
        return None

    async def _prepare(self, job: Object, version: int) -> None:
        """Create the claims of a Job and the objects of its plugins, once for each version and generation."""
        state = version, int(meta.metadata(job).get("generation") or 0)
        if self._prepared.get(meta.uid(job)) == state:
            return
        wanted = [
            Wanted(target=_CLAIMS, name=meta.name(one), make=lambda one=one: dict(one))  # type: ignore[misc]
            for one in job_pods.claims(job)
        ]
        for plugin in registry.plugins_of(job):
            wanted += plugin.wanted(job)
        for one in wanted:
            # Keys are drawn once: a restarted Job has them.
            if one.readable or meta.uid(job) not in self._prepared:
                await self._ensure(job, one)
        self._prepared[meta.uid(job)] = state

    async def _ensure(self, job: Object, wanted: Wanted) -> None:
        # A key pair takes a while to draw.
        made = wanted.make() if wanted.readable else await offload.run(wanted.make, offload.ALWAYS)
        try:
            await self._client.create(wanted.target, made)
            return
        except errors.AlreadyExists:
            if not wanted.readable:
                return
            present = await self._client.get(wanted.target, wanted.name, namespace=meta.namespace(job))
        if (meta.controller_of(present) or {}).get("uid") != meta.uid(job):
            why = f"{wanted.target[2]} {wanted.name} exists and does not belong to the Job: rename one of them"
            raise errors.Invalid(why)
        data = made.get("data") if wanted.follows else None
        if data is not None and present.get("data") != data:
            await self._client.update(wanted.target, {**present, "data": data})

    def _group(self, job: Object) -> Object | None:
        found = self._groups.cache.get(job_group.name(job), meta.namespace(job))
        return None if found is None or meta.is_deleting(found) else found

    async def _ensure_group(self, job: Object, present: Object | None) -> Object:
        priorities = {meta.name(one): int(one.get("value") or 0) for one in self._classes.values()}
        wanted = job_group.group(job, priorities)
        key = Key(meta.namespace(job), meta.name(wanted))
        if present is None:
            self._groups.expectations.expect(meta.uid(job), key)
            try:
                made = await self._client.create(kinds.POD_GROUPS, wanted)
            except BaseException:
                self._groups.expectations.drop(key)
                raise
            self._groups.expectations.confirm(key, made)
            return made
        changes = job_group.changed(present, wanted)
        if not changes:
            return present
        return await self._client.patch(
            kinds.POD_GROUPS, key.name, {"spec": changes}, type=PatchType.MERGE, namespace=key.namespace
        )

    async def _drop_group(self, job: Object, group: Object | None) -> None:
        if group is None:
            return
        key = Key(meta.namespace(group), meta.name(group))
        self._groups.expectations.expect(meta.uid(job), key, of=group, going=True)
        try:
            answer = await self._client.delete(kinds.POD_GROUPS, key.name, namespace=key.namespace, uid=meta.uid(group))
        except (errors.NotFound, errors.Conflict):
            self._groups.expectations.drop(key)
            return
        except BaseException:
            self._groups.expectations.drop(key)
            raise
        self._groups.expectations.confirm(key, answer)

    async def _stop(self, job: Object, pods: Iterable[Object]) -> None:
        chosen = [one for one in pods if not meta.is_deleting(one)]
        self._killed.update(meta.uid(one) for one in chosen)
        outcomes = await asyncio.gather(*(self._control.delete(job, one) for one in chosen), return_exceptions=True)
        problems = [
            (meta.uid(pod), one) for pod, one in zip(chosen, outcomes, strict=True) if isinstance(one, BaseException)
        ]
        for uid, _ in problems:
            # It stays: if it goes later, this controller may not be the reason.
            self._killed.discard(uid)
        for _, problem in problems:
            raise problem

    async def _write(self, job: Object, status: Mapping[str, Any]) -> Object:
        """Write the status if it has changed; the updated Job."""
        if status == (job.get("status") or {}):
            return job
        key = Key(meta.namespace(job), meta.name(job))
        self._home.own_writes.expect(meta.uid(job), key, of=job)
        try:
            written = await self._client.update(kinds.JOBS, {**job, "status": dict(status)}, subresource="status")
        except BaseException:
            self._home.own_writes.drop(key)
            raise
        self._home.own_writes.confirm(key, written)
        return KIND.complete(written)


def _labels(job: Object) -> tuple[str, str]:
    """The labels of a Job's counters."""
    return meta.name(job), (job.get("spec") or {}).get("queue") or kinds.DEFAULT_QUEUE


def _is_alive(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")


def _tally(status: Mapping[str, Any]) -> str:
    return f"{status.get('succeeded', 0)} pods succeeded, {status.get('failed', 0)} failed"
