"""The scheduling loop: has the core make attempts, and carries out their effects on the event loop.

Decisions are made in slices of a few milliseconds, so that informers, bindings and an API server in the same process
can run in between. Extender calls, bindings, evictions and status patches run concurrently. What is decided, and when
a pod returns to the queue, is in `scheduler/core/`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

from rota.api import gpu_devices
from rota.api.errors import ApiError
from rota.client.events.recorder import EventRecorder
from rota.client.transports.transport import TransportError
from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.binding.binding_cycle import BindingCycles
from rota.scheduler.binding.dispatch_mode import Dispatcher
from rota.scheduler.core.attempts import Attempt, Turn
from rota.scheduler.core.effects import (
    AskExtenders,
    AskExtendersForVictims,
    AttemptFailed,
    Bind,
    Bound,
    Effect,
    Evict,
    Fault,
    LostRace,
    PatchStatus,
    PermitEnded,
    RecordEvent,
    Released,
)
from rota.scheduler.core.events import BindingEnded, Event, EvictionsEnded, ExtendersAnswered, VictimsAnswered
from rota.scheduler.core.scheduler_core import SchedulerCore
from rota.scheduler.cycle.scheduling_cycle import AssumedPod, ExtenderResult
from rota.scheduler.extenders.chain import ExtenderChain
from rota.scheduler.extenders.extender_interface import ClusterReader
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.status import Status
from rota.scheduler.observability import scheduler_metrics, tracing
from rota.scheduler.observability.scheduler_metrics import SchedulerMetrics
from rota.scheduler.observability.tracing import Tracer
from rota.scheduler.preemption.evictions import Evictions
from rota.scheduler.status import fit_errors, object_references
from rota.scheduler.status.fit_errors import FitError
from rota.scheduler.status.pod_status import PodStatusWriter

log = logs.get(__name__)

#: Length of a slice of decisions before other tasks run.
SLICE_S: Final = 0.004


@dataclass(slots=True)
class Collaborators:
    """The parts that effects need; the extenders change when a configuration is loaded."""

    extender_chain: ExtenderChain
    cluster_reader: ClusterReader
    notes: PodStatusWriter
    recorder: EventRecorder
    figures: SchedulerMetrics
    clock: Clock
    #: None if bound pods are not pushed to workers.
    dispatcher: Dispatcher | None


class SchedulingLoop:
    """Drives a core while `run` runs; events may be fed at any time."""

    def __init__(self, core: SchedulerCore, using: Collaborators) -> None:
        self.core: Final = core
        self.using: Final = using
        self._awake: Final = asyncio.Event()
        self._began_at = 0.0
        self.tracer: Tracer | None = None
        self.binding: BindingCycles
        self.evictions: Evictions
        core.waiting.wake = self.wake
        core.observers.append(self._measure)
        self._actions: Final[Mapping[type, Callable[[Any], None]]] = {
            Bind: self._bind,
            Evict: self._evict,
            PatchStatus: self._patch,
            RecordEvent: self._record,
            Bound: self._bound,
            AttemptFailed: self._failed,
            LostRace: self._lost_race,
            PermitEnded: self._permit_ended,
            Released: self._released,
            Fault: self._fault,
        }

    def wake(self) -> None:
        """Check for work."""
        self._awake.set()

    def feed(self, event: Event) -> None:
        """Tell the core about a change of the cluster."""
        effects = self.core.handle(event, self.using.clock.monotonic())
        if effects:
            self._act(effects)
        if self.core.ready:
            self.wake()

    async def run(self) -> None:
        """Make attempts until cancelled; attempts in progress are finished before this returns."""
        try:
            while True:
                if not await self._work():
                    await self._rest()
                else:
                    await asyncio.sleep(0)
        finally:
            self._act(self.core.stop(self.using.clock.monotonic()))
            await self.binding.close()
            await self.evictions.close()
            await self.using.notes.close()

    async def _work(self) -> bool:
        """Make attempts for one slice; returns whether there may be more to do."""
        clock, core = self.using.clock, self.core
        now = clock.monotonic()
        until = now + SLICE_S
        self._awake.clear()
        while now < until:
            self._act(core.end_waits(now))
            turn = core.next_turn(now)
            if turn is None:
                return False
            self._began_at = now
            with nullcontext() if self.tracer is None else tracing.attempt(self.tracer, turn.pod):
                await self._attempt(turn, now)
            now = clock.monotonic()
        return True

    async def _attempt(self, turn: Turn, now: float) -> None:
        effects = self.core.attempt(turn, now)
        while effects and isinstance(effects[-1], AskExtenders | AskExtendersForVictims):
            self._act(effects[:-1])
            answered = await self._asked(effects[-1])
            effects = self.core.handle(answered, self.using.clock.monotonic())
        self._act(effects)

    async def _rest(self) -> None:
        """Wait for work."""
        clock = self.using.clock
        due = self.core.next_timer()
        if due is None:
            await self._awake.wait()
            return
        try:
            await clock.wait_for(self._awake.wait(), max(due - clock.monotonic(), 0.001))
        except TimeoutError:
            return

    # --- extenders ----------------------------------------------------------------------------------------------------

    async def _asked(self, question: AskExtenders | AskExtendersForVictims) -> Event:
        try:
            if isinstance(question, AskExtenders):
                return ExtendersAnswered(await self._advice(question.document, question.node_names))
            left = await self.using.extender_chain.preempt(question.document, question.candidates)
            return VictimsAnswered(left)
        except Exception as error:  # noqa: BLE001 - the attempt fails, and `_failed` logs the error
            status = statuses.fault(error)
            if isinstance(question, AskExtenders):
                return ExtendersAnswered(fit_errors.of_status(status))
            return VictimsAnswered(status)

    async def _advice(self, document: Mapping[str, Any], names: Sequence[str]) -> ExtenderResult | FitError:
        """Call the extenders for the feasible nodes."""
        extender_chain = self.using.extender_chain
        narrowed = await extender_chain.filter(document, names)
        if narrowed.failure is not None:
            return fit_errors.of_status(narrowed.failure)
        scores = await extender_chain.prioritize(document, narrowed.feasible) if len(narrowed.feasible) > 1 else {}
        return ExtenderResult(allowed=frozenset(narrowed.feasible), refusals=narrowed.refusals, scores=scores)

    # --- results of effects -------------------------------------------------------------------------------------------

    def ended(self, taken: AssumedPod, status: Status) -> None:
        """A binding succeeded or failed."""
        self._report(BindingEnded(taken, status))

    def evicted(self, preemptor: PodInfo, victims: Sequence[PodInfo], *, failed: bool) -> None:
        """Evictions have ended."""
        self._report(EvictionsEnded(preemptor, victims, failed))

    def revoke(self, uid: str, why: str) -> bool:
        """Revoke a placement if its binding has not begun; returns whether it was revoked."""
        return self.core.revoke(uid, why) or self.binding.revoke(uid, why)

    def _report(self, event: Event) -> None:
        self._act(self.core.handle(event, self.using.clock.monotonic()))
        # Also if no pod is ready: timers may have changed.
        self.wake()

    # --- effects ------------------------------------------------------------------------------------------------------

    def _act(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            try:
                self._actions[type(effect)](effect)
            except Exception as error:
                # The core has decided already: the other effects hold, or it would wait for them for ever.
                log.exception("effect failed", error=error, effect=type(effect).__name__)

    def _bind(self, effect: Bind) -> None:
        try:
            self.binding.start(effect.taken)
        except Exception as error:  # noqa: BLE001 - the pod returns to the queue, and `_failed` logs the error
            self._report(BindingEnded(effect.taken, statuses.fault(error)))

    def _evict(self, effect: Evict) -> None:
        self.using.figures.preemptions.inc()
        self.using.figures.victims.observe(len(effect.victims))
        try:
            self.evictions.start(effect.preemptor, effect.node_name, effect.victims)
        except Exception as error:
            log.exception("evictions not started", error=error, pod=effect.preemptor.key)
            # Ended without victims, and not failed: that would try the pod again at once, with the same result.
            self._report(EvictionsEnded(effect.preemptor, (), failed=False))

    def _patch(self, effect: PatchStatus) -> None:
        self.using.notes.write(effect.pod, effect.patch)

    def _record(self, effect: RecordEvent) -> None:
        about = object_references.of_pod(effect.pod)
        self.using.recorder.event(about, effect.type, effect.reason, effect.message, action=effect.action)

    def _bound(self, effect: Bound) -> None:
        using, pod = self.using, effect.pod
        now = using.clock.monotonic()
        using.figures.bound(effect.attempts, now - effect.first_queued_at)
        using.figures.attempted(scheduler_metrics.SCHEDULED, pod.shape.scheduler_name, now - effect.began_at)
        if using.dispatcher is not None and (manifest := self._dispatched(pod, effect.node_name)) is not None:
            using.dispatcher.bound(manifest, effect.node_name, using.cluster_reader.node(effect.node_name))

    def _failed(self, effect: AttemptFailed) -> None:
        pod, refusal = effect.pod, effect.refusal
        if refusal.error:
            _log_failure(pod, refusal)
        result = scheduler_metrics.ERROR if refusal.error else scheduler_metrics.UNSCHEDULABLE
        took_s = self.using.clock.monotonic() - effect.began_at
        self.using.figures.attempted(result, pod.shape.scheduler_name, took_s)

    def _lost_race(self, effect: LostRace) -> None:
        self.using.figures.lost_race()

    def _permit_ended(self, effect: PermitEnded) -> None:
        self.using.figures.permit_wait_s.labels(effect.status.code.value).observe(effect.waited_s)

    def _released(self, effect: Released) -> None:
        self.using.notes.forget(effect.uid)
        if effect.node_name:
            self.binding.seen(effect.uid, effect.node_name)

    def _fault(self, effect: Fault) -> None:
        if isinstance(effect.problem, Status):
            log.warning(effect.message, pod=effect.pod.key, plugin=effect.problem.plugin)
        else:
            log.exception(effect.message, error=effect.problem, pod=effect.pod.key)

    def _dispatched(self, pod: PodInfo, node_name: str) -> Mapping[str, Any] | None:
        """The pod as its worker gets it ahead of the watch; None if only the API server knows which devices it has."""
        manifest = pod.manifest
        node = self.core.cache.cluster.by_name.get(node_name)
        shared = node is not None and gpu_devices.shareable(node.allocatable)
        if manifest is None or not shared or not gpu_devices.demand(pod.shape.requests).gpus:
            return manifest
        if not pod.gpu_devices:
            return None
        metadata = manifest["metadata"]
        named = {gpu_devices.ANNOTATION: gpu_devices.shown(pod.gpu_devices)}
        return {**manifest, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **named}}}

    def _measure(self, attempt: Attempt) -> None:
        self.using.figures.algorithm_s.observe(self.using.clock.monotonic() - self._began_at)


def _log_failure(pod: PodInfo, refusal: FitError) -> None:
    """Log the traceback of an error in a plugin; an error of the API is logged in one line."""
    error = refusal.status.error
    if error is None or isinstance(error, ApiError | TransportError):
        log.warning("attempt failed", pod=pod.key, message=refusal.message)
    else:
        log.exception("attempt failed", error=error, pod=pod.key, plugin=refusal.status.plugin, message=refusal.message)
