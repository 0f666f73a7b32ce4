"""Starts pipeline runs on schedule, updates the status of pipelines, and deletes old runs.

The name of a scheduled run is derived from its time, so it starts once. Which time is due is decided as for CronJobs.
Of finished runs, those that ended last are kept, as many as the pipeline says. A run with a retention time of its own
is deleted after it; a run without a pipeline is deleted after the default time.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rota.api import cron, errors, meta, times
from rota.api.meta import Object
from rota.api.pipelines import object_names
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Propagation
from rota.controllers.cron_jobs import runs as timetable
from rota.controllers.pipelines import objects
from rota.controllers.pipelines.objects import PIPELINES, RUNS
from rota.controllers.pipelines.states import RunPhase
from rota.controllers.pod_control import is_end_of_namespace
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

_BY_PIPELINE: Final = "pipeline"
_KEPT: Final = 10
#: How long a finished run is kept if neither the run nor a pipeline says so.
KEPT_S: Final = 7 * 24 * 3600
_SOON_S: Final = 0.05


class _Subject(NamedTuple):
    """A queue item: a pipeline, or a run that may have expired."""

    key: Key
    is_run: bool = False


class PipelineController:
    """Manages the schedule, status and history of all pipelines."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[_Subject](
            client, "pipelines", self._process, clock=clock, rng=rng, metrics=metrics
        )
        self._recorder: Final = self._frame.report_as("pipeline-controller")
        self._pipelines: Final = self._frame.follow(PIPELINES, self._pipeline_changed)
        self._runs: Final = self._frame.follow(RUNS, self._run_changed, indexers={_BY_PIPELINE: _pipelines})

    async def run(self) -> None:
        """Manage pipelines until cancelled."""
        await self._frame.run()

    def _pipeline_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        self._frame.queue.add(_Subject(key))
        if new is None:  # its runs now expire by the default time
            for run in self._runs.cache.indexed(_BY_PIPELINE, str(key)):
                self._frame.queue.add(_Subject(Key(key.namespace, meta.name(run)), is_run=True))

    def _run_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        name = ((new or old or {}).get("spec") or {}).get("pipeline")
        if name:
            self._frame.queue.add(_Subject(Key(key.namespace, name)))
        if new is not None and _is_over(new):
            self._frame.queue.add(_Subject(key, is_run=True))

    async def _process(self, subject: _Subject) -> float | None:
        key = subject.key
        if subject.is_run:
            return await self._expire(key)
        pipeline = self._pipelines.cache.get(key.name, key.namespace)
        if pipeline is None or meta.is_deleting(pipeline):
            return None
        try:
            return await self._keep(pipeline)
        except errors.NotFound:
            return None
        except errors.Conflict:
            return _SOON_S

    async def _expire(self, key: Key) -> float | None:
        """Delete a run that has expired; seconds until then."""
        known = self._runs.cache.get(key.name, key.namespace)
        if known is None or (left := self._left_s(known)) is None or left > 0:
            return None if known is None else left
        try:
            # the retention time may have been extended, or the run retried, without the cache showing it yet
            fresh = await self._client.get(RUNS, key.name, namespace=key.namespace)
            left = self._left_s(fresh)
            if left is not None and left <= 0:
                await self._delete(fresh, resource_version=str(meta.metadata(fresh)["resourceVersion"]))
        except (errors.NotFound, errors.Conflict):
            return None  # gone or changed: the watch reports it
        return left if left is not None and left > 0 else None

    def _left_s(self, run: Object) -> float | None:
        """Seconds until a run expires; None if it does not expire by time."""
        name = run["spec"].get("pipeline")
        spoken_for = bool(name) and self._pipelines.cache.get(name, meta.namespace(run)) is not None
        until = expires_at(run, spoken_for=spoken_for)
        return None if until is None or meta.is_deleting(run) else until - self._clock.now()

    async def _keep(self, pipeline: Object) -> float | None:
        place = f"{meta.namespace(pipeline)}/{meta.name(pipeline)}"
        runs = [one for one in self._runs.cache.indexed(_BY_PIPELINE, place) if not meta.is_deleting(one)]
        for one in outlived(pipeline, runs):
            with contextlib.suppress(errors.NotFound):
                await self._delete(one)
        again, status = await self._scheduled(pipeline, runs)
        told = {
            **status,
            "active": sorted(meta.name(one) for one in runs if not _is_over(one)),
            "lastRun": meta.name(max(runs, key=_came)) if runs else status.get("lastRun", ""),
        }
        told = {name: value for name, value in told.items() if value}
        if told != (pipeline.get("status") or {}):
            whole = {**pipeline, "apiVersion": objects.VERSION, "kind": "Pipeline", "status": told}
            await self._client.update(PIPELINES, whole, subresource="status")
        return again

    async def _scheduled(self, pipeline: Object, runs: Sequence[Object]) -> tuple[float | None, dict[str, Any]]:
        """Start the run that is due, if one is; seconds until the next one, and the new status."""
        status = dict(pipeline.get("status") or {})
        wish = pipeline["spec"].get("schedule")
        if not wish or wish.get("suspend"):
            return None, status
        timed = {**pipeline, "spec": {"schedule": wish["cron"], "timeZone": wish.get("timeZone")}}
        try:
            schedule, zone = cron.parse(wish["cron"]), timetable.zone(timed)
        except (cron.CronError, ValueError, OSError, LookupError) as problem:
            self._recorder.event(_complete(pipeline), "Warning", "InvalidSchedule", str(problem))
            return None, status
        now = self._clock.now()
        due = timetable.due(timed, schedule, zone, now=now)
        if due is not None and await self._begin(pipeline, wish, due.at, runs):
            status["lastScheduleTime"] = times.format_time(due.at)
            timed = {**timed, "status": status}
        return timetable.next_in_s(timed, schedule, zone, now=now), status

    async def _begin(self, pipeline: Object, wish: Mapping[str, Any], at: float, runs: Sequence[Object]) -> bool:
        """Start a run unless the concurrency policy forbids it; whether that scheduled time is done."""
        going = [one for one in runs if not _is_over(one)]
        policy = wish.get("concurrencyPolicy") or "Allow"
        if going and policy == "Forbid":
            message = f"{meta.name(going[0])} still goes on"
            self._recorder.event(_complete(pipeline), "Normal", "RunSkipped", message)
            return True
        if policy == "Replace":
            for one in going:
                await self._client.patch(
                    RUNS, meta.name(one), {"spec": {"cancel": True}}, namespace=meta.namespace(one)
                )
        made = run_of(pipeline, timetable.name(pipeline, at), wish.get("parameters") or ())
        try:
            await self._client.create(RUNS, made)
        except errors.AlreadyExists:
            return True
        except errors.ApiError as problem:
            if is_end_of_namespace(problem):
                return True
            raise
        self._recorder.event(_complete(pipeline), "Normal", "RunStarted", f"Started run {meta.name(made)}")
        return True

    async def _delete(self, run: Object, *, resource_version: str = "") -> None:
        await self._client.delete(
            RUNS,
            meta.name(run),
            namespace=meta.namespace(run),
            uid=meta.uid(run),
            resource_version=resource_version,
            propagation=Propagation.BACKGROUND,
        )


def run_of(pipeline: Object, name: str, parameters: Sequence[Mapping[str, str]]) -> Object:
    """A run of a pipeline, owned by the pipeline."""
    return {
        "apiVersion": objects.VERSION,
        "kind": "PipelineRun",
        "metadata": {
            "name": object_names.short(name),
            "namespace": meta.namespace(pipeline),
            "labels": {object_names.PIPELINE_LABEL: object_names.label(meta.name(pipeline))},
            "ownerReferences": [meta.controller_reference(_complete(pipeline))],
        },
        "spec": {"pipeline": meta.name(pipeline), **({"parameters": list(parameters)} if parameters else {})},
    }


def outlived(pipeline: Object, runs: Iterable[Object]) -> list[Object]:
    """Finished runs beyond the pipeline's history limit."""
    kept = pipeline["spec"].get("historyLimit") or _KEPT
    over = sorted((one for one in runs if _is_over(one)), key=_ended, reverse=True)
    return over[kept:]


def expires_at(run: Object, *, spoken_for: bool) -> float | None:
    """When a run expires; None if it is active, or its pipeline has a history limit."""
    kept_s = run["spec"].get("ttlSecondsAfterFinished")
    if kept_s is None and not spoken_for:
        kept_s = KEPT_S
    ended = (run.get("status") or {}).get("finishedAt")
    return times.parse(ended) + kept_s if _is_over(run) and ended and kept_s is not None else None


def _pipelines(run: Object) -> Iterable[str]:
    name = run["spec"].get("pipeline")
    return [f"{meta.namespace(run)}/{name}"] if name else []


def _is_over(run: Object) -> bool:
    phase = (run.get("status") or {}).get("phase")
    return bool(phase) and RunPhase(phase).over


def _ended(run: Object) -> tuple[str, str]:
    return (run.get("status") or {}).get("finishedAt") or "", meta.name(run)


def _came(run: Object) -> tuple[str, str]:
    return meta.metadata(run).get("creationTimestamp") or "", meta.name(run)


def _complete(pipeline: Object) -> Object:
    return {**pipeline, "apiVersion": objects.VERSION, "kind": "Pipeline"}
