"""Executes pipeline runs: starts, stops and skips steps as `engine` decides, and updates the status of runs.

A run copies the pipeline when it starts; later changes of the pipeline do not affect it. Names of step runs are derived
from step and item, so a decision that is made twice, because of a stale cache or a new leader, creates nothing twice.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from rota.api import errors, fields, meta, times
from rota.api.meta import Object
from rota.api.pipelines import object_names, pipeline_validation
from rota.api.pipelines.graphs import Graph
from rota.client.informers.cache import Key
from rota.client.reconciler import Reconciler
from rota.client.verbs import Client, Propagation
from rota.controllers.pipelines import engine, objects
from rota.controllers.pipelines.cache_write_through import learn
from rota.controllers.pipelines.objects import PIPELINES, RUNS, SECRETS, STEP_RUNS
from rota.controllers.pipelines.progress import Progress, RunState
from rota.controllers.pipelines.states import Decision, Phase, RunPhase, StepKey
from rota.controllers.pod_control import is_end_of_namespace
from rota.kit.backoff import Rng
from rota.kit.clock import Clock
from rota.kit.metrics import Metrics

_BY_RUN: Final = "run"
_AT_ONCE: Final = 16
#: The shortest interval between writes of changed counts.
_COUNTS_EVERY_S: Final = 1.0
_SOON_S: Final = 0.05
#: The longest message.
_WORDS: Final = 1000
#: Phases that a retry of the run keeps.
_LASTING: Final = frozenset({Phase.SUCCEEDED, Phase.CACHED})


class PipelineRunController:
    """Executes all runs."""

    def __init__(self, client: Client, *, clock: Clock, rng: Rng, metrics: Metrics | None = None) -> None:
        self._client: Final = client
        self._clock: Final = clock
        self._frame: Final = Reconciler[Key](
            client, "pipeline runs", self._process, clock=clock, rng=rng, workers=4, metrics=metrics
        )
        self._recorder: Final = self._frame.report_as("pipeline-controller")
        self._runs: Final = self._frame.follow(RUNS, self._run_changed)
        self._steps: Final = self._frame.follow(STEP_RUNS, self._step_changed, indexers={_BY_RUN: _run_uids})
        #: When counts were last written, by the run's uid.
        self._counted_at: Final[dict[str, float]] = {}
        #: Dependencies in active runs, by uid; the pipeline of a run does not change.
        self._waits: Final[dict[str, Graph]] = {}
        #: Progress of active runs, by uid.
        self._progress: Final[dict[str, Progress]] = {}

    async def run(self) -> None:
        """Execute runs until cancelled."""
        await self._frame.run()

    def _run_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._forget(meta.uid(old))
        self._frame.queue.add(key)

    def _forget(self, uid: str) -> None:
        self._counted_at.pop(uid, None)
        self._waits.pop(uid, None)
        self._progress.pop(uid, None)

    def _step_changed(self, key: Key, old: Object | None, new: Object | None) -> None:
        one = new or old or {}
        is_there = new is not None and not meta.is_deleting(new)
        before, after = (None if it is None else objects.state_of(it) for it in (old, new))
        for uid in _run_uids(one):
            if uid in self._progress and is_there and after is not None:
                self._progress[uid].put(objects.key_of(one), after)
            elif uid in self._progress:
                self._progress[uid].drop(objects.key_of(one))
        run = Key(key.namespace, one["spec"]["run"])
        if not is_there or after is None or after.phase.over or (after.node and (before is None or not before.node)):
            self._frame.queue.add(run)
        elif before != after:  # no decision depends on it, but the counts change
            self._frame.queue.add_after(run, _COUNTS_EVERY_S)

    async def _process(self, key: Key) -> float | None:
        run = self._runs.cache.get(key.name, key.namespace)
        if run is None or meta.is_deleting(run):
            return None
        try:
            return await self._advance(run)
        except errors.NotFound:
            return None
        except errors.Conflict:
            return _SOON_S

    async def _advance(self, run: Object) -> float | None:
        status, spec = run.get("status") or {}, run["spec"]
        if status.get("phase") and RunPhase(status["phase"]).over:
            if (spec.get("retry") or 0) <= (status.get("observedRetry") or 0):
                self._forget(meta.uid(run))
                return None
            reopened = await self._reopen(run)
            if reopened is None:
                return _SOON_S
            run = reopened
        if "spec" not in (run.get("status") or {}):
            begun = await self._begin(run)
            if begun is None:
                return None
            run = begun
        if meta.uid(run) not in self._waits:
            self._waits[meta.uid(run)] = objects.waits(run)
        state = objects.run_state(run, self._progress_of(run), waits=self._waits[meta.uid(run)])
        decision = engine.decide(state, now=self._clock.now())
        run = await self._with_workspace(run, state)
        all_made = await self._make(run, state, decision)
        await self._stop(run, decision)
        again = await self._tell(run, state, decision)
        # not at once: step runs of a former run of the same name may still exist
        return _SOON_S if decision.more and all_made else again

    def _progress_of(self, run: Object) -> Progress:
        """The progress of a run: built once, then updated by the watch."""
        uid = meta.uid(run)
        if uid not in self._progress:
            found = [one for one in self._steps.cache.indexed(_BY_RUN, uid) if not meta.is_deleting(one)]
            self._progress[uid] = Progress({objects.key_of(one): objects.state_of(one) for one in found})
        return self._progress[uid]

    async def _begin(self, run: Object) -> Object | None:
        """Copy the pipeline into the run; a run that cannot start has failed."""
        spec = run["spec"]
        pipeline, owner = spec.get("pipelineSpec"), _complete(run)
        if pipeline is None:
            try:
                found = await self._client.get(PIPELINES, spec["pipeline"], namespace=meta.namespace(run))
            except errors.NotFound:
                await self._fail(run, "PipelineNotFound", f"there is no pipeline {spec['pipeline']}")
                return None
            pipeline, owner = found["spec"], {**found, "apiVersion": objects.VERSION, "kind": "Pipeline"}
        wrong = pipeline_validation.check_values(
            pipeline, spec.get("parameters") or [], fields.Path("spec").child("parameters")
        )
        if wrong:
            await self._fail(run, "InvalidParameters", "; ".join(map(str, wrong)))
            return None
        now = times.format_time(self._clock.now())
        status = {
            "phase": RunPhase.RUNNING.value,
            "startedAt": now,
            "spec": pipeline,
            "observedRetry": spec.get("retry") or 0,
        }
        if objects.signs(pipeline):
            try:
                status["signingSecret"] = await self._signing_secret(owner)
            except errors.Forbidden as problem:
                if not is_end_of_namespace(problem):
                    await self._fail(run, "NoSigningSecret", f"its steps cannot sign their outputs: {problem}")
                return None
        begun = await self._write(run, status)
        self._counted_at[meta.uid(run)] = self._clock.monotonic()
        self._recorder.event(_complete(run), "Normal", "Started", "The run has begun")
        return begun

    async def _signing_secret(self, owner: Object) -> str:
        """The Secret by which steps of a pipeline sign outputs. Its first run creates it; no controller reads it."""
        wanted = objects.signing_secret(owner, key=secrets.token_hex(32))
        with contextlib.suppress(errors.AlreadyExists):
            await self._client.create(SECRETS, wanted)
        return meta.name(wanted)

    async def _reopen(self, run: Object) -> Object | None:
        """Delete the step runs that must be repeated; None while some still exist."""
        known = self._steps.cache.indexed(_BY_RUN, meta.uid(run))
        waits = objects.waits(run) if "spec" in run["status"] else {}
        ended = [one["name"] for one in (run["status"].get("spec") or {}).get("onExit") or ()]
        again = outdated(known, waits, last=ended)
        if again:
            await _each(self._delete, again)
            return None  # the watch reports their deletion
        status = {
            **{name: value for name, value in run["status"].items() if name not in {"finishedAt", "reason", "message"}},
            "phase": RunPhase.RUNNING.value,
            "observedRetry": run["spec"].get("retry") or 0,
            "startedAt": times.format_time(self._clock.now()),
        }
        reopened = await self._write(run, status)
        self._recorder.event(_complete(run), "Normal", "Retried", "What did not succeed is done again")
        return reopened

    async def _with_workspace(self, run: Object, state: RunState) -> Object:
        """The run with the node of its shared folder, once a step has been scheduled."""
        status = run["status"]
        if state.spec.get("workspace") is None or status.get("workspaceNode"):
            return run
        node = next(iter(_nodes(state, [step["name"] for step in (*state.main, *state.last)])), "")
        return await self._write(run, {**status, "workspaceNode": node}) if node else run

    async def _make(self, run: Object, state: RunState, decision: Decision) -> bool:
        """Create step runs; whether all were created, or some wait until the node of the shared folder is known."""
        wanted = list(decision.make)
        if state.spec.get("workspace") is not None and not run["status"].get("workspaceNode"):
            # the first scheduled step determines the folder's node; until then only one runs
            first = [one for one in wanted if not one.phase.over][: 0 if state.steps.going else 1]
            wanted = [one for one in wanted if one.phase.over or one in first]
        now = self._clock.now()
        made = [objects.step_run(run, new, now=now, near=_nodes(state, new.spec.get("near") or ())) for new in wanted]
        await _each(self._create, made)
        return len(made) == len(decision.make)

    async def _create(self, step_run: Object) -> None:
        try:
            learn(self._steps, await self._client.create(STEP_RUNS, step_run))
        except errors.AlreadyExists:
            return  # created before, and not in the cache yet; or of a former run of the same name
        except (errors.Invalid, errors.BadRequest, errors.RequestEntityTooLarge) as problem:
            if "status" in step_run:
                raise  # not the template: this is the bare record
            # the replaced expressions made an invalid object: the error is recorded in a step run that has failed
            bare = {name: step_run["spec"][name] for name in ("run", "step", "index") if name in step_run["spec"]}
            ended = {"phase": Phase.FAILED.value, "reason": "InvalidTemplate", "message": str(problem)[:_WORDS]}
            ended["finishedAt"] = times.format_micro_time(self._clock.now())
            await self._create({**step_run, "spec": bare, "status": ended})
        except errors.ApiError as problem:
            if not is_end_of_namespace(problem):
                raise

    async def _stop(self, run: Object, decision: Decision) -> None:
        found = [self._step_run(run, key) for key in decision.stop]
        await _each(self._cancel, [one for one in found if one is not None and not one["spec"].get("cancel")])

    def _step_run(self, run: Object, key: StepKey) -> Object | None:
        return self._steps.cache.get(object_names.step_run(meta.name(run), *key), meta.namespace(run))

    async def _cancel(self, step_run: Object) -> None:
        change = {"spec": {"cancel": True}}
        with contextlib.suppress(errors.NotFound):
            where = meta.namespace(step_run)
            learn(self._steps, await self._client.patch(STEP_RUNS, meta.name(step_run), change, namespace=where))

    async def _delete(self, step_run: Object) -> None:
        with contextlib.suppress(errors.NotFound):
            await self._client.delete(
                STEP_RUNS,
                meta.name(step_run),
                namespace=meta.namespace(step_run),
                uid=meta.uid(step_run),
                propagation=Propagation.BACKGROUND,
            )

    async def _tell(self, run: Object, state: RunState, decision: Decision) -> float | None:
        """Write the status if it has changed; seconds until the next round."""
        status = run["status"]
        told = {
            **{name: value for name, value in status.items() if name not in {"reason", "message", "counts"}},
            "phase": decision.phase.value,
            "counts": engine.counts(state.steps),
            **({"reason": decision.reason} if decision.reason else {}),
            **({"message": decision.message} if decision.message else {}),
        }
        now = self._clock.now()
        again = None if decision.wake_at is None else max(0.0, decision.wake_at - now)
        if decision.phase.over:
            told["finishedAt"] = times.format_time(now)
            message = decision.message or "all steps are done"
            well = decision.phase is RunPhase.SUCCEEDED
            self._recorder.event(_complete(run), "Normal" if well else "Warning", decision.phase.value, message)
        elif {**told, "counts": None} == {**status, "counts": None}:
            if told["counts"] == status.get("counts"):
                return again
            waited = self._clock.monotonic() - self._counted_at.get(meta.uid(run), -_COUNTS_EVERY_S)
            if waited < _COUNTS_EVERY_S:
                return min(_COUNTS_EVERY_S - waited, _COUNTS_EVERY_S if again is None else again)
        self._counted_at[meta.uid(run)] = self._clock.monotonic()
        await self._write(run, told)
        return again

    async def _fail(self, run: Object, reason: str, message: str) -> None:
        now = times.format_time(self._clock.now())
        status = {
            "phase": RunPhase.FAILED.value,
            "reason": reason,
            "message": message,
            "finishedAt": now,
            "observedRetry": run["spec"].get("retry") or 0,
        }
        self._recorder.event(_complete(run), "Warning", reason, message)
        await self._write(run, status)

    async def _write(self, run: Object, status: Mapping[str, Any]) -> Object:
        whole = {**_complete(run), "status": dict(status)}
        return learn(self._runs, await self._client.update(RUNS, whole, subresource="status"))


async def _each(act: Callable[[Object], Awaitable[None]], step_runs: Sequence[Object]) -> None:
    """Apply an operation to many objects with limited concurrency."""
    for start in range(0, len(step_runs), _AT_ONCE):
        await asyncio.gather(*map(act, step_runs[start : start + _AT_ONCE]))


def outdated(step_runs: Sequence[Object], waits: Graph, *, last: Iterable[str]) -> list[Object]:
    """The step runs that a retry repeats: unsuccessful ones, all that came after them, and the final steps.

    A step that ran after a failure, whether because of it or despite it, used an outdated result. Unsuccessful step
    runs are deleted last: after an interruption they show what else must be deleted.
    """
    failed = [one for one in step_runs if objects.state_of(one).phase not in _LASTING]
    after, found = {one["spec"]["step"] for one in failed}, set(last)
    while after:
        after = {name for name, others in waits.items() if others & after and name not in found}
        found |= after
    lasting = (one for one in step_runs if objects.state_of(one).phase in _LASTING)
    return [*(one for one in lasting if one["spec"]["step"] in found), *failed]


def _run_uids(step_run: Object) -> Iterable[str]:
    owner = meta.controller_of(step_run)
    return [owner["uid"]] if owner is not None else []


def _complete(run: Object) -> Object:
    """An object with its apiVersion and kind, which items of lists lack."""
    return {**run, "apiVersion": objects.VERSION, "kind": "PipelineRun"}


def _nodes(state: RunState, steps: Sequence[str]) -> list[str]:
    """The nodes on which some steps ran."""
    tallies = [tally for name in steps if (tally := state.steps.of(name)) is not None]
    return sorted({node for tally in tallies for node, count in tally.nodes.items() if count})
