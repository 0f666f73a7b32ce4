"""The scheduling queue: kube-scheduler's PriorityQueue, as a pure state machine.

A pod enters by `add`, is handed out by `pop`, and is removed by `delete`, also after it was bound. After `pop`, the
caller calls `done` once the pod has a node (from then on events do not matter to it), or `requeue` if the attempt
failed, at any time before `delete`. A pod has exactly one `QueueState`.

    add -> ACTIVE or GATED -> pop -> IN_FLIGHT -> done -> BINDING -> delete
           requeue -> UNSCHEDULABLE, BACKOFF, ERROR_BACKOFF or ACTIVE -> ... -> ACTIVE

Events move pods out of UNSCHEDULABLE and GATED by the queueing hints of the plugins that refused them. Time moves them
out of the backoff states, and after five minutes out of UNSCHEDULABLE as well, so no pod waits for ever.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from rota.columns.pods import PodInfo
from rota.kit.heaps import KeyedHeap
from rota.scheduler.framework.events import Action, ClusterEvent, Resource
from rota.scheduler.framework.nominated_pods import Nominations
from rota.scheduler.framework.queueing_hints import QueueingHintMap
from rota.scheduler.framework.runtime import Framework
from rota.scheduler.queue import pod_backoff, update_events
from rota.scheduler.queue.entries import QueuedPod, QueueState
from rota.scheduler.queue.in_flight_events import InFlightEvents, ObservedEvent
from rota.scheduler.queue.nominator import Nominator
from rota.scheduler.queue.pod_backoff import PodBackoff
from rota.scheduler.queue.pre_enqueue import PreEnqueueGate
from rota.scheduler.queue.unschedulable_pods import HintResult, UnschedulablePods, hint_result_of

# Module constants, because attribute lookup on the class is slow.
_ACTIVE, _BACKOFF, _ERROR_BACKOFF = QueueState.ACTIVE, QueueState.BACKOFF, QueueState.ERROR_BACKOFF
_UNSCHEDULABLE, _GATED, _IN_FLIGHT, _BINDING = (
    QueueState.UNSCHEDULABLE,
    QueueState.GATED,
    QueueState.IN_FLIGHT,
    QueueState.BINDING,
)
#: States in which events wake pods.
_POOLED: Final = frozenset({_UNSCHEDULABLE, _GATED})

#: An event that matches every subscription, for wake-ups that have no event: a timeout or an explicit activation.
ANYTHING: Final = ClusterEvent(Resource.ANY, Action.ALL)
#: How often pods that have waited too long are looked for.
_LOOK_EVERY_S: Final = 30.0

# Why a pod entered a state without an event; the words of kube-scheduler's metrics.
_ADDED: Final = "UnscheduledPodAdd"
_UPDATED: Final = "UnscheduledPodUpdate"
_FAILED: Final = "ScheduleAttemptFailure"
_RESTED: Final = "BackoffComplete"
_FORCED: Final = "ForceActivate"
_OVERDUE: Final = "UnschedulableTimeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Durations of backoff and waiting."""

    rests: PodBackoff = field(default_factory=PodBackoff)
    #: An unschedulable pod is tried again after this time without an event.
    longest_wait_s: float = 300.0


class SchedulingQueue:
    """Waiting pods of all profiles of one scheduler."""

    def __init__(self, profiles: Mapping[str, Framework], timings: Timings | None = None) -> None:
        """`profiles` by scheduler name; pods of other schedulers are ignored."""
        self._timings: Final = timings or Timings()
        self._entrances: Final = {name: PreEnqueueGate(framework) for name, framework in profiles.items()}
        self._queueing_hints: Final = {name: QueueingHintMap(framework) for name, framework in profiles.items()}
        self._pods: Final[dict[str, QueuedPod]] = {}
        self._active: Final[KeyedHeap[str, Any]] = KeyedHeap()
        self._backoff: Final[KeyedHeap[str, tuple[float, Any]]] = KeyedHeap()
        self._error_backoff: Final[KeyedHeap[str, float]] = KeyedHeap()
        #: Pods in UNSCHEDULABLE and GATED.
        self._pool: Final = UnschedulablePods(self._queueing_hints)
        self._flights: Final = InFlightEvents()
        self._nominator: Final = Nominator()
        self._looked_at: float | None = None
        #: How often pods entered a state, and why: (state, event).
        self.incoming: Final[Counter[tuple[QueueState, str]]] = Counter()
        #: How many pods each plugin has refused that were not tried again since: (plugin, profile).
        self.turned_away: Final[Counter[tuple[str, str]]] = Counter()
        self._counts: Final[Counter[QueueState]] = Counter()

    # --- contents -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> QueuedPod | None:
        """The entry of a pod; read-only."""
        return self._pods.get(uid)

    def entries(self) -> Iterator[QueuedPod]:
        """All pods of the queue, in the order in which they were first added."""
        return iter(self._pods.values())

    def count(self, place: QueueState) -> int:
        """The number of pods in a state."""
        return self._counts[place]

    @property
    def ready(self) -> bool:
        """Whether `pop` would return a pod now."""
        return bool(self._active) or bool(self._backoff)

    @property
    def inflight_events(self) -> int:
        """The number of events that are kept for pods in flight."""
        return self._flights.events

    def order(self) -> list[QueuedPod]:
        """The ready pods, in the order in which they will be tried."""
        return sorted((self._pods[uid] for uid in self._active), key=lambda queued: queued.sort_key)

    # --- updates from the API server ----------------------------------------------------------------------------------

    def add(self, pod: PodInfo, now: float) -> None:
        """Add a pod without a node; a known one is updated."""
        if pod.uid in self._pods:
            self.update(pod, now)
            return
        if pod.shape.scheduler_name not in self._entrances:
            return
        queued = self._pods[pod.uid] = QueuedPod(pod, now)
        self._nominator.follow(None, pod)
        self._enter(queued, HintResult.AT_ONCE, _ADDED, now)

    def update(self, pod: PodInfo, now: float) -> None:
        """Update a pod without a node; an unknown one is added."""
        queued = self._pods.get(pod.uid)
        if queued is None:
            self.add(pod, now)
            return
        old, queued.pod = queued.pod, pod
        self._nominator.follow(old, pod)
        observed_event = ObservedEvent(ClusterEvent(Resource.TARGET_POD, update_events.of_pod(old, pod)), old, pod)
        match queued.place:
            case QueueState.ACTIVE | QueueState.BACKOFF | QueueState.ERROR_BACKOFF:
                # Its priority may have changed; its order among equals stays.
                if self._entrances[pod.shape.scheduler_name].sorts(queued):
                    self._file(queued)
                else:
                    self._leave(queued)
                    self._enter(queued, HintResult.AT_ONCE, _UPDATED, now)
            case QueueState.UNSCHEDULABLE | QueueState.GATED:
                self._refile(queued, observed_event, now)
            case QueueState.IN_FLIGHT if observed_event.event.actions:
                self._flights.note_for(pod.uid, observed_event)

    def delete(self, uid: str) -> QueuedPod | None:
        """Remove a pod that was deleted or bound, whatever its state, an attempt included."""
        queued = self._pods.pop(uid, None)
        self._nominator.remove(uid)
        if queued is not None:
            self._leave(queued)
            self._forgive(queued)
        return queued

    # --- attempts ---------------------------------------------------------------------------------------------------

    def pop(self, now: float) -> QueuedPod | None:
        """Take out the next pod for an attempt; None if there is none.

        If nothing is ready, the pod whose backoff ends soonest is taken, unless it backs off after an error.
        """
        self._end_rests(now)
        if self._active:
            uid, _ = self._active.pop()
        elif self._backoff:
            uid, _ = self._backoff.pop()
        else:
            return None
        queued = self._pods[uid]
        self._counts[queued.place] -= 1
        self._forgive(queued)
        queued.unschedulable_plugins = queued.pending = frozenset()
        queued.attempts += 1
        if queued.first_tried_at is None:
            queued.first_tried_at = now
        self._settle(queued, _IN_FLIGHT)
        self._flights.start_attempt(uid)
        return queued

    def done(self, uid: str) -> None:
        """A popped pod has a node; events no longer matter to it. It stays known until `delete`."""
        queued = self._pods.get(uid)
        if queued is not None and queued.place is QueueState.IN_FLIGHT:
            self._leave(queued)
            self._settle(queued, _BINDING)

    def requeue(
        self, uid: str, *, now: float, unschedulable_plugins: Collection[str] = (), pending: Collection[str] = ()
    ) -> QueuedPod | None:
        """An attempt failed: plugins refused the pod (`pending`: those that returned Pending); without any it was an
        error.

        Events since `pop` decide whether the pod waits for others or is tried again after its backoff. A pod that was
        deleted or bound meanwhile is not put back (None).
        """
        queued = self._pods.get(uid)
        if queued is None or queued.place not in {_IN_FLIGHT, _BINDING}:
            return None
        since = self._flights.finish_attempt(uid) if queued.place is _IN_FLIGHT else None
        self._counts[queued.place] -= 1
        queued.pending = frozenset(pending)
        queued.unschedulable_plugins = queued.pending | frozenset(unschedulable_plugins)
        queued.queued_at = now
        if queued.unschedulable_plugins:
            queued.faults = 0
            queued.failures += 1
            for plugin in queued.unschedulable_plugins:
                self.turned_away[plugin, queued.pod.shape.scheduler_name] += 1
        else:
            queued.faults += 1
        queued.backoff_until = self._timings.rests.end(queued)
        queued.flushed = False
        self._enter(queued, self._worth_of_all(queued, since), _FAILED, now)
        return queued

    # --- wake-ups -----------------------------------------------------------------------------------------------------

    def move(self, event: ClusterEvent, old: Any, new: Any, *, now: float, up_to_priority: int | None = None) -> int:
        """Handle an event: requeue the pods that it may help. Returns the number of pods that no longer wait.

        With `up_to_priority`, pods of higher priority are left alone: a removed nomination concerns only the pods that
        had to respect it.
        """
        if not self._pool and not self._flights:
            return 0
        observed_event = ObservedEvent(event, old, new)
        self._flights.note(observed_event)
        woken = self._pool.woken(observed_event, up_to_priority=up_to_priority)
        if not woken:
            return 0
        label = label_of(event)
        return sum(self._wake(queued, worth, label, now) for queued, worth in woken)

    def activate(self, uids: Iterable[str], *, now: float) -> int:
        """Have these pods tried now, regardless of backoff and hints; gates still hold."""
        activated = 0
        for uid in uids:
            queued = self._pods.get(uid)
            match queued:
                case QueuedPod(place=QueueState.IN_FLIGHT):
                    self._flights.note_for(uid, ObservedEvent(ANYTHING, None, None))
                case QueuedPod(
                    place=QueueState.BACKOFF | QueueState.ERROR_BACKOFF | QueueState.UNSCHEDULABLE | QueueState.GATED
                ):
                    self._leave(queued)
                    self._enter(queued, HintResult.AT_ONCE, _FORCED, now)
                    activated += queued.place is _ACTIVE
        return activated

    def flush(self, now: float) -> int:
        """Handle time: end backoffs that are over, and requeue pods that have waited too long. Returns their number."""
        return self._end_rests(now) + self._end_waits(now)

    def next_wakeup(self) -> float | None:
        """The earliest time at which `flush` has work; None if only an event can change that."""
        if not self._pods:
            return None
        moments = []
        if self._backoff:
            moments.append(pod_backoff.over_at(self._backoff.peek()[1][0]))
        if self._error_backoff:
            moments.append(pod_backoff.over_at(self._error_backoff.peek()[1]))
        if self._pool and self._looked_at is not None:
            moments.append(self._looked_at + _LOOK_EVERY_S)
        return min(moments, default=None)

    def take_over(self, former: "SchedulingQueue", now: float) -> None:
        """Take over the pods of another queue with their history and counters. The other queue must not be used again.

        The plugins here may be different, so waiting pods are sorted again and tried again; pods in flight or in
        binding stay as they are. Pods of profiles that no longer exist are dropped.
        """
        self.incoming.update(former.incoming)
        for queued in former.entries():
            uid = queued.pod.uid
            if queued.pod.shape.scheduler_name not in self._entrances:
                continue
            self._pods[uid] = queued
            self._nominator.put(queued.pod, former.nominated_node(uid))
            if queued.place is _IN_FLIGHT:
                self._flights.start_attempt(uid)
                self._settle(queued, _IN_FLIGHT)
            elif queued.place is _BINDING:
                self._settle(queued, _BINDING)
            else:
                queued.unschedulable_plugins = queued.pending = frozenset()
                self._enter(queued, HintResult.AT_ONCE, _FORCED, now)

    # --- nominations ------------------------------------------------------------------------------------------------

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Nominate a pod to a node; its former nomination ends."""
        self._nominator.put(pod, node)

    def withdraw(self, uid: str) -> PodInfo | None:
        """Remove a pod's nomination; returns the pod as it was nominated, if it was."""
        return self._nominator.remove(uid)

    def nominated_node(self, uid: str) -> str:
        """The nominated node of a pod, or ""."""
        return self._nominator.node_of(uid)

    def nominations(self) -> Nominations:
        """All nominations by node."""
        return self._nominator.by_node

    # --- state transitions --------------------------------------------------------------------------------------------

    def _enter(self, queued: QueuedPod, worth: HintResult, why: str, now: float) -> None:
        """Find the state of a pod that is in none."""
        if worth is HintResult.NOTHING:
            place = _UNSCHEDULABLE
        elif not self._entrances[queued.pod.shape.scheduler_name].admits(queued):
            place = _GATED
        elif worth is HintResult.AT_ONCE or not pod_backoff.in_backoff(queued, now):
            place = _ACTIVE
        else:
            place = QueueState.ERROR_BACKOFF if queued.faults else _BACKOFF
        self._settle(queued, place)
        if self._looked_at is None:
            self._looked_at = now
        self.incoming[place, why] += 1
        self._file(queued)

    def _settle(self, queued: QueuedPod, place: QueueState) -> None:
        queued.place = place
        self._counts[place] += 1

    def _file(self, queued: QueuedPod) -> None:
        place, uid = queued.place, queued.pod.uid
        if place is _ACTIVE:
            self._active.push(uid, queued.sort_key)
        elif place in _POOLED:
            self._pool.put(queued)
        elif place is _BACKOFF:
            self._backoff.push(uid, (queued.backoff_until, queued.sort_key))
        elif place is _ERROR_BACKOFF:
            self._error_backoff.push(uid, queued.backoff_until)

    def _leave(self, queued: QueuedPod) -> None:
        place, uid = queued.place, queued.pod.uid
        self._counts[place] -= 1
        if place is _ACTIVE:
            self._active.remove(uid)
        elif place in _POOLED:
            self._pool.remove(uid)
        elif place is _IN_FLIGHT:
            self._flights.forget(uid)
        elif place is _BACKOFF:
            self._backoff.remove(uid)
        elif place is _ERROR_BACKOFF:
            self._error_backoff.remove(uid)

    def _forgive(self, queued: QueuedPod) -> None:
        """Decrease the refusal counts of the plugins that refused a pod."""
        for plugin in queued.unschedulable_plugins:
            self.turned_away[plugin, queued.pod.shape.scheduler_name] -= 1

    # --- waking -----------------------------------------------------------------------------------------------------

    def _wake(self, queued: QueuedPod, worth: HintResult, why: str, now: float) -> bool:
        """Take a pod out of the pool and find its new state; returns whether that is outside of the pool."""
        self._leave(queued)
        self._enter(queued, worth, why, now)
        return queued.pod.uid not in self._pool

    def _refile(self, queued: QueuedPod, observed_event: ObservedEvent, now: float) -> None:
        """Check whether a waiting pod's own update helps it; it may change its equivalence class in any case."""
        self._leave(queued)
        worth = self._worth(queued, observed_event) if observed_event.event.actions else HintResult.NOTHING
        if worth:
            self._enter(queued, worth, _UPDATED, now)
        else:
            self._settle(queued, queued.place)
            self._file(queued)

    def _worth(self, queued: QueuedPod, observed_event: ObservedEvent) -> HintResult:
        queueing_hints = self._queueing_hints[queued.pod.shape.scheduler_name]
        if queued.gate and not queueing_hints.listening(queued.gate, observed_event.event):
            return HintResult.NOTHING
        asked = {*queued.unschedulable_plugins, queued.gate} if queued.gate else queued.unschedulable_plugins
        return hint_result_of(
            queueing_hints, queued.pod, observed_event, unschedulable_plugins=asked, pending=queued.pending
        )

    def _worth_of_all(self, queued: QueuedPod, since: Iterator[ObservedEvent] | None) -> HintResult:
        """The best hint result of an attempt's events for its pod."""
        if not queued.unschedulable_plugins or since is None:
            return HintResult.RETRY
        best = HintResult.NOTHING
        for observed_event in since:
            best = max(
                best, HintResult.RETRY if observed_event.event is ANYTHING else self._worth(queued, observed_event)
            )
            if best is HintResult.AT_ONCE or (best is HintResult.RETRY and not queued.pending):
                break
        return best

    def _end_rests(self, now: float) -> int:
        if not self._backoff and not self._error_backoff:
            return 0
        before = len(self._active)
        over = pod_backoff.window(now)
        while self._backoff and self._backoff.peek()[1][0] < over:
            self._rested(self._backoff.pop()[0])
        while self._error_backoff and self._error_backoff.peek()[1] < over:
            self._rested(self._error_backoff.pop()[0])
        return len(self._active) - before

    def _rested(self, uid: str) -> None:
        queued = self._pods[uid]
        self._counts[queued.place] -= 1
        self._settle(queued, _ACTIVE)
        self.incoming[_ACTIVE, _RESTED] += 1
        self._active.push(uid, queued.sort_key)

    def _end_waits(self, now: float) -> int:
        if self._looked_at is None or now < self._looked_at + _LOOK_EVERY_S:
            return 0
        self._looked_at = now
        overdue = [queued for queued in self._pool if now - queued.queued_at > self._timings.longest_wait_s]
        ended = 0
        for queued in overdue:
            queued.flushed = True
            ended += self._wake(queued, HintResult.RETRY, _OVERDUE, now)
        return ended


@cache
def label_of(event: ClusterEvent) -> str:
    """The name of an event in metrics: the resource and the action, as in AssignedPodDelete."""
    return f"{event.resource}{'Or'.join(_camel(action.name or '') for action in event.actions)}"


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
