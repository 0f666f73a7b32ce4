"""The queue of pods that want a node: kube-scheduler's PriorityQueue, as a pure state machine.

A pod comes in by `add`, is handed out by `pop`, and leaves for good by `delete`, which is also how the queue learns
that it was bound. After `pop`, whoever took it says `done` once it has a node (from then on no event can help it), or
`requeue` where it failed, at any time before `delete`. In between it is in exactly one `Place`.

    add -> ACTIVE or GATED -> pop -> IN_FLIGHT -> done -> BINDING -> delete
                                        requeue -> UNSCHEDULABLE, BACKOFF, ERROR_BACKOFF or ACTIVE -> ... -> ACTIVE

Events move pods out of UNSCHEDULABLE and GATED by the hints of the plugins that turned them away; time moves them out
of all other places, and after five minutes out of UNSCHEDULABLE, too. So nothing waits for ever.
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

# By names of their own, because looking them up in the class takes its time.
_ACTIVE, _BACKOFF, _ERROR_BACKOFF = QueueState.ACTIVE, QueueState.BACKOFF, QueueState.ERROR_BACKOFF
_UNSCHEDULABLE, _GATED, _IN_FLIGHT, _BINDING = (
    QueueState.UNSCHEDULABLE,
    QueueState.GATED,
    QueueState.IN_FLIGHT,
    QueueState.BINDING,
)
#: Places that events wake pods from.
_POOLED: Final = frozenset({_UNSCHEDULABLE, _GATED})

#: An event that every plugin hears, because it is none: time has passed, or somebody insists.
ANYTHING: Final = ClusterEvent(Resource.ANY, Action.ALL)
#: How often pods that have waited too long are looked for.
_LOOK_EVERY_S: Final = 30.0

# Why a pod entered a place, where it was not an event; the words of kube-scheduler's metrics.
_ADDED: Final = "UnscheduledPodAdd"
_UPDATED: Final = "UnscheduledPodUpdate"
_FAILED: Final = "ScheduleAttemptFailure"
_RESTED: Final = "BackoffComplete"
_FORCED: Final = "ForceActivate"
_OVERDUE: Final = "UnschedulableTimeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """How long pods rest and wait."""

    rests: PodBackoff = field(default_factory=PodBackoff)
    #: A pod that nothing has woken for so long is tried again anyway.
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
        #: How often a pod entered a place, and why: (place, event).
        self.incoming: Final[Counter[tuple[QueueState, str]]] = Counter()
        #: How many pods each plugin has turned away that were not tried again since: (plugin, profile).
        self.turned_away: Final[Counter[tuple[str, str]]] = Counter()
        self._counts: Final[Counter[QueueState]] = Counter()

    # --- what is here -----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> QueuedPod | None:
        """Give a pod's entry; read it, do not change it."""
        return self._pods.get(uid)

    def entries(self) -> Iterator[QueuedPod]:
        """All pods that are here, in the order in which they first came."""
        return iter(self._pods.values())

    def count(self, place: QueueState) -> int:
        """How many pods are in a place."""
        return self._counts[place]

    @property
    def ready(self) -> bool:
        """Whether `pop` would give a pod now."""
        return bool(self._active) or bool(self._backoff)

    @property
    def inflight_events(self) -> int:
        """How many events are kept for pods that are being tried."""
        return self._flights.events

    def order(self) -> list[QueuedPod]:
        """Give the pods that are ready, in the order in which they will be tried."""
        return sorted((self._pods[uid] for uid in self._active), key=lambda queued: queued.sort_key)

    # --- from the API server ----------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, now: float) -> None:
        """A pod without a node is there; one that is known already is updated."""
        if pod.uid in self._pods:
            self.update(pod, now)
            return
        if pod.shape.scheduler_name not in self._entrances:
            return
        queued = self._pods[pod.uid] = QueuedPod(pod, now)
        self._nominator.follow(None, pod)
        self._enter(queued, HintResult.AT_ONCE, _ADDED, now)

    def update(self, pod: PodInfo, now: float) -> None:
        """A pod without a node has changed; one that is not known is added."""
        queued = self._pods.get(pod.uid)
        if queued is None:
            self.add(pod, now)
            return
        old, queued.pod = queued.pod, pod
        self._nominator.follow(old, pod)
        observed_event = ObservedEvent(ClusterEvent(Resource.TARGET_POD, update_events.of_pod(old, pod)), old, pod)
        match queued.place:
            case QueueState.ACTIVE | QueueState.BACKOFF | QueueState.ERROR_BACKOFF:
                # Its priority may be another one; its turn among equals stays.
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
        """A pod has gone or was bound: it has no business here any more, wherever it is, being tried included."""
        queued = self._pods.pop(uid, None)
        self._nominator.remove(uid)
        if queued is not None:
            self._leave(queued)
            self._forgive(queued)
        return queued

    # --- attempts ---------------------------------------------------------------------------------------------------

    def pop(self, now: float) -> QueuedPod | None:
        """Take out the pod that is next, for an attempt; None if there is none.

        Where nothing is ready, the pod whose rest is over soonest is taken, unless it rests after a fault.
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
        """A pod that was taken out has a node; events no longer matter to it. It stays known until `delete`."""
        queued = self._pods.get(uid)
        if queued is not None and queued.place is QueueState.IN_FLIGHT:
            self._leave(queued)
            self._settle(queued, _BINDING)

    def requeue(
        self, uid: str, *, now: float, unschedulable_plugins: Collection[str] = (), pending: Collection[str] = ()
    ) -> QueuedPod | None:
        """An attempt failed: plugins turned the pod away (`pending`: those that only wait); without any it was a fault.

        Events since `pop` decide whether it waits for others or is tried again after its rest. A pod that was deleted
        or bound meanwhile is not put back (None).
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

    # --- what wakes pods --------------------------------------------------------------------------------------------

    def move(self, event: ClusterEvent, old: Any, new: Any, *, now: float, up_to_priority: int | None = None) -> int:
        """Something has happened: try again whom it may help. Gives the number of pods that no longer wait.

        With `up_to_priority`, pods of higher priority are left alone: a nomination that was taken back concerns only
        those that had to respect it.
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
        """Somebody insists that these pods be tried now, rests and hints aside; gates hold all the same."""
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
        """Time has passed: end rests that are over, and try again who has waited too long. Gives their number."""
        return self._end_rests(now) + self._end_waits(now)

    def next_wakeup(self) -> float | None:
        """When `flush` has something to do at the earliest; None: not before something else happens."""
        moments = []
        if self._backoff:
            moments.append(pod_backoff.over_at(self._backoff.peek()[1][0]))
        if self._error_backoff:
            moments.append(pod_backoff.over_at(self._error_backoff.peek()[1]))
        if self._pool and self._looked_at is not None:
            moments.append(self._looked_at + _LOOK_EVERY_S)
        return min(moments, default=None)

    def take_over(self, former: "SchedulingQueue", now: float) -> None:
        """Go on where another queue stopped: its pods, with their history, and its figures. It must not be used again.

        The plugins here may be others. So who waited is sorted anew and tried again; who is being tried or bound is not
        disturbed. Pods of profiles that are no more are left behind.
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
        """Note that a pod is to come to a node; its former nomination ends."""
        self._nominator.put(pod, node)

    def withdraw(self, uid: str) -> PodInfo | None:
        """Take a pod's nomination back; gives the pod as it was nominated, if it was."""
        return self._nominator.remove(uid)

    def nominated_node(self, uid: str) -> str:
        """Give the node that a pod is to come to, or ""."""
        return self._nominator.node_of(uid)

    def nominations(self) -> Nominations:
        """Give all nominations by node."""
        return self._nominator.by_node

    # --- entering and leaving places --------------------------------------------------------------------------------

    def _enter(self, queued: QueuedPod, worth: HintResult, why: str, now: float) -> None:
        """Find the place for a pod that is in none."""
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
        """Let the plugins that turned a pod away count one less."""
        for plugin in queued.unschedulable_plugins:
            self.turned_away[plugin, queued.pod.shape.scheduler_name] -= 1

    # --- waking -----------------------------------------------------------------------------------------------------

    def _wake(self, queued: QueuedPod, worth: HintResult, why: str, now: float) -> bool:
        """Take a pod out of the pool and find its new place; whether that is outside of the pool."""
        self._leave(queued)
        self._enter(queued, worth, why, now)
        return queued.pod.uid not in self._pool

    def _refile(self, queued: QueuedPod, observed_event: ObservedEvent, now: float) -> None:
        """Ask whether a waiting pod's own update helps it; it may belong to another cohort in any case."""
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
        """Ask what the events of an attempt are worth to its pod; without rejectors there is nobody to ask."""
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
    """Give an event's name in metrics: the resource and what was done to it, as in AssignedPodDelete."""
    return f"{event.resource}{'Or'.join(_camel(action.name or '') for action in event.actions)}"


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))
