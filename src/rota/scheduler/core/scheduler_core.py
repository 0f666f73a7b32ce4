"""The core of a scheduler: pops pods, decides, reserves, makes room and tries again, as values in and values out.

The package's docstring says how a driver uses it. Every popped pod ends in one of three ways: it is bound, it is back
in the queue, or it is deleted. If a binding loses a race with another scheduler, the next-best node is tried before the
pod returns to the queue. An exception in an attempt fails that attempt only.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from rota.columns.pods import PodInfo
from rota.scheduler.cache.scheduler_cache import SchedulerCache
from rota.scheduler.core import attempts
from rota.scheduler.core.attempts import Attempt, Interests, OpenAttempt, StartedAttempt, Turn
from rota.scheduler.core.cluster_feed import ASSIGNED_DELETE, ClusterFeed
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
from rota.scheduler.core.events import (
    BindingEnded,
    Event,
    EvictionsEnded,
    ExtendersAnswered,
    NodeChanged,
    ObjectChanged,
    PodChanged,
    VictimsAnswered,
)
from rota.scheduler.core.known_refusals import KnownRefusals
from rota.scheduler.core.pending_evictions import PendingEvictions
from rota.scheduler.core.waiting_pods import WaitingPod, WaitingPods
from rota.scheduler.cycle.scheduling_cycle import AssumedPod, ExtenderResult, SchedulingCycle
from rota.scheduler.framework import binding_points
from rota.scheduler.framework import status as statuses
from rota.scheduler.framework.evaluation import Evaluation
from rota.scheduler.framework.plugin_interfaces import PostFilterResult
from rota.scheduler.framework.state import PODS_TO_ACTIVATE
from rota.scheduler.framework.status import Status
from rota.scheduler.queue.scheduling_queue import SchedulingQueue
from rota.scheduler.status import fit_errors
from rota.scheduler.status.fit_errors import FitError, PodStatusPatch

#: Limit of placements that are not bound yet.
MOST_UNBOUND: Final = 1024
#: Number of nodes on which a pod is tried after lost races, before it returns to the queue.
MOST_NODES: Final = 8


class SchedulerCore:
    """The state of one scheduler, with the events that change it and the attempts that it makes."""

    def __init__(
        self,
        cache: SchedulerCache,
        queue: SchedulingQueue,
        cycles: Mapping[str, SchedulingCycle],
        *,
        start: int,
        waiting: WaitingPods | None = None,
        extenders: Interests | None = None,
    ) -> None:
        """`cycles` by scheduler name; `start` is the row at which a search among equally good nodes begins, different
        for every scheduler of a cluster. `waiting` is what the frameworks of the cycles have as `waiting_pods`."""
        self.cache: Final = cache
        self.queue = queue
        self.cycles = cycles
        self.waiting: Final = WaitingPods() if waiting is None else waiting
        self.extenders = extenders
        self.observers: Final[list[Callable[[Attempt], None]]] = []
        #: Called with every event after it was taken over.
        self.listeners: Final[list[Callable[[Event, float], None]]] = []
        self.start = start
        self._feed: Final = ClusterFeed(cache, queue, gone=self._gone)
        self._evictions: Final = PendingEvictions(cache.cluster)
        self._refusals: Final = KnownRefusals()
        #: Pods that lost a race for their node, with the nodes on which they were tried.
        self._conflicts: Final[deque[Turn]] = deque()
        self._tried: Final[dict[str, frozenset[str]]] = {}
        #: The attempts that have not ended, by pod.
        self._began: Final[dict[str, StartedAttempt]] = {}
        self._open: OpenAttempt | None = None
        self._effects: list[Effect] = []

    # --- what a driver calls ------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether there may be something to try now."""
        return self.waiting.settled or bool(self._conflicts) or self.queue.ready

    @property
    def saturated(self) -> bool:
        """Whether no pod is tried until some placements are bound.

        Pods that Permit plugins hold do not count: they may wait for pods that have not been tried.
        """
        return len(self._began) - len(self.waiting) >= MOST_UNBOUND

    def handle(self, event: Event, now: float) -> Sequence[Effect]:
        """Take over an event."""
        _HANDLERS[type(event)](self, event, now)
        for listen in self.listeners:
            listen(event, now)
        return self._taken()

    def step(self, now: float) -> Sequence[Effect] | None:
        """Make one attempt, or go on with pods that Permit plugins held; None if there is nothing to do now."""
        effects = self.end_waits(now)
        if effects:
            return effects
        turn = self.next_turn(now)
        return None if turn is None else self.attempt(turn, now)

    # The three parts of `step`, for drivers that measure attempts.

    def end_waits(self, now: float) -> Sequence[Effect]:
        """Go on with the pods that Permit plugins allowed or rejected, or held for too long."""
        if not self.waiting:
            return ()
        for waiting in self.waiting.take_settled(now):
            self._end_wait(waiting, now)
        return self._taken()

    def next_turn(self, now: float) -> Turn | None:
        """The pod to try next."""
        if self._conflicts:
            # These count as unbound already: if they had to wait for others, all could wait for each other.
            return self._conflicts.popleft()
        if self.saturated:
            return None
        self.queue.flush(now)
        queued = self.queue.pop(now)
        return None if queued is None else Turn(queued.pod)

    def attempt(self, turn: Turn, now: float) -> Sequence[Effect]:
        """Try the pod."""
        self._attempt(turn, now)
        return self._taken()

    def next_timer(self) -> float | None:
        """When `step` has something to do without an event before; None if only an event can change that."""
        deadline = self.waiting.next_deadline()
        due = None if self.saturated else self.queue.next_wakeup()
        return due if deadline is None else deadline if due is None else min(deadline, due)

    def revoke(self, uid: str, why: str) -> bool:
        """Release a pod that waits for Permit plugins, with the next `step`; returns whether it was waiting."""
        waiting = self.waiting.get(uid)
        if waiting is None:
            return False
        waiting.reject("", why)
        return True

    def reconfigure(
        self,
        queue: SchedulingQueue,
        cycles: Mapping[str, SchedulingCycle],
        extenders: Interests | None,
        *,
        known: Iterable[PodInfo],
        now: float,
    ) -> None:
        """Switch to other profiles; `known` are all pods, some of which may be waiting for a profile that is new.

        Waiting pods are sorted again; pods in binding stay as they are. A pod that is being bound by a profile that no
        longer exists is recognised when it is popped.
        """
        queue.take_over(self.queue, now)
        for pod in known:
            if not pod.node_name:
                queue.add(pod, now)
        self.queue = self._feed.queue = queue
        self.cycles, self.extenders = cycles, extenders

    def stop(self, now: float) -> Sequence[Effect]:
        """Return every pod to the queue whose binding has not begun."""
        if self._open is not None:
            pod, self._open = self._open.turn.pod, None
            self._requeue(pod, now)
        while self._conflicts:
            self._requeue(self._conflicts.popleft().pod, now)
        for waiting in self.waiting:
            waiting.reject("", "the scheduler stopped")
        return self.end_waits(now)

    def _requeue(self, pod: PodInfo, now: float) -> None:
        self._began.pop(pod.uid, None)
        self.queue.requeue(pod.uid, now=now)

    def _taken(self) -> Sequence[Effect]:
        if not self._effects:
            return ()
        effects, self._effects = self._effects, []
        return effects

    # --- one attempt --------------------------------------------------------------------------------------------------

    def _attempt(self, turn: Turn, now: float) -> None:
        pod = turn.pod
        if self.cache.is_assumed(pod.uid):
            # It is being bound by a profile that was removed and added again: that attempt goes on and ends by its
            # result.
            self.queue.done(pod.uid)
            return
        self._began.pop(pod.uid, None)
        queued = self.queue.get(pod.uid)
        if queued is None:
            return
        if pod.terminating:
            self.queue.delete(pod.uid)
            self._say_failed(pod, f"skip schedule deleting pod: {pod.key}")
            return
        if pod.uid in self.cache.cluster.pods:
            # It has a node, which the watch will show; until then it stays known.
            self.queue.done(pod.uid)
            return
        self._began[pod.uid] = StartedAttempt(now, queued.attempts, queued.first_queued_at)
        cycle = self.cycles[pod.shape.scheduler_name]
        try:
            evaluation = cycle.evaluate(pod, nominations=self.queue.nominations())
            if self.extenders and self._ask(cycle, evaluation, turn):
                return
            self._decide(cycle, evaluation, turn, None, now)
        except Exception as error:  # noqa: BLE001 - one pod must not stop the others
            self._crashed(pod, error, now)

    def _crashed(self, pod: PodInfo, error: Exception, now: float) -> None:
        self.cache.forget(pod.uid)
        self._fail(pod, fit_errors.of_status(statuses.fault(error)), now)

    def _decide(
        self, cycle: SchedulingCycle, evaluation: Evaluation, turn: Turn, advice: ExtenderResult | None, now: float
    ) -> None:
        pod, avoiding = turn
        node_name = cycle.choose(evaluation, start=self.start, avoiding=avoiding, advice=advice)
        refusal: FitError | None = None
        make_room = not avoiding and not self._evictions.awaited(pod.uid, now)
        if node_name is None:
            shared = advice is None and not self.queue.nominations()
            ask = partial(cycle.refuse, evaluation, start=self.start, advice=advice, make_room=make_room)
            refusal = self._refusals.of(evaluation, pod, ask, make_room=make_room, shared=shared)
        if self.observers:
            attempt = Attempt(pod, evaluation, node_name, refusal, self.start, avoiding, advice, make_room, now)
            for observe in self.observers:
                observe(attempt)
        if node_name is not None:
            self._reserve(cycle, evaluation, pod, node_name, now)
            return
        assert refusal is not None
        asks = self.extenders and make_room and not refusal.error
        if not (asks and self._ask_for_victims(cycle, evaluation, turn, refusal, advice)):
            self._fail(pod, refusal, now)

    def _reserve(
        self, cycle: SchedulingCycle, evaluation: Evaluation, pod: PodInfo, node_name: str, now: float
    ) -> None:
        taken = cycle.reserve(self.cache, evaluation, pod, node_name)
        if isinstance(taken, FitError):
            self._fail(pod, taken, now)
            return
        try:
            self.queue.withdraw(pod.uid)
            self._activate(taken, now)
        except Exception:
            cycle.give_back(self.cache, taken)
            raise
        if taken.permission.waits_s:
            self.waiting.add(taken, now)
            # Cluster autoscalers then know that this pod needs no new node.
            self._effects.append(PatchStatus(pod, PodStatusPatch(nominated=node_name)))
        else:
            self._bind(taken)

    def _bind(self, taken: AssumedPod) -> None:
        self.queue.done(taken.pod.uid)  # from here on events do not matter to the pod
        self._effects.append(Bind(taken))

    def _end_wait(self, waiting: WaitingPod, now: float) -> None:
        """Permit plugins allowed or rejected a pod."""
        taken, status = waiting.taken, waiting.verdict
        assert status is not None
        self._effects.append(PermitEnded(taken.pod, status, now - waiting.since))
        if status.ok:
            self._bind(taken)
            return
        self._effects.append(PatchStatus(taken.pod, PodStatusPatch(nominated="")))
        self._binding_ended(BindingEnded(taken, status), now)

    # --- extenders ----------------------------------------------------------------------------------------------------

    def _document(self, pod: PodInfo) -> Mapping[str, Any] | None:
        queued = self.queue.get(pod.uid)
        return None if queued is None else queued.pod.manifest

    def _ask(self, cycle: SchedulingCycle, evaluation: Evaluation, turn: Turn) -> bool:
        """Have extenders called for the feasible nodes; False if there is nothing to ask."""
        extenders, document = self.extenders, self._document(turn.pod)
        assert extenders is not None
        if document is None or not (extenders.filters(document) or extenders.prioritizes(document)):
            return False
        names = cycle.feasible_names(evaluation)
        if not names:
            return False
        self._open = OpenAttempt(cycle, turn)
        self._effects.append(AskExtenders(turn.pod, document, names))
        return True

    def _ask_for_victims(
        self,
        cycle: SchedulingCycle,
        evaluation: Evaluation,
        turn: Turn,
        refusal: FitError,
        advice: ExtenderResult | None,
    ) -> bool:
        """Let extenders change the victims; without a PostFilter plugin they choose them alone."""
        extenders, document = self.extenders, self._document(turn.pod)
        assert extenders is not None
        if document is None or not extenders.preempts(document):
            return False
        candidates = attempts.candidates(evaluation, refusal, advice)
        if not candidates:
            return False
        self._open = OpenAttempt(cycle, turn, refusal)
        self._effects.append(AskExtendersForVictims(turn.pod, document, candidates))
        return True

    def _resumed(self, now: float) -> OpenAttempt | None:
        """The attempt that waited; None if it begins again, because another configuration was loaded meanwhile."""
        opened, self._open = self._open, None
        if opened is None:
            return None
        pod = opened.turn.pod
        if self.cycles.get(pod.shape.scheduler_name) is opened.cycle:
            return opened
        self._requeue(pod, now)
        self.queue.activate([pod.uid], now=now)
        return None

    def _extenders_answered(self, event: ExtendersAnswered, now: float) -> None:
        opened = self._resumed(now)
        if opened is None:
            return
        cycle, turn = opened.cycle, opened.turn
        if isinstance(event.answer, FitError):
            self._fail(turn.pod, event.answer, now)
            return
        try:
            # The cluster and the nominations may have changed meanwhile.
            evaluation = cycle.evaluate(turn.pod, nominations=self.queue.nominations())
            self._decide(cycle, evaluation, turn, event.answer, now)
        except Exception as error:  # noqa: BLE001 - one pod must not stop the others
            self._crashed(turn.pod, error, now)

    def _victims_answered(self, event: VictimsAnswered, now: float) -> None:
        opened = self._resumed(now)
        if opened is None:
            return
        assert opened.refusal is not None
        self._fail(opened.turn.pod, attempts.reconsidered(opened.refusal, event.answer), now)

    # --- results ------------------------------------------------------------------------------------------------------

    def _binding_ended(self, event: BindingEnded, now: float) -> None:
        """A binding succeeded or failed; an error in handling that must not lose the pod."""
        taken, status = event
        pod = taken.pod
        try:
            if status.ok:
                self._bound(taken, now)
            else:
                self._not_bound(taken, status, now)
            self._activate(taken, now)
        except Exception as error:  # noqa: BLE001 - reported as an effect
            self._effects.append(Fault("end of a binding failed", pod, error))
            self._began.pop(pod.uid, None)
            if not status.ok:
                self.cache.forget(pod.uid)
                self.queue.requeue(pod.uid, now=now)

    def _bound(self, taken: AssumedPod, now: float) -> None:
        pod = taken.pod
        self.cache.finish_binding(pod.uid)
        self._tried.pop(pod.uid, None)
        # The watch may have been faster, so that the queue no longer has the pod.
        began = self._began.pop(pod.uid, StartedAttempt(now, 1, now))
        self._effects.append(Bound(pod, taken.node_name, began.attempts, began.at, began.first_queued_at))
        message = f"Successfully assigned {pod.key} to {taken.node_name}"
        self._effects.append(RecordEvent(pod, "Normal", "Scheduled", message, "Binding"))

    def _not_bound(self, taken: AssumedPod, status: Status, now: float) -> None:
        pod = taken.pod
        for problem in binding_points.unreserve(taken.framework, taken.state, pod, taken.node_name):
            self._effects.append(Fault("plugin failed to unreserve", pod, problem))
        self.cache.forget(pod.uid)
        # Its place is free again, as if the pod had been deleted there.
        self.queue.move(ASSIGNED_DELETE, pod, None, now=now)
        tried = self._tried.get(pod.uid, frozenset()) | {taken.node_name}
        if attempts.lost_race(status) and len(tried) < MOST_NODES and pod.uid in self.queue:
            self._tried[pod.uid] = tried
            self._conflicts.append(Turn(pod, tried))
            self._effects.append(LostRace(pod, taken.node_name))
        else:
            self._fail(pod, fit_errors.of_status(status), now)

    def _activate(self, taken: AssumedPod, now: float) -> None:
        """Activate the pods that plugins asked for."""
        uids = taken.state.find(PODS_TO_ACTIVATE, set)
        if uids:
            self.queue.activate(uids, now=now)
            uids.clear()

    def _gone(self, uid: str) -> None:
        """A pod no longer needs a node."""
        self._tried.pop(uid, None)
        self._evictions.forget(uid)
        if self.waiting:
            self.revoke(uid, "the pod is gone")
        placed = self.cache.cluster.pods.get(uid)
        seen = placed is not None and not self.cache.is_assumed(uid)
        self._effects.append(Released(uid, placed.node_name if placed is not None and seen else ""))

    def _fail(self, pod: PodInfo, refusal: FitError, now: float) -> None:
        began = self._began.pop(pod.uid, StartedAttempt(now, 1, now))
        self._tried.pop(pod.uid, None)
        self._effects.append(AttemptFailed(pod, refusal, began.at))
        queued = self.queue.requeue(
            pod.uid, now=now, unschedulable_plugins=refusal.unschedulable_plugins, pending=refusal.pending
        )
        if queued is None:
            return
        nominated = self._make_room(queued.pod, refusal.room, now) if refusal.room is not None else None
        patch = PodStatusPatch(condition=(refusal.reason, refusal.message), nominated=nominated)
        self._effects.append(PatchStatus(queued.pod, patch))
        self._say_failed(queued.pod, f"{refusal.message} {refusal.hint}" if refusal.hint else refusal.message)

    def _make_room(self, pod: PodInfo, room: PostFilterResult, now: float) -> str | None:
        """Record the nomination and have the victims evicted; returns the pod's new nomination."""
        node_name = room.nominated_node
        if node_name is None:
            return None
        if not node_name:
            self.queue.withdraw(pod.uid)
            return ""
        self._displace(pod, node_name, now)
        self.queue.nominate(pod, node_name)
        if room.victims:
            self._evictions.start(pod.uid)
            self._effects.append(Evict(pod, node_name, tuple(room.victims)))
        return node_name

    def _displace(self, pod: PodInfo, node_name: str, now: float) -> None:
        """Remove the nominations of lower priority on that node; those pods are tried again."""
        for other in tuple(self.queue.nominations().get(node_name, ())):
            if other.priority < pod.priority:
                self.queue.withdraw(other.uid)
                self._effects.append(PatchStatus(other, PodStatusPatch(nominated="")))
                self.queue.activate([other.uid], now=now)

    def _evictions_ended(self, event: EvictionsEnded, now: float) -> None:
        self._evictions.end(event.preemptor.uid, event.evicted, now, failed=event.failed)
        if event.failed:
            # The attempt that this starts may preempt again.
            self.queue.activate([event.preemptor.uid], now=now)

    def _say_failed(self, pod: PodInfo, message: str) -> None:
        told = fit_errors.shortened(message)
        self._effects.append(RecordEvent(pod, "Warning", "FailedScheduling", told, "Scheduling"))

    def _pod_changed(self, event: PodChanged, now: float) -> None:
        self._feed.pod(event.old, event.new, now)

    def _node_changed(self, event: NodeChanged, now: float) -> None:
        self._feed.node(event, now)

    def _object_changed(self, event: ObjectChanged, now: float) -> None:
        self._feed.other(event, now)


_HANDLERS: Final[Mapping[type, Callable[[SchedulerCore, Any, float], None]]] = {
    PodChanged: SchedulerCore._pod_changed,
    NodeChanged: SchedulerCore._node_changed,
    ObjectChanged: SchedulerCore._object_changed,
    BindingEnded: SchedulerCore._binding_ended,
    EvictionsEnded: SchedulerCore._evictions_ended,
    ExtendersAnswered: SchedulerCore._extenders_answered,
    VictimsAnswered: SchedulerCore._victims_answered,
}
