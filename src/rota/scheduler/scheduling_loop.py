"""The scheduling loop: pops pods from the queue and runs their scheduling cycles.

Decisions are made on the event loop in slices of a few milliseconds, so that informers, bindings and an API server in
the same process can run in between. Extender calls, bindings, evictions and status patches run concurrently. Every
popped pod ends in one of three ways: it is bound, it is back in the queue, or it is deleted. If a binding loses a race
with another scheduler, the next-best node is tried before the pod returns to the queue.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rota.api.errors import ApiError
from rota.client.events.recorder import EventRecorder
from rota.client.transports.transport import TransportError
from rota.columns.pods import PodInfo
from rota.kit import logs
from rota.kit.clock import Clock
from rota.scheduler.binding import bind_requests
from rota.scheduler.binding.binding_cycle import BindingCycles
from rota.scheduler.binding.dispatch_mode import Dispatcher
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.scheduler.cycle.scheduling_cycle import AssumedPod, ExtenderResult, SchedulingCycle
from rota.scheduler.extenders import preemption_candidates
from rota.scheduler.extenders.chain import ExtenderChain
from rota.scheduler.extenders.extender_interface import ClusterReader
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_interfaces import ExtensionPoint, PostFilterResult
from rota.scheduler.framework.state import PODS_TO_ACTIVATE
from rota.scheduler.framework.status import SUCCESS, Status
from rota.scheduler.hints.hint_text import Hints
from rota.scheduler.ingest.event_handlers import ASSIGNED_DELETE
from rota.scheduler.observability import scheduler_metrics, tracing
from rota.scheduler.observability.scheduler_metrics import SchedulerMetrics
from rota.scheduler.observability.tracing import Tracer
from rota.scheduler.preemption import victims
from rota.scheduler.preemption.evictions import Evictions
from rota.scheduler.queue.scheduling_queue import SchedulingQueue
from rota.scheduler.status import fit_errors, object_references
from rota.scheduler.status.fit_errors import FitError, PodStatusPatch
from rota.scheduler.status.pod_status import PodStatusWriter

log = logs.get(__name__)

#: Length of a slice of decisions before other tasks run.
SLICE_S: Final = 0.004
#: Limit of placements that are not bound yet.
MOST_UNBOUND: Final = 1024
#: Number of nodes on which a pod is tried after lost races, before it returns to the queue.
MOST_NODES: Final = 8
#: How often backoffs are checked while the queue is never empty.
_FLUSH_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of one attempt, for observers; the evaluation is valid until the cluster changes."""

    pod: PodInfo
    evaluation: Evaluation
    node_name: str | None
    refusal: FitError | None
    start: int
    avoiding: frozenset[str]
    advice: ExtenderResult | None
    #: Whether PostFilter ran if no node was feasible.
    make_room: bool


class _StartedAttempt(NamedTuple):
    """The start of an attempt."""

    at: float
    #: The number of this attempt, and when the pod was first queued.
    attempts: int
    first_queued_at: float


@dataclass(slots=True)
class Collaborators:
    """The parts that attempts need; the queue and the cycles change when a configuration is loaded."""

    cache: SchedulerCache
    queue: SchedulingQueue
    #: By scheduler name.
    cycles: Mapping[str, SchedulingCycle]
    extender_chain: ExtenderChain
    cluster_reader: ClusterReader
    notes: PodStatusWriter
    recorder: EventRecorder
    figures: SchedulerMetrics
    clock: Clock
    #: None if bound pods are not pushed to workers.
    dispatcher: Dispatcher | None


class SchedulingLoop:
    """Makes attempts while `run` runs."""

    def __init__(self, using: Collaborators, *, start: int) -> None:
        """`start` is the row at which a search among equally good nodes begins: different for every scheduler."""
        self.using: Final = using
        self._start: Final = start
        self._awake: Final = asyncio.Event()
        #: Pods that lost a race for their node, with the nodes on which they were tried.
        self._bind_conflicts: Final[deque[tuple[PodInfo, frozenset[str]]]] = deque()
        self._tried: Final[dict[str, frozenset[str]]] = {}
        #: The attempts that have not ended, by pod.
        self._began: Final[dict[str, _StartedAttempt]] = {}
        self._flushed = 0.0
        self._hints: Final = Hints()
        self.tracer: Tracer | None = None
        self.observers: Final[list[Callable[[Attempt], None]]] = []
        self.binding: BindingCycles
        self.evictions: Evictions

    def wake(self) -> None:
        """Check for work."""
        self._awake.set()

    async def run(self) -> None:
        """Make attempts until cancelled; attempts in progress are finished before this returns."""
        try:
            while True:
                if not await self._work():
                    await self._rest()
                else:
                    await asyncio.sleep(0)
        finally:
            await self._wind_up()

    async def _wind_up(self) -> None:
        while self._bind_conflicts:
            pod, _ = self._bind_conflicts.popleft()
            self._began.pop(pod.uid, None)
            self.using.queue.requeue(pod.uid, now=self.using.clock.monotonic())
        await self.binding.close()
        await self.evictions.close()
        await self.using.notes.close()

    async def _work(self) -> bool:
        """Make attempts for one slice; returns whether there may be more to do."""
        clock = self.using.clock
        now = clock.monotonic()
        until = now + SLICE_S
        self._awake.clear()
        if now >= self._flushed + _FLUSH_EVERY_S:
            self._flushed = now
            self.using.queue.flush(now)
        while now < until:
            if len(self._began) >= MOST_UNBOUND:
                return False
            if self._bind_conflicts:
                pod, avoiding = self._bind_conflicts.popleft()
            else:
                # Read each time: another configuration may have been loaded while an attempt waited for extenders.
                queued = self.using.queue.pop(now)
                if queued is None:
                    return False
                pod, avoiding = queued.pod, frozenset()
            await self._attempt(pod, avoiding, now)
            now = clock.monotonic()
        return True

    async def _rest(self) -> None:
        """Wait for work."""
        clock = self.using.clock
        due = self.using.queue.next_wakeup()
        if due is None or len(self._began) >= MOST_UNBOUND:
            await self._awake.wait()
            return
        try:
            await clock.wait_for(self._awake.wait(), max(due - clock.monotonic(), 0.001))
        except TimeoutError:
            self.using.queue.flush(clock.monotonic())

    # --- one attempt ------------------------------------------------------------------------------------------------

    async def _attempt(self, pod: PodInfo, avoiding: frozenset[str], now: float) -> None:
        using = self.using
        if using.cache.is_assumed(pod.uid):
            # It is being bound by a profile that was removed and added again: that attempt goes on and ends by its
            # result.
            using.queue.done(pod.uid)
            return
        self._began.pop(pod.uid, None)
        queued = using.queue.get(pod.uid)
        if queued is None:
            return
        if pod.terminating:
            using.queue.delete(pod.uid)
            self._say_failed(pod, f"skip schedule deleting pod: {pod.key}")
            return
        if pod.uid in using.cache.cluster.pods:
            # It has a node, which the watch will show; until then it stays known.
            using.queue.done(pod.uid)
            return
        self._began[pod.uid] = _StartedAttempt(now, queued.attempts, queued.first_queued_at)
        if self.tracer is None:
            await self._try(pod, avoiding)
        else:
            with tracing.attempt(self.tracer, pod):
                await self._try(pod, avoiding)

    async def _try(self, pod: PodInfo, avoiding: frozenset[str]) -> None:
        using = self.using
        cycle = using.cycles[pod.shape.scheduler_name]
        try:
            evaluation = cycle.evaluate(pod, nominations=using.queue.nominations())
            advice = await self._advice(cycle, evaluation, pod) if using.extender_chain else None
            if using.cycles.get(pod.shape.scheduler_name) is not cycle:
                self._again(pod)
                return
            if isinstance(advice, FitError):
                self._fail(pod, advice)
                return
            if advice is not None:
                # The cluster and the nominations may have changed meanwhile.
                evaluation = cycle.evaluate(pod, nominations=using.queue.nominations())
            await self._decide(cycle, evaluation, pod, avoiding, advice)
        except Exception as error:  # noqa: BLE001 - one pod must not stop the others; `_fail` logs it
            self.using.cache.forget(pod.uid)
            self._fail(pod, fit_errors.of_status(statuses.fault(error)))

    async def _decide(
        self,
        cycle: SchedulingCycle,
        evaluation: Evaluation,
        pod: PodInfo,
        avoiding: frozenset[str],
        advice: ExtenderResult | None,
    ) -> None:
        using = self.using
        node_name = cycle.choose(evaluation, start=self._start, avoiding=avoiding, advice=advice)
        refusal: FitError | None = None
        make_room = not avoiding and pod.uid not in self.evictions
        if node_name is None:
            refusal = cycle.refuse(evaluation, start=self._start, advice=advice, make_room=make_room)
            refusal = fit_errors.with_hint(refusal, self._hints.of(evaluation))
        if self.observers:
            attempt = Attempt(pod, evaluation, node_name, refusal, self._start, avoiding, advice, make_room)
            for observe in self.observers:
                observe(attempt)
        using.figures.algorithm_s.observe(using.clock.monotonic() - self._began[pod.uid].at)
        if node_name is None:
            assert refusal is not None
            if using.extender_chain and make_room and not refusal.error:
                refusal = await self._reconsidered(pod, evaluation, refusal, advice)
                if using.cycles.get(pod.shape.scheduler_name) is not cycle:
                    self._again(pod)
                    return
            self._fail(pod, refusal)
            return
        taken = cycle.reserve(using.cache, evaluation, pod, node_name)
        if isinstance(taken, FitError):
            self._fail(pod, taken)
            return
        try:
            using.queue.withdraw(pod.uid)
            self._activate(taken)
            self.binding.start(taken)
        except Exception:
            cycle.give_back(using.cache, taken)
            raise

    def _again(self, pod: PodInfo) -> None:
        """Another configuration was loaded during the extender calls: start the attempt again with its profile."""
        now = self.using.clock.monotonic()
        self._began.pop(pod.uid, None)
        self.using.queue.requeue(pod.uid, now=now)
        self.using.queue.activate([pod.uid], now=now)
        self.wake()

    async def _advice(
        self, cycle: SchedulingCycle, evaluation: Evaluation, pod: PodInfo
    ) -> ExtenderResult | FitError | None:
        """Call the extenders for the feasible nodes."""
        extender_chain, document = self.using.extender_chain, self.using.cluster_reader.pod(pod.uid)
        if document is None or not (extender_chain.filters(document) or extender_chain.prioritizes(document)):
            return None
        names = cycle.feasible_names(evaluation)
        if not names:
            return None
        narrowed = await extender_chain.filter(document, names)
        if narrowed.failure is not None:
            return fit_errors.of_status(narrowed.failure)
        scores = await extender_chain.prioritize(document, narrowed.feasible) if len(narrowed.feasible) > 1 else {}
        return ExtenderResult(allowed=frozenset(narrowed.feasible), refusals=narrowed.refusals, scores=scores)

    async def _reconsidered(
        self, pod: PodInfo, evaluation: Evaluation, refusal: FitError, advice: ExtenderResult | None
    ) -> FitError:
        """Let extenders change the victims; without a PostFilter plugin they choose them alone."""
        extender_chain, document = self.using.extender_chain, self.using.cluster_reader.pod(pod.uid)
        if document is None or not extender_chain.preempts(document):
            return refusal
        candidates: Sequence[victims.Candidate] = ()
        room = refusal.room
        if room is not None and room.nominated_node and room.victims:
            candidates = room.candidates or (victims.Candidate(room.nominated_node, room.victims, 0),)
        elif not evaluation.framework.at(ExtensionPoint.POST_FILTER):
            candidates = preemption_candidates.all_candidates(
                evaluation, advice.refusals if advice is not None else None
            )
        if not candidates:
            return refusal
        left = await extender_chain.preempt(document, candidates)
        if isinstance(left, Status):
            return fit_errors.of_status(left)
        if not left:
            return fit_errors.with_room(refusal, None)
        chosen = victims.best(left)
        return fit_errors.with_room(refusal, PostFilterResult(SUCCESS, chosen.node_name, chosen.victims))

    # --- results ------------------------------------------------------------------------------------------------------

    def permitted(self, taken: AssumedPod) -> None:
        """Permit let the pod through: from here on events do not matter to it."""
        self.using.queue.done(taken.pod.uid)

    def ended(self, taken: AssumedPod, status: Status) -> None:
        """A binding succeeded or failed; an error in handling that must not lose the pod."""
        using, pod = self.using, taken.pod
        now = using.clock.monotonic()
        try:
            if status.ok:
                self._bound(taken, now)
            else:
                self._not_bound(taken, status, now)
            self._activate(taken)
        except Exception as error:
            log.exception("end of a binding failed", error=error, pod=pod.key, bound=status.ok)
            self._began.pop(pod.uid, None)
            if not status.ok:
                using.cache.forget(pod.uid)
                using.queue.requeue(pod.uid, now=now)
        self.wake()

    def _not_bound(self, taken: AssumedPod, status: Status, now: float) -> None:
        using, pod = self.using, taken.pod
        using.cache.forget(pod.uid)
        # Its place is free again, as if the pod had been deleted there.
        using.queue.move(ASSIGNED_DELETE, pod, None, now=now)
        tried = self._tried.get(pod.uid, frozenset()) | {taken.node_name}
        if bind_requests.lost_race(status) and len(tried) < MOST_NODES and pod.uid in using.queue:
            using.figures.lost_races.inc()
            self._tried[pod.uid] = tried
            self._bind_conflicts.append((pod, tried))
        else:
            self._fail(pod, fit_errors.of_status(status))

    def _activate(self, taken: AssumedPod) -> None:
        """Activate the pods that plugins asked for."""
        uids = taken.state.find(PODS_TO_ACTIVATE, set)
        if uids:
            self.using.queue.activate(uids, now=self.using.clock.monotonic())
            uids.clear()

    def _bound(self, taken: AssumedPod, now: float) -> None:
        using, pod = self.using, taken.pod
        using.cache.finish_binding(pod.uid)
        self._tried.pop(pod.uid, None)
        # The watch may have been faster, so that the queue no longer has the pod.
        began = self._began.pop(pod.uid, _StartedAttempt(now, 1, now))
        using.figures.bound(began.attempts, now - began.first_queued_at)
        using.figures.attempted(scheduler_metrics.SCHEDULED, pod.shape.scheduler_name, now - began.at)
        message = f"Successfully assigned {pod.key} to {taken.node_name}"
        using.recorder.event(object_references.of_pod(pod), "Normal", "Scheduled", message, action="Binding")
        if using.dispatcher is not None and (manifest := pod.manifest) is not None:
            using.dispatcher.bound(manifest, taken.node_name, using.cluster_reader.node(taken.node_name))

    def gone(self, uid: str) -> None:
        """A pod no longer needs a node."""
        self.using.notes.forget(uid)
        self._tried.pop(uid, None)
        self.evictions.forget(uid)
        self.binding.revoke_waiting(uid)
        placed = self.using.cache.cluster.pods.get(uid)
        if placed is not None and not self.using.cache.is_assumed(uid):
            self.binding.seen(uid, placed.node_name)

    def _fail(self, pod: PodInfo, refusal: FitError) -> None:
        using = self.using
        if refusal.error:
            _log_failure(pod, refusal)
        now = using.clock.monotonic()
        began = self._began.pop(pod.uid, _StartedAttempt(now, 1, now))
        self._tried.pop(pod.uid, None)
        result = scheduler_metrics.ERROR if refusal.error else scheduler_metrics.UNSCHEDULABLE
        using.figures.attempted(result, pod.shape.scheduler_name, now - began.at)
        queued = using.queue.requeue(
            pod.uid, now=now, unschedulable_plugins=refusal.unschedulable_plugins, pending=refusal.pending
        )
        if queued is None:
            return
        nominated = self._make_room(queued.pod, refusal.room) if refusal.room is not None else None
        note = PodStatusPatch(condition=(refusal.reason, refusal.message), nominated=nominated)
        using.notes.write(queued.pod, note)
        self._say_failed(queued.pod, f"{refusal.message} {refusal.hint}" if refusal.hint else refusal.message)

    def _make_room(self, pod: PodInfo, room: PostFilterResult) -> str | None:
        """Record the nomination and start the evictions; returns the pod's new nomination."""
        using, node_name = self.using, room.nominated_node
        if node_name is None:
            return None
        if not node_name:
            using.queue.withdraw(pod.uid)
            return ""
        self._displace(pod, node_name)
        using.queue.nominate(pod, node_name)
        if room.victims:
            using.figures.preemptions.inc()
            using.figures.victims.observe(len(room.victims))
            self.evictions.start(pod, node_name, room.victims)
        return node_name

    def _displace(self, pod: PodInfo, node_name: str) -> None:
        """Remove the nominations of lower priority on that node; those pods are tried again."""
        for other in tuple(self.using.queue.nominations().get(node_name, ())):
            if other.priority < pod.priority:
                self.using.queue.withdraw(other.uid)
                self.using.notes.write(other, PodStatusPatch(nominated=""))
                self.using.queue.activate([other.uid], now=self.using.clock.monotonic())

    def room_failed(self, pod: PodInfo) -> None:
        """Evictions failed: the pod is tried again."""
        self.using.queue.activate([pod.uid], now=self.using.clock.monotonic())
        self.wake()

    def _say_failed(self, pod: PodInfo, message: str) -> None:
        told = fit_errors.shortened(message)
        self.using.recorder.event(
            object_references.of_pod(pod), "Warning", "FailedScheduling", told, action="Scheduling"
        )


def _log_failure(pod: PodInfo, refusal: FitError) -> None:
    """Log the traceback of an error in a plugin; an error of the API is logged in one line."""
    error = refusal.status.error
    if error is None or isinstance(error, ApiError | TransportError):
        log.warning("attempt failed", pod=pod.key, message=refusal.message)
    else:
        log.exception("attempt failed", error=error, pod=pod.key, plugin=refusal.status.plugin, message=refusal.message)
