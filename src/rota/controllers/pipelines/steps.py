"""Executes step runs: one pod or Job after the other until the step has succeeded, failed, or was cancelled.

The pod of an attempt is created before the attempt is recorded, under a name derived from the step run and the attempt
number, so a crash in between creates no second one. A short attempt is recorded once, with its end; a longer one is
also recorded as running. Step runs that share a mutex run one at a time, in order of creation.
"""

import contextlib
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rota.api import errors, gangs, meta, times
from rota.api.meta import Object
from rota.client import pods
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.transports.transport import TransportError
from rota.client.verbs import Client, Propagation, Selection
from rota.controllers.pipelines import attempts, objects
from rota.controllers.pipelines.attempts import End, Ended
from rota.controllers.pipelines.cache_write_through import learn
from rota.controllers.pipelines.objects import JOBS, PODS, SERVICES, STEP_RUNS
from rota.controllers.pipelines.states import Phase
from rota.controllers.pod_control import is_end_of_namespace
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

_BY_MUTEX: Final = "mutex"
_BY_CACHE_KEY: Final = "cache key"
_BY_OWNER: Final = "step run"
_SOON_S: Final = 0.05
#: After this time an attempt is recorded as running; shorter ones save that write.
_TOLD_AFTER_S: Final = 0.5
#: Retry interval while an object of a former run of the same name still exists.
_GOING_S: Final = 0.5
#: The API server's message about an exhausted quota, and the retry interval.
_QUOTA: Final = "exceeded quota"
_QUOTA_S: Final = 5.0


class StepRunController:
    """Executes all step runs."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "step runs", self._process, clock=clock, rng=rng, workers=16, metrics=metrics
        )
        indexers = {_BY_MUTEX: _mutexes, _BY_CACHE_KEY: _cache_keys}
        self._steps: Final = self._frame.follow(STEP_RUNS, self._step_changed, indexers=indexers)
        owned = {_BY_OWNER: _owners}
        self._pods: Final = self._frame.follow(PODS, functools.partial(self._attempt_changed, "Pod"), indexers=owned)
        self._jobs: Final = self._frame.follow(JOBS, functools.partial(self._attempt_changed, "Job"), indexers=owned)
        #: Holders of mutexes; includes grants that the cache does not show yet.
        self._holders: Final[dict[str, str]] = {}
        #: Disruptions of pods of gangs, by the uids of their Jobs: the pod may be gone before its Job is seen to fail.
        self._disrupted: Final[dict[str, Ended]] = {}
        #: The latest attempt number and its start, by the step run's uid; possibly not recorded yet.
        self._begun_at: Final[dict[str, tuple[int, float]]] = {}

    async def run(self) -> None:
        """Execute step runs until cancelled."""
        await self._frame.run()

    def _step_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        over = new is None or objects.state_of(new).phase.over
        if not over:
            self._frame.queue.add(key)
            return
        gone = new or old or {}
        self._begun_at.pop(meta.uid(gone), None)
        for place in _mutexes(gone):
            if self._holders.get(place) == meta.uid(gone):
                del self._holders[place]
            waiting = self._steps.cache.indexed(_BY_MUTEX, place)
            first = min((one for one in waiting if not objects.state_of(one).phase.over), key=_came, default=None)
            if first is not None:  # the next in line may hold the mutex now
                self._frame.queue.add(Key(meta.namespace(first), meta.name(first)))

    def _attempt_changed(self, kind: str, key: Key, old: Object | None, new: Object | None) -> None:
        owner = meta.controller_of(new or old or {})
        if kind == "Job" and new is None:
            self._disrupted.pop(meta.uid(old or {}), None)
        if owner is None or owner["kind"] != "StepRun":
            if owner is not None:
                self._note_disruption(key.namespace, owner, new)
            return
        step_run = Key(key.namespace, owner["name"])
        over = new is None or meta.is_deleting(new) or attempts.end_of({**new, "kind": kind}) is not None
        if over or (_node(new or {}) and not _node(old or {}) and self._is_told(step_run)):
            self._frame.queue.add(step_run)

    def _note_disruption(self, namespace: str, job: Mapping[str, Any], pod: Object | None) -> None:
        """Remember the disruption of a pod of a gang; pods change after their Job is gone, too."""
        if pod is not None and (lost := attempts.disruption_in_gang(pod)) is not None:
            self._disrupted[job["uid"]] = lost
        elif pod is None and job["uid"] in self._disrupted:
            known = self._jobs.cache.get(job["name"], namespace)
            if known is None or meta.uid(known) != job["uid"]:
                del self._disrupted[job["uid"]]

    def _is_told(self, key: Key) -> bool:
        """Whether a step run is recorded as running."""
        known = self._steps.cache.get(key.name, key.namespace)
        return known is not None and objects.state_of(known).phase is Phase.RUNNING

    async def _process(self, key: Key) -> float | None:
        step_run = self._steps.cache.get(key.name, key.namespace)
        if step_run is None or meta.is_deleting(step_run) or objects.state_of(step_run).phase.over:
            return None
        try:
            return await self._advance(step_run)
        except errors.NotFound:
            return None
        except errors.Conflict:
            return _SOON_S

    async def _advance(self, step_run: Object) -> float | None:
        spec, status = step_run["spec"], step_run.get("status") or {}
        if spec.get("cancel"):
            return await self._cancel(step_run)
        tries = status.get("attempts") or 0
        if status.get("phase") == Phase.RUNNING.value:
            return await self._look_after(step_run, self._attempt(step_run, tries - 1), number=tries - 1)
        begun = self._attempt(step_run, tries)
        if begun is not None or self._begun_at.get(meta.uid(step_run), (-1, 0.0))[0] == tries:
            return await self._look_after(step_run, begun, number=tries)
        if self._clock.now() < (until := _not_before(status)):
            return until - self._clock.now()
        if await self._cached(step_run):
            return None
        if not self._may_have_mutex(step_run):
            await self._wait(step_run, "MutexTaken", f"it waits for the mutex {spec['mutex']}, which another has")
            return None  # continued when the mutex is free
        return await self._try(step_run)

    async def _try(self, step_run: Object) -> float | None:
        """Start the next attempt."""
        number = (step_run.get("status") or {}).get("attempts") or 0
        wanted = objects.attempt(step_run, number)
        target, informer = (JOBS, self._jobs) if wanted["kind"] == "Job" else (PODS, self._pods)
        now = self._clock.now()
        try:
            if objects.is_gang(step_run) and (taken_by := await self._gang_service(step_run, number)) is not None:
                return await self._wait_for_name(step_run, taken_by)
            made = await self._client.create(target, wanted)
        except errors.AlreadyExists:
            found = await self._client.get(target, meta.name(wanted), namespace=meta.namespace(wanted))
            if (meta.controller_of(found) or {}).get("uid") != meta.uid(step_run):
                return await self._wait_for_name(step_run, found)
            return await self._look_after(step_run, {**found, "kind": wanted["kind"]}, number=number)
        except (errors.Invalid, errors.BadRequest, errors.Forbidden) as problem:
            if is_end_of_namespace(problem):
                return None
            if _QUOTA in str(problem):
                await self._wait(step_run, "QuotaExceeded", str(problem))
                return _QUOTA_S
            await self._end(step_run, Phase.FAILED, "InvalidTemplate", str(problem))
            return None
        self._begun_at[meta.uid(step_run)] = number, now
        learn(informer, made)
        return _TOLD_AFTER_S

    async def _gang_service(self, step_run: Object, number: int) -> Object | None:
        """Create the Service of a gang; returns a foreign one that has its name."""
        wanted = objects.gang_service(step_run, number)
        try:
            await self._client.create(SERVICES, wanted)
        except errors.AlreadyExists:
            found = await self._client.get(SERVICES, meta.name(wanted), namespace=meta.namespace(wanted))
            return None if (meta.controller_of(found) or {}).get("uid") == meta.uid(step_run) else found
        return None

    async def _wait_for_name(self, step_run: Object, taken_by: Object) -> float:
        """The name is taken: by a former run that is being deleted, or by a foreign object, which is reported."""
        if not meta.is_deleting(taken_by):
            message = f"its name {meta.name(taken_by)} is taken; it begins when that is gone"
            await self._wait(step_run, "NameTaken", message)
        return _GOING_S

    async def _wait(self, step_run: Object, reason: str, message: str) -> None:
        """Report once why a step run does not start."""
        status = step_run.get("status") or {}
        if status.get("reason") != reason:
            told = {"phase": Phase.WAITING.value, "reason": reason, "message": message}
            await self._write(step_run, {**status, **told})

    async def _look_after(self, step_run: Object, attempt: Object | None, *, number: int) -> float | None:
        """Check an attempt, and act on its end."""
        if attempt is None:
            # not in the cache yet, or gone: read from the server
            attempt = await self._fetched(step_run, number)
        if attempt is None:
            gone = {**step_run, "status": {**(step_run.get("status") or {}), "attempts": number + 1}}
            await self._again(gone, Ended(End.DISRUPTED, "Vanished", "its pod was deleted"))
            return None
        told, step_run = step_run, self._with_try(step_run, attempt, number=number)
        ended = attempts.end_of(attempt)
        if ended is not None and objects.is_gang(step_run):
            # the outputs, the node and the reason are those of pods; their cache may lag behind that of Jobs
            pods = await self._pods_of(attempt)
            ended = attempts.end_of_gang(ended, pods, disruption=self._disrupted.get(meta.uid(attempt)))
            attempt = next((one for one in pods if meta.labels(one).get(gangs.INDEX_LABEL) == "0"), attempt)
            step_run = self._with_try(step_run, attempt, number=number)
        if ended is not None and ended.end is End.SUCCEEDED:
            await self._succeed(step_run, attempt)
        elif ended is not None:
            await self._again(step_run, ended)
        elif not meta.is_deleting(attempt) and step_run["status"] != (told.get("status") or {}):
            begun_s = self._clock.now() - times.parse(step_run["status"]["startedAt"])
            if begun_s < _TOLD_AFTER_S and objects.state_of(told).phase is Phase.WAITING:
                return _TOLD_AFTER_S - begun_s
            await self._write(step_run, step_run["status"])
        return None  # the next event comes from the attempt itself

    def _with_try(self, step_run: Object, attempt: Object, *, number: int) -> Object:
        """A step run with its latest attempt."""
        status = dict(step_run.get("status") or {})
        if status.get("phase") != Phase.RUNNING.value:
            known, begun = self._begun_at.get(meta.uid(step_run), (-1, 0.0))
            if known != number:  # started by a former leader
                begun = times.parse(meta.metadata(attempt)["creationTimestamp"])
            for gone in ("notBefore", "reason", "message"):
                status.pop(gone, None)
            status |= {"phase": Phase.RUNNING.value, "startedAt": times.format_micro_time(begun)}
        status["attempts"] = number + 1
        if node := _node(attempt):
            status["node"] = node
        return {**step_run, "status": status}

    async def _succeed(self, step_run: Object, attempt: Object) -> None:
        declared = step_run["spec"].get("outputs") or ()
        found: dict[str, str] = {}
        if declared:
            wants_stdout = any(one.get("from") == "stdout" for one in declared)
            stdout = await self._stdout(attempt) if wants_stdout else ""
            found, missing = attempts.outputs(declared, file=_left_behind(attempt), stdout=stdout)
            if missing:
                what = f"output {missing[0]}" if len(missing) == 1 else f"outputs {', '.join(missing)}"
                message = (
                    f"the step ended with code 0 and there is no {what}: its command did not write it, or it was lost"
                )
                await self._again(step_run, Ended(End.FAILED, "OutputMissing", message))
                return
            if sum(map(len, found.values())) > attempts.MOST_BYTES:
                await self._end(step_run, Phase.FAILED, "OutputTooLarge", f"more than {attempts.MOST_BYTES} bytes")
                return
        await self._end(step_run, Phase.SUCCEEDED, "", "", outputs=found)

    async def _again(self, step_run: Object, ended: Ended) -> None:
        """Record an unsuccessful attempt; the next one may follow."""
        status = dict(step_run["status"])
        if ended.end is End.DISRUPTED:
            status["disruptions"] = (status.get("disruptions") or 0) + 1
            pause: float | None = attempts.pause_after_disruption_s(status["disruptions"])
        else:
            status["failures"] = (status.get("failures") or 0) + 1
            pause = attempts.pause_s(step_run["spec"].get("retries") or {}, status["failures"])
        if pause is None:
            await self._end(step_run, Phase.FAILED, ended.reason, ended.message, failures=status["failures"])
            return
        until = times.format_micro_time(self._clock.now() + pause)
        told = {"phase": Phase.WAITING.value, "reason": ended.reason, "message": ended.message, "notBefore": until}
        await self._write(step_run, {**status, **told})

    async def _cancel(self, step_run: Object) -> float | None:
        """Delete what runs, and report the step run as cancelled once it has ended."""
        tries = (step_run.get("status") or {}).get("attempts") or 0
        # the latest attempt, and one that a former leader started without recording it
        found = [await self._fetched(step_run, number) for number in range(max(0, tries - 1), tries + 1)]
        going = [one for one in found if one is not None and attempts.end_of(one) is None]
        for one in going:
            await self._delete(one)
        if going:
            return _GOING_S
        await self._end(step_run, Phase.CANCELLED, "Cancelled", "it was cancelled")
        return None

    async def _delete(self, attempt: Object) -> None:
        if meta.is_deleting(attempt):
            return
        # a Job has ended when its pods have
        is_job = attempt["kind"] == "Job"
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(
                JOBS if is_job else PODS,
                meta.name(attempt),
                namespace=meta.namespace(attempt),
                uid=meta.uid(attempt),
                propagation=Propagation.FOREGROUND if is_job else Propagation.BACKGROUND,
            )

    async def _cached(self, step_run: Object) -> bool:
        """Take the outputs of an earlier run with the same cache key."""
        wanted = step_run["spec"].get("cacheKey")
        if not wanted:
            return False
        place = f"{meta.namespace(step_run)}/{wanted}"
        for one in self._steps.cache.indexed(_BY_CACHE_KEY, place):
            if objects.state_of(one).phase is Phase.SUCCEEDED and meta.uid(one) != meta.uid(step_run):
                message = f"{one['spec']['run']} has done the same"
                await self._end(step_run, Phase.CACHED, "Cached", message, outputs=objects.state_of(one).outputs)
                return True
        return False

    def _may_have_mutex(self, step_run: Object) -> bool:
        """Whether a step run may take its mutex; if so, it holds it."""
        for place in _mutexes(step_run):
            holder = self._holders.get(place)
            if holder == meta.uid(step_run):
                continue
            others = [
                one
                for one in self._steps.cache.indexed(_BY_MUTEX, place)
                if not objects.state_of(one).phase.over and meta.uid(one) != meta.uid(step_run)
            ]
            if holder is not None or any(map(self._is_busy, others)):
                return False
            if any(_came(one) < _came(step_run) for one in others):
                return False
            self._holders[place] = meta.uid(step_run)
        return True

    def _is_busy(self, step_run: Object) -> bool:
        """Whether a step run has an active attempt, recorded or not."""
        running = objects.state_of(step_run).phase is Phase.RUNNING
        return running or any(attempts.end_of(one) is None for one in self._begun(step_run))

    def _attempt(self, step_run: Object, number: int) -> Object | None:
        """The pod or Job of an attempt, from the cache."""
        name = objects.attempt_name(step_run, number)
        return next((one for one in self._begun(step_run) if meta.name(one) == name), None)

    def _begun(self, step_run: Object) -> Iterable[Object]:
        """The pods and Jobs of all attempts, from the cache."""
        for informer, kind in ((self._pods, "Pod"), (self._jobs, "Job")):
            for one in informer.cache.indexed(_BY_OWNER, meta.uid(step_run)):
                yield {**one, "kind": kind}

    async def _fetched(self, step_run: Object, number: int) -> Object | None:
        target, kind = (JOBS, "Job") if objects.is_job(step_run) else (PODS, "Pod")
        name = objects.attempt_name(step_run, number)
        try:
            found = await self._client.get(target, name, namespace=meta.namespace(step_run))
        except errors.NotFound:
            return None
        return {**found, "kind": kind} if (meta.controller_of(found) or {}).get("uid") == meta.uid(step_run) else None

    async def _pods_of(self, job: Object) -> list[Object]:
        """The pods of a gang, from the server."""
        selection = Selection(labels=f"{gangs.JOB_LABEL}={meta.name(job)}")
        found = await self._client.list(PODS, namespace=meta.namespace(job), selection=selection)
        return [one for one in found.items if (meta.controller_of(one) or {}).get("uid") == meta.uid(job)]

    async def _stdout(self, pod: Object) -> str:
        """The end of a pod's standard output; empty if it cannot be read."""
        parts: list[bytes] = []
        try:
            reading = pods.logs(self._client, meta.name(pod), namespace=meta.namespace(pod), tail_lines=1)
            async with reading as chunks:
                async for chunk in chunks:
                    parts.append(chunk)
                    if sum(map(len, parts)) > attempts.MOST_BYTES:
                        break
        except (errors.ApiError, TransportError):
            return ""
        return b"".join(parts)[: attempts.MOST_BYTES].decode(errors="replace")

    async def _end(self, step_run: Object, phase: Phase, reason: str, message: str, **more: Any) -> None:
        status = {name: value for name, value in (step_run.get("status") or {}).items() if name != "notBefore"}
        told = {
            **status,
            **{name: value for name, value in more.items() if value},
            "phase": phase.value,
            "reason": reason,
            "message": message,
            "finishedAt": times.format_micro_time(self._clock.now()),
        }
        await self._write(step_run, {name: value for name, value in told.items() if value != ""})

    async def _write(self, step_run: Object, status: Mapping[str, Any]) -> None:
        whole = {**step_run, "apiVersion": objects.VERSION, "kind": "StepRun", "status": dict(status)}
        learn(self._steps, await self._client.update(STEP_RUNS, whole, subresource="status"))


def _mutexes(step_run: Object) -> Iterable[str]:
    mutex = (step_run.get("spec") or {}).get("mutex")
    return [f"{meta.namespace(step_run)}/{mutex}"] if mutex else []


def _cache_keys(step_run: Object) -> Iterable[str]:
    key = step_run["spec"].get("cacheKey")
    return [f"{meta.namespace(step_run)}/{key}"] if key else []


def _owners(attempt: Object) -> Iterable[str]:
    owner = meta.controller_of(attempt)
    return [owner["uid"]] if owner is not None and owner["kind"] == "StepRun" else []


def _node(attempt: Object) -> str:
    return (attempt.get("spec") or {}).get("nodeName") or ""


def _came(step_run: Object) -> tuple[str, int, str]:
    """Sort key: order of creation; within one second, the order of items."""
    time = meta.metadata(step_run).get("creationTimestamp") or ""
    return time, step_run["spec"].get("index") or 0, meta.uid(step_run)


def _not_before(status: Mapping[str, Any]) -> float:
    return times.parse(status["notBefore"]) if status.get("notBefore") else 0.0


def _left_behind(pod: Object) -> str:
    """The content of the outputs files of a pod's containers."""
    ended = (pod.get("status") or {}).get("containerStatuses") or ()
    said = (((one.get("state") or {}).get("terminated") or {}).get("message") or "" for one in ended)
    return "\n".join(text for text in said if text)
